"""Sharing out what a batch may read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.source import admit


def test_without_a_limit_all_is_admitted() -> None:
    assert admit({"a": {"0": 3}}, {"a": {"0": 9, "1": 2}}, records_max=None) == {"a": {"0": 9, "1": 2}}


def test_a_quiet_partition_leaves_its_share_to_the_busy_one() -> None:
    end = admit({"a": {"0": 0}, "b": {"0": 5}}, {"a": {"0": 1_000}, "b": {"0": 7}}, records_max=100)
    assert end == {"a": {"0": 98}, "b": {"0": 7}}


def test_an_end_behind_the_start_admits_nothing() -> None:
    assert admit({"a": {"0": 9}}, {"a": {"0": 4}}, records_max=10) == {"a": {"0": 9}}


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=6), st.integers(1, 500))
def test_a_batch_takes_as_much_as_is_allowed_and_there(waiting: list[int], records_max: int) -> None:
    end = admit({}, {"a": {str(p): n for p, n in enumerate(waiting)}}, records_max=records_max)
    taken = [end["a"][str(p)] for p in range(len(waiting))]
    assert sum(taken) == min(sum(waiting), records_max)
    assert all(0 <= took <= there for took, there in zip(taken, waiting, strict=True))
    assert all(took > 0 for took, there in zip(taken, waiting, strict=True) if there and records_max >= len(waiting))
