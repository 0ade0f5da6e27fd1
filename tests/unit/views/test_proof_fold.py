"""Folds worked out by hand, and sums beside those of another engine."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pytest

from penstock.core.declared import Aggregate, AggregateKind, ColumnType, FoldView, Key, Measure, Window, parse_schema
from penstock.core.errors import BugError, CallerError
from penstock.core.units import DurationUs
from penstock.testing.dice import Dice
from penstock.views.proof_fold import fold

ROWS = Measure("rows", Aggregate("count"), ColumnType("long"))
MINUTE = DurationUs(60_000_000)


def measure(kind: AggregateKind, *, of: str = "v", type: str = "decimal(18,2)") -> Measure:  # noqa: A002  # as in a schema
    return Measure(kind, Aggregate(kind, of), parse_schema(f"{of} {type}")[0].type)


def view_of(*measures: Measure, by: str = "", window: Window | None = None) -> FoldView:
    keys = tuple(Key(column.name, column.type) for column in parse_schema(by)) if by else ()
    return FoldView("a_view", "a_stream", window, keys, measures)


def retracted(row: dict[str, object]) -> dict[str, object]:
    return row | {"_penstock": {"weight": -1}}


def test_rows_are_counted_by_group_and_nulls_group_together() -> None:
    rows: list[dict[str, object]] = [
        {"k": "a", "v": 1},
        {"k": None, "v": 1},
        {"k": "a", "v": None},
        {"k": None, "v": 2},
    ]
    found = fold(rows, view=view_of(ROWS, measure("sum", type="int"), by="k string"))
    assert found == {("a",): {"rows": 2, "sum": 1}, (None,): {"rows": 2, "sum": 3}}
    assert type(found["a",]["sum"]) is int


def test_aggregates_over_no_value_are_null() -> None:
    measures = (measure("sum"), measure("min"), measure("max"), measure("avg"), ROWS)
    assert fold([{"v": None}], view=view_of(*measures)) == {
        (): {"sum": None, "min": None, "max": None, "avg": None, "rows": 1}
    }


def test_no_row_makes_no_group() -> None:
    assert fold([], view=view_of(ROWS)) == {}


def test_sums_of_decimals_are_exact_at_38_digits() -> None:
    largest = Decimal("99999999999999999999.999999999999999999")
    found = fold([{"v": largest}] * 3, view=view_of(measure("sum", type="decimal(38,18)")))
    assert found == {(): {"sum": Decimal("299999999999999999999.999999999999999997")}}


@pytest.mark.parametrize(
    ("type_", "values", "average"),
    [
        ("int", [1, 2], "1.5000"),
        ("int", [1, 1, 0], "0.6667"),
        ("int", [-1, -1, 0], "-0.6667"),
        ("int", [1] + [0] * 31, "0.0313"),  # 0.03125: half goes away from zero
        ("int", [-1] + [0] * 31, "-0.0313"),
        ("int", [3] + [0] * 31, "0.0938"),  # 0.09375
        ("int", [0, 0], "0.0000"),
        ("decimal(9,2)", [Decimal("0.01"), Decimal("0.02"), None], "0.015000"),
        ("decimal(9,2)", [Decimal("0.01"), Decimal(0), Decimal(0)], "0.003333"),
    ],
)
def test_an_average_is_rounded_once_half_away_from_zero(
    type_: str, values: list[int | Decimal | None], average: str
) -> None:
    found = fold([{"v": value} for value in values], view=view_of(measure("avg", type=type_)))
    assert found[()]["avg"] == Decimal(average)
    assert str(found[()]["avg"]) == average


def test_text_compares_by_code_point() -> None:
    rows = [{"v": text} for text in ("a", "Z", "\uffff", "\U00010000", "ä")]
    found = fold(rows, view=view_of(measure("min", type="string"), measure("max", type="string")))
    assert found == {(): {"min": "Z", "max": "\U00010000"}}


def test_not_a_number_is_the_greatest_and_groups_with_itself() -> None:
    nan = float("nan")
    rows = [{"k": float("nan"), "v": 1.0}, {"k": nan, "v": float("nan")}, {"k": nan, "v": float("inf")}]
    found = fold(rows, view=view_of(measure("min", type="double"), measure("max", type="double"), by="k double"))
    ((values),) = found.values()
    assert values["min"] == 1.0
    assert str(values["max"]) == "nan"


@pytest.mark.parametrize(
    ("at", "start", "end"),
    [
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:01:00Z"),
        ("2026-03-01T12:00:59.999999Z", "2026-03-01T12:00:00Z", "2026-03-01T12:01:00Z"),
        ("2026-03-01T12:00:30+05:30", "2026-03-01T06:30:00Z", "2026-03-01T06:31:00Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"),
        ("1969-12-31T23:59:00Z", "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:01:00Z"),
    ],
)
def test_windows_align_to_1970_in_both_directions(at: str, start: str, end: str) -> None:
    view = view_of(ROWS, by="k string", window=Window("at", MINUTE))
    found = fold([{"at": datetime.fromisoformat(at), "k": "a"}], view=view)
    assert found == {(datetime.fromisoformat(start), datetime.fromisoformat(end), "a"): {"rows": 1}}


def test_a_window_past_the_calendar_is_named() -> None:
    view = view_of(ROWS, window=Window("at", MINUTE))
    with pytest.raises(CallerError, match=r"a_view around 9999-12-31 23:59:59\+00:00"):
        fold([{"at": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)}], view=view)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(BugError, match="a time with a zone"):
        fold([{"at": datetime(2026, 3, 1)}], view=view_of(ROWS, window=Window("at", MINUTE)))


def test_a_retraction_takes_its_row_back_and_an_empty_group_is_gone() -> None:
    view = view_of(ROWS, measure("sum", type="int"), measure("max", type="int"), by="k string")
    rows: list[dict[str, object]] = [{"k": "a", "v": 9}, {"k": "a", "v": 4}, {"k": "b", "v": 1}]
    found = fold([*rows, retracted(rows[0]), retracted(rows[2])], view=view)
    assert found == {("a",): {"rows": 1, "sum": 4, "max": 4}}


def test_a_retraction_of_the_last_value_leaves_null() -> None:
    rows: list[dict[str, object]] = [{"v": 9}, {"v": None}]
    found = fold(
        [*rows, retracted(rows[0])], view=view_of(ROWS, measure("sum", type="int"), measure("min", type="int"))
    )
    assert found == {(): {"rows": 1, "sum": None, "min": None}}


def test_a_retraction_that_meets_no_row_is_a_bug() -> None:
    with pytest.raises(BugError, match="no row is retracted before it came"):
        fold([retracted({"k": "a"})], view=view_of(ROWS, by="k string"))


def test_a_retraction_of_another_value_is_a_bug() -> None:
    rows: list[dict[str, object]] = [{"v": 1}, {"v": 2}]
    with pytest.raises(BugError, match="no value is retracted before it came"):
        fold([*rows, retracted({"v": 3})], view=view_of(measure("min", type="int")))


def test_a_sum_of_floats_is_a_bug() -> None:
    with pytest.raises(BugError, match="sums are of exact numbers"):
        fold([{"v": 0.1}], view=view_of(measure("sum", type="double")))


def test_v2_folds_equal_those_of_another_engine_in_any_order_of_rows() -> None:
    dice = Dice(20260301)
    rows = [_random_row(dice) for _ in range(600)]
    measures = (
        ROWS,
        *(Measure(f"{kind}_v", Aggregate(kind, "v"), ColumnType("decimal", 9, 3)) for kind in ("sum", "min", "max")),
        Measure("most_text", Aggregate("max", "t"), ColumnType("string")),
        Measure("first_day", Aggregate("min", "d"), ColumnType("date")),
    )
    view = view_of(*measures, by="k string", window=Window("at", MINUTE))
    assert fold(rows, view=view) == fold(dice.shuffled(rows), view=view) == _by_duckdb(rows)


def _random_row(dice: Dice) -> dict[str, object]:
    return {
        "at": datetime(1969, 12, 31, 23, 50 + dice.below(10), dice.below(60), dice.below(10**6), tzinfo=UTC),
        "k": dice.choose(("a", "b", None)),
        "v": dice.choose((None, Decimal(dice.between(-(10**9) + 1, 10**9)).scaleb(-3))),
        "t": dice.choose((None, "x", "Y", "é", "😀", "\uffee")),
        "d": dice.choose((None, date(2026, 1, 1 + dice.below(28)))),
    }


def _by_duckdb(rows: list[dict[str, object]]) -> dict[tuple[object, ...], dict[str, object]]:
    """The same by SQL, on times without a zone: that engine's zones are an extension that it would download."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE r (moment timestamp, k text, v decimal(9,3), t text, d date)")
    connection.executemany(
        "INSERT INTO r VALUES (?, ?, ?, ?, ?)", [[_without_zone(value) for value in row.values()] for row in rows]
    )
    grouped = connection.execute(
        "SELECT date_trunc('minute', moment), date_trunc('minute', moment) + INTERVAL 1 MINUTE, k,"
        " count(*) AS rows, sum(v) AS sum_v, min(v) AS min_v, max(v) AS max_v, max(t) AS most_text, min(d) AS first_day"
        " FROM r GROUP BY ALL"
    )
    names = [column[0] for column in grouped.description][3:]
    return {
        (start.replace(tzinfo=UTC), end.replace(tzinfo=UTC), k): dict(zip(names, values, strict=True))
        for start, end, k, *values in grouped.fetchall()
    }


def _without_zone(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
