"""Finding the records on which a function raises."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.blame import PROBED_FROM, PROBES, TooManyCulprits, find_culprits


def test_nobody_is_blamed_when_nothing_raises() -> None:
    assert find_culprits(range(9), raises=lambda _: None, most=3) == {}


@given(st.sets(st.integers(0, 60), max_size=7))
def test_exactly_the_raising_records_are_found(bad: set[int]) -> None:
    def raises(some: Sequence[int]) -> str | None:
        hit = bad.intersection(some)
        return f"bad {min(hit)}" if hit else None

    assert find_culprits(range(61), raises=raises, most=8) == {item: f"bad {item}" for item in bad}


def test_more_than_the_limit_stops_the_search_early() -> None:
    runs = 0

    def raises(_: Sequence[int]) -> str:
        nonlocal runs
        runs += 1
        return "all of them"

    with pytest.raises(TooManyCulprits):
        find_culprits(range(100_000), raises=raises, most=5)
    assert runs == PROBES


def test_a_small_batch_is_looked_through_even_where_all_of_it_raises() -> None:
    assert find_culprits(range(PROBED_FROM - 1), raises=lambda _: "no", most=20) == dict.fromkeys(range(9), "no")


def test_many_culprits_between_good_records_stop_the_search() -> None:
    with pytest.raises(TooManyCulprits):
        find_culprits(range(64), raises=lambda some: "odd" if any(n % 2 for n in some) else None, most=5)


def test_a_failure_of_no_single_record_blames_nobody() -> None:
    assert find_culprits([1, 2, 3, 4], raises=lambda some: "both" if {1, 4} <= set(some) else None, most=9) == {}
