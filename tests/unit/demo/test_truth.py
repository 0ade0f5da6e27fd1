"""The producer's own count: what it adds, what it settles with the log, and where it contradicts a view."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from penstock.core.files import RealFiles
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.demo.traffic import TOPIC, Kind
from penstock.demo.truth import Found, Truth, load, save

ZERO = PartitionId(0)


def value(account: str, quantity: str) -> bytes:
    return json.dumps({"account": account, "quantity": quantity}).encode()


def found(offset: int, kind: Kind | None = Kind.REQUEST, content: bytes | None = None) -> Found:
    return Found(Offset(offset), kind, content or value("northwind", "1.5"))


def counted() -> Truth:
    truth = Truth()
    for record in (
        found(0),
        found(1, Kind.RETRY),
        found(2, Kind.CONFLICT),
        found(3, Kind.UNREADABLE),
        found(4, Kind.LATE, value("fenwick", "0.000001")),
        found(5, Kind.FREE, value("fenwick", "0.000000")),
    ):
        truth.add(ZERO, record)
    return truth


OUTCOMES = {"read": 6, "applied": 3, "duplicate": 1, "conflict": 1, "rejected": 1, "late": 0, "pending": 0}
ROWS = [
    {"account": "northwind", "requests": 1, "quantity": "1.500000"},
    {"account": "fenwick", "requests": 1, "quantity": "0.000001"},
]


class Log:
    """What stands in the log, by partition and offset; it remembers what was read."""

    def __init__(self, records: dict[int, list[Found]]) -> None:
        self.records = records
        self.asked: list[OffsetRange] = []

    def read(self, wanted: OffsetRange) -> Iterable[Found]:
        self.asked.append(wanted)
        return [record for record in self.records[wanted.partition] if wanted.start <= record.offset < wanted.end]


def test_a_view_that_holds_what_was_sent_differs_nowhere() -> None:
    assert counted().differences(OUTCOMES, rows=ROWS) == []


def test_a_lost_and_a_doubled_request_show_as_differences() -> None:
    truth = counted()
    assert truth.differences({**OUTCOMES, "applied": 4, "duplicate": 0}, rows=ROWS) == [
        "outcome applied: sent 3, found 4",
        "outcome duplicate: sent 1, found 0",
    ]
    assert truth.differences(OUTCOMES, rows=ROWS[:1]) == [
        "requests of fenwick: sent 1, found 0",
        "millionths of fenwick: sent 1, found 0",
    ]


def test_one_millionth_too_much_on_a_bill_is_a_difference() -> None:
    rows = [{**ROWS[0], "quantity": "1.500001"}, ROWS[1]]
    assert counted().differences(OUTCOMES, rows=rows) == ["millionths of northwind: sent 1,500,000, found 1,500,001"]


def test_records_whose_reports_never_came_are_counted_from_the_log() -> None:
    truth = Truth(through={ZERO: Offset(1)})
    log = Log({0: [found(0), found(1, Kind.RETRY), found(2)], 1: [found(0, Kind.UNREADABLE)]})
    truth.catch_up({ZERO: Offset(3), PartitionId(1): Offset(1)}, read=log.read)
    assert log.asked == [
        OffsetRange(TOPIC, ZERO, Offset(1), Offset(3)),
        OffsetRange(TOPIC, PartitionId(1), Offset(0), Offset(1)),
    ]
    assert truth.kinds == {Kind.RETRY: 1, Kind.REQUEST: 1, Kind.UNREADABLE: 1}
    truth.catch_up({ZERO: Offset(3), PartitionId(1): Offset(1)}, read=log.read)
    assert len(log.asked) == 2


def test_records_of_somebody_else_are_counted_apart_and_outcomes_not_compared_then() -> None:
    truth = Truth()
    truth.add(ZERO, found(0))
    truth.add(ZERO, found(3))
    truth.settle(Log({0: [found(1, None), found(2, None)]}).read)
    assert (truth.strangers, truth.repeated, truth.read) == (2, 0, 4)
    assert truth.differences({**OUTCOMES, "read": 4}, rows=[]) == []
    assert truth.differences({**OUTCOMES, "read": 5}, rows=[]) == ["records read all: sent 4, found 5"]


def test_a_record_of_ours_that_was_stored_twice_is_a_difference() -> None:
    truth = Truth()
    truth.add(ZERO, found(0))
    truth.add(ZERO, found(2))
    truth.settle(Log({0: [found(1)]}).read)
    outcomes = {**OUTCOMES, "read": 3, "applied": 2, "duplicate": 0, "conflict": 0, "rejected": 0}
    rows = [{"account": "northwind", "requests": 2, "quantity": "3.000000"}]
    assert truth.differences(outcomes, rows=rows) == ["1 records stand in the log that it never acknowledged"]


def test_what_was_saved_is_loaded_again(tmp_path: Path) -> None:
    truth = counted()
    truth.run = 3
    truth.add(PartitionId(1), found(2))
    save(truth, files=RealFiles(), path=tmp_path / "truth.json")
    assert load(RealFiles(), tmp_path / "truth.json") == truth


def test_a_home_without_a_truth_starts_with_an_empty_one(tmp_path: Path) -> None:
    assert load(RealFiles(), tmp_path / "truth.json") == Truth()
