"""Each way in which a pipeline's records can differ from the log is named, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from penstock.core.declared import (
    Aggregate,
    ColumnType,
    Definition,
    FoldView,
    Key,
    Late,
    Measure,
    Stream,
    Topic,
    Window,
    parse_schema,
)
from penstock.core.units import DurationUs, Offset, PartitionId
from penstock.core.values import Cut, OffsetRange, TopicPartition
from penstock.testing.model import Expected, MemoryLog, ModelRow, expect
from penstock.testing.streams import random_batches, random_stream
from penstock.views.proof import Report, differences, log_differences, outcome_differences, prove_view
from penstock.views.proof_judge import APPLIED, DUPLICATE, FUNCTION_RAISED, UNDECODABLE, Judged, Ledger, judge

TOPIC = Topic(
    "t",
    parse_schema("id string, model string, amount decimal(9,2), at timestamp"),
    ("id",),
    "at",
    Late("correct"),
    DurationUs(0),
)
COUNT = Measure("requests", Aggregate("count"), ColumnType("long"))
SUM = Measure("amount", Aggregate("sum", "amount"), ColumnType("decimal", 9, 2))
BY_MODEL = FoldView("by_model", "positive", None, (Key("model", ColumnType("string")),), (COUNT, SUM))
BY_MINUTE = FoldView("by_minute", "positive", Window("at", DurationUs(60_000_000)), (), (COUNT,))
P0, P1 = (TopicPartition("t", PartitionId(number)) for number in (0, 1))


def found_in(view: FoldView, expected: dict[tuple[object, ...], dict[str, object]], *rows: ModelRow) -> list[str]:
    return [str(found) for found in differences(view, expected=expected, actual=rows)]  # type: ignore[arg-type]


def test_v2_equal_views_have_no_difference_however_values_are_written() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    shifted = noon.astimezone(timezone(timedelta(hours=2)))
    expected: dict[tuple[object, ...], dict[str, object]] = {(None,): {"requests": 2, "amount": Decimal("1.5")}}
    assert found_in(BY_MODEL, expected, {"model": None, "requests": 2, "amount": Decimal("1.50")}) == []
    key = (noon, noon + timedelta(minutes=1))
    row = {"window_start": shifted, "window_end": shifted + timedelta(minutes=1), "requests": 1}
    assert found_in(BY_MINUTE, {key: {"requests": 1}}, row) == []


def test_v2_each_kind_of_difference_in_a_view_is_named() -> None:
    expected: dict[tuple[object, ...], dict[str, object]] = {
        ("a",): {"requests": 2, "amount": Decimal("1.50")},
        ("b",): {"requests": 1, "amount": None},
    }
    rows = (
        {"model": "a", "requests": 3, "amount": None},
        {"model": "a", "requests": 2, "amount": Decimal("1.5")},
        {"model": None, "requests": 1, "amount": Decimal(0)},
    )
    assert found_in(BY_MODEL, expected, *rows) == [
        "by_model: model='a': expected no second row, found requests=2, amount=1.5",
        "by_model: model='a', amount: expected 1.50, found null",
        "by_model: model='a', requests: expected 2, found 3",
        "by_model: model='b': expected requests=1, amount=null, found no row",
        "by_model: model=null: expected no row, found requests=1, amount=0",
    ]


def test_v2_windows_are_named_by_their_bounds() -> None:
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    key = (start, start + timedelta(minutes=1))
    assert found_in(BY_MINUTE, {key: {"requests": 1}}) == [
        "by_minute: window_start=2026-03-01T12:00:00Z, window_end=2026-03-01T12:01:00Z:"
        " expected requests=1, found no row"
    ]


def test_v2_a_view_without_keys_has_one_row() -> None:
    view = replace(BY_MODEL, keys=())
    assert found_in(view, {(): {"requests": 1, "amount": None}}, {"requests": 2, "amount": None}) == [
        "by_model: the only row, requests: expected 1, found 2"
    ]


def test_v2_numbers_of_32_bits_and_nan_equal_themselves() -> None:
    highest = Measure("highest", Aggregate("max", "x"), ColumnType("float"))
    view = FoldView("by_x", "s", None, (Key("x", ColumnType("float")),), (highest,))
    proved = prove_view(
        view,
        rows=[{"x": 0.10000000149011612}, {"x": float("nan")}],
        actual=[{"x": 0.1, "highest": 0.1}, {"x": float("nan"), "highest": float("nan")}],
    )
    assert (proved.rows, proved.differences) == (2, ())
    assert found_in(view, {(1.0,): {"highest": 1.0}}, {"x": 1.0, "highest": 1e300}) == [
        "by_x: x=1.0, highest: expected 1.0, found 1e+300"
    ]


def four_records(**changes: object) -> tuple[Judged, Ledger]:
    """An event and its repeat in one partition, a broken record and an event in the other, and their ledger."""
    first, second = (b'{"id": "%s", "at": "2026-03-01T12:00:00Z"}' % name for name in (b"a", b"b"))
    log = MemoryLog({P0: [first, first], P1: [b"{", second]})
    ledger = Ledger(
        cut=cut(2, 2),
        batches=[[part(0, 0, 2), part(1, 0, 1)], [part(1, 1, 2)]],
        winners={"t": [(PartitionId(0), Offset(0)), (PartitionId(1), Offset(1))]},
        set_aside={},
        read={P0: 2, P1: 2},
        outcomes={P0: {APPLIED: 1, DUPLICATE: 1}, P1: {APPLIED: 1, UNDECODABLE: 1}},
    )
    ledger = replace(ledger, **changes)  # type: ignore[arg-type]
    return judge(log, topics=[TOPIC], ledger=ledger), ledger


def part(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("t", PartitionId(partition), Offset(start), Offset(end))


def cut(p0: int, p1: int) -> Cut:
    return {"t": {PartitionId(0): Offset(p0), PartitionId(1): Offset(p1)}}


def found_in_log(**changes: object) -> list[str]:
    judged, ledger = four_records(**changes)
    return [str(found) for found in log_differences(judged, ledger=ledger)]


def test_v1_a_true_ledger_has_no_difference() -> None:
    assert found_in_log() == []


def test_v1_each_wrong_count_is_named_per_partition() -> None:
    wrong = {P0: {APPLIED: 2}, P1: {APPLIED: 1, UNDECODABLE: 1}}
    assert found_in_log(outcomes=wrong) == [
        "t-0: applied: expected 1, found 2",
        "t-0: duplicate: expected 1, found 0",
    ]


def test_v1_counts_of_partitions_that_were_never_read_are_named() -> None:
    judged, ledger = four_records()
    strange = TopicPartition("t", PartitionId(7))
    ledger = replace(
        ledger, read={**ledger.read, strange: 1}, outcomes={**ledger.outcomes, strange: {FUNCTION_RAISED: 1}}
    )
    assert [str(found) for found in outcome_differences(judged, ledger=ledger)] == [
        "t-7: read: expected 0, found 1",
        "t-7: rejected (function raised): expected 0, found 1",
    ]


def test_v1_recorded_outcomes_that_do_not_add_up_to_recorded_reads_are_named() -> None:
    assert found_in_log(read={P0: 3, P1: 2}) == [
        "t-0: read: expected 2, found 3",
        "t-0: sum of outcomes: expected 3, found 2",
    ]


def test_v2_a_wrong_winner_is_named_on_both_sides() -> None:
    wrong = {"t": [(PartitionId(0), Offset(1)), (PartitionId(1), Offset(1))]}
    assert found_in_log(winners=wrong) == [
        "t-0: identity of the record at offset 0: expected claimed here, found not recorded",
        "t-0: identity of the record at offset 1: expected not claimed here, found recorded",
    ]


@pytest.mark.parametrize(
    ("batches", "ends", "named"),
    [
        ([[part(0, 0, 2), part(1, 1, 2)]], cut(2, 2), "t-1: range of batch 1: expected a start at 0, found t-1[1, 2)"),
        (
            [[part(0, 0, 1), part(1, 0, 2)], [part(0, 0, 2)]],
            cut(2, 2),
            "t-0: range of batch 2: expected a start at 1, found t-0[0, 2)",
        ),
        ([[part(0, 0, 2), part(1, 0, 1)]], cut(2, 2), "t-1: cut: expected 1, found 2"),
        ([[part(0, 0, 2)]], cut(2, 2), "t-1: cut: expected 0, found 2"),
        ([[part(0, 0, 2), part(1, 0, 2)]], {"t": {PartitionId(0): Offset(2)}}, "t-1: cut: expected 2, found null"),
    ],
    ids=["the start is skipped", "a range is taken twice", "the cut runs ahead", "no batch", "no cut"],
)
def test_v1_a_plan_that_leaves_out_or_repeats_records_is_named(
    batches: list[list[OffsetRange]], ends: Cut, named: str
) -> None:
    assert named in found_in_log(batches=batches, cut=ends)


def test_a_report_gathers_the_differences_of_log_and_views() -> None:
    judged, ledger = four_records(read={P0: 3, P1: 2})
    view = prove_view(BY_MODEL, rows=[], actual=[{"model": "a", "requests": 1, "amount": None}])
    report = Report(
        pipeline="p",
        cut=ledger.cut,
        views=(view,),
        read=ledger.read,
        expected=judged.outcomes,
        recorded=ledger.outcomes,
        log_differences=tuple(log_differences(judged, ledger=ledger)),
        said="nothing",
    )
    assert [found.where for found in report.differences] == ["t-0", "t-0", "by_model"]


DEFINITION = Definition("p", "p.py", "f", (TOPIC,), (Stream("positive", ("t",), "f"),), (BY_MODEL, BY_MINUTE))


def positive(source: str, row: ModelRow) -> list[ModelRow]:
    return [row] if isinstance(row["amount"], Decimal) and row["amount"] > 0 else []


def raising(source: str, row: ModelRow) -> list[ModelRow]:
    if row["model"] == "large":
        raise ValueError("no large ones")
    return positive(source, row)


def model(seed: int, *, size_max: int = 20) -> tuple[MemoryLog, list[list[OffsetRange]]]:
    log = MemoryLog.of({"t": random_stream(TOPIC, seed=seed, count=150)})
    return log, random_batches(log.ends, seed=seed, size_max=size_max)


@pytest.mark.parametrize("seed", range(5))
def test_v2_the_model_holds_what_a_running_sum_over_accepted_rows_gives(seed: int) -> None:
    log, batches = model(seed)
    expected = expect(log, definition=DEFINITION, functions={"positive": positive}, batches=batches)
    totals: dict[object, list[Decimal]] = {}
    for event in expected.judged.accepted["t"]:
        _, name, amount, _ = event.values
        if isinstance(amount, Decimal) and amount > 0:
            totals.setdefault(name, []).append(amount)
    held: Mapping[object, object] = {key: values for (key,), values in expected.views["by_model"].items()}
    assert held == {name: {"requests": len(found), "amount": sum(found)} for name, found in totals.items()}


@pytest.mark.parametrize("seed", range(5))
def test_v1_records_that_a_function_raises_on_are_set_aside_and_claim_nothing(seed: int) -> None:
    log, batches = model(seed)
    expected = expect(log, definition=DEFINITION, functions={"positive": raising}, batches=batches)
    assert all(event.values[1] != "large" for event in expected.judged.accepted["t"])
    assert len(expected.set_aside["t"]) == _count(expected, FUNCTION_RAISED) > 0
    assert expected.judged.read == log.ends


def _count(expected: Expected, outcome: object) -> int:
    return sum(counts.get(outcome, 0) for counts in expected.judged.outcomes.values())  # type: ignore[call-overload]


@pytest.mark.parametrize("seed", range(5))
def test_v2_any_single_change_of_a_view_is_found(seed: int) -> None:
    log, batches = model(seed)
    expected = expect(log, definition=DEFINITION, functions={"positive": positive}, batches=batches).views["by_model"]
    rows = [{"model": key[0], **values} for key, values in expected.items()]
    assert differences(BY_MODEL, expected=expected, actual=rows) == []
    for number, row in enumerate(rows):
        others = [*rows[:number], *rows[number + 1 :]]
        assert len(differences(BY_MODEL, expected=expected, actual=others)) == 1
        assert len(differences(BY_MODEL, expected=expected, actual=[*rows, row])) == 1
        assert len(differences(BY_MODEL, expected=expected, actual=[*others, row | {"requests": -1}])) == 1
        assert len(differences(BY_MODEL, expected=expected, actual=[*others, row | {"amount": None}])) == 1
