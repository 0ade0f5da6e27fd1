"""Ages count from the intended send time until a look at the ledger saw the record covered."""

from __future__ import annotations

import pytest

from penstock.core.units import Offset, PartitionId
from penstock.demo.freshness import Freshness, Spread, Window, spread_of

ZERO, ONE = PartitionId(0), PartitionId(1)


def deliver(freshness: Freshness, number: int, *, intended: float, partition: PartitionId, offset: int) -> None:
    freshness.sent(number, intended=intended)
    freshness.delivered(number, partition=partition, offset=Offset(offset))


def test_a_record_is_fresh_when_the_cut_lies_behind_it() -> None:
    freshness = Freshness()
    deliver(freshness, 0, intended=10.0, partition=ZERO, offset=4)
    freshness.advance({ZERO: Offset(4)}, at=10.5)
    assert freshness.spread() is None
    freshness.advance({ZERO: Offset(5)}, at=11.0)
    assert freshness.spread() == Spread(1_000.0, 1_000.0, 1_000.0, 1)


def test_each_partition_has_its_own_cut() -> None:
    freshness = Freshness()
    deliver(freshness, 0, intended=0.0, partition=ZERO, offset=0)
    deliver(freshness, 1, intended=0.0, partition=ONE, offset=0)
    freshness.advance({ONE: Offset(9)}, at=0.25)
    assert freshness.spread() == Spread(250.0, 250.0, 250.0, 1)


def test_a_report_that_comes_after_the_view_takes_the_first_look_that_covered_it() -> None:
    freshness = Freshness()
    freshness.sent(0, intended=1.0)
    for end, at in ((3, 1.25), (6, 1.5), (9, 1.75)):
        freshness.advance({ZERO: Offset(end)}, at=at)
    freshness.delivered(0, partition=ZERO, offset=Offset(5))
    assert freshness.spread() == Spread(500.0, 500.0, 500.0, 1)


def test_what_the_log_has_not_taken_counts_as_behind() -> None:
    freshness = Freshness()
    assert freshness.behind(100.0) == 0.0
    freshness.sent(0, intended=100.0)
    freshness.sent(1, intended=101.0)
    assert freshness.behind(103.5) == 3.5
    freshness.delivered(0, partition=ZERO, offset=Offset(0))
    freshness.advance({ZERO: Offset(1)}, at=103.5)
    assert freshness.behind(103.5) == 2.5
    assert freshness.newest_covered() == 100.0


def test_samples_that_meet_an_outage_are_left_out_where_that_is_asked_for() -> None:
    freshness = Freshness()
    for number, (intended, covered) in enumerate([(0.0, 0.1), (0.95, 1.5), (1.2, 1.9), (2.5, 2.7)]):
        deliver(freshness, number, intended=intended, partition=ZERO, offset=number)
        freshness.advance({ZERO: Offset(number + 1)}, at=covered)
    assert freshness.spread() == Spread(200.0, 700.0, 700.0, 4)
    # The outage of 1.0 to 2.0 met the second and the third.
    assert freshness.spread(outside=[Window(1.0, 2.0)]) == Spread(100.0, 200.0, 200.0, 2)


def test_recent_samples_are_those_covered_since_then() -> None:
    freshness = Freshness()
    for number, covered in enumerate([0.5, 2.0, 4.0]):
        deliver(freshness, number, intended=0.0, partition=ZERO, offset=number)
        freshness.advance({ZERO: Offset(number + 1)}, at=covered)
    assert freshness.spread(since=2.0) == Spread(2_000.0, 4_000.0, 4_000.0, 2)


@pytest.mark.parametrize(
    ("count", "p50", "p99"),
    [(1, 1.0, 1.0), (100, 50.0, 99.0), (101, 51.0, 100.0), (1_000, 500.0, 990.0)],
)
def test_percentiles_are_by_nearest_rank(count: int, p50: float, p99: float) -> None:
    assert spread_of(rank / 1_000 for rank in range(count, 0, -1)) == Spread(p50, p99, float(count), count)
