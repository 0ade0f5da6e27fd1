"""Verdicts within a batch against a loop that decides one event after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels.intake import ACCEPTED, CONFLICT, DUPLICATE, decide

Event = tuple[int, int, int]  # id, content, partition

EVENTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 2)), max_size=30)
STORED = st.dictionaries(st.integers(0, 5), st.integers(0, 2), max_size=4)


def hashes(values: list[int], *, low: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Small numbers as hashes that differ in the first word, or in the second alone."""
    other = [9] * len(values)
    pairs = zip(other, values, strict=True) if low else zip(values, other, strict=True)
    return np.array(list(pairs), np.uint64).reshape(-1, 2)


def by_hand(events: list[Event], offsets: list[int], stored: dict[int, int]) -> list[int]:
    winners, verdicts = dict(stored), [0] * len(events)
    for row in sorted(range(len(events)), key=lambda row: (events[row][2], offsets[row])):
        identity, content, _ = events[row]
        if identity not in winners:
            winners[identity] = content
            verdicts[row] = ACCEPTED
        else:
            verdicts[row] = DUPLICATE if winners[identity] == content else CONFLICT
    return verdicts


def decided(events: list[Event], offsets: list[int], stored: dict[int, int], *, low: bool) -> list[int]:
    ids = [event[0] for event in events]
    verdicts: list[int] = decide(
        hashes(ids, low=low),
        hashes([event[1] for event in events], low=low),
        np.array([event[2] for event in events], np.int64),
        np.array(offsets, np.int64),
        np.array([identity in stored for identity in ids], np.bool_),
        hashes([stored.get(identity, 0) for identity in ids], low=low),
    ).tolist()
    return verdicts


@given(EVENTS, STORED, st.randoms(use_true_random=False), st.booleans())
def test_v1_every_candidate_has_the_verdict_of_a_loop(events, stored, random, low):  # type: ignore[no-untyped-def]
    offsets = list(range(len(events)))
    random.shuffle(offsets)
    assert decided(events, offsets, stored, low=low) == by_hand(events, offsets, stored)


def test_the_lowest_position_wins_wherever_it_stands() -> None:
    events = [(1, 0, 1), (1, 1, 0), (1, 1, 0), (1, 0, 0)]
    assert decided(events, [5, 9, 7, 8], {}, low=False) == [CONFLICT, DUPLICATE, ACCEPTED, CONFLICT]


def test_a_known_identity_is_never_accepted_again() -> None:
    assert decided([(1, 2, 0), (1, 3, 0)], [0, 1], {1: 3}, low=False) == [CONFLICT, DUPLICATE]


def test_identities_that_share_their_first_word_stay_apart() -> None:
    ids = np.array([[7, 1], [7, 2], [7, 1], [7, 2]], np.uint64)
    contents = np.array([[0, 1], [0, 2], [0, 1], [0, 3]], np.uint64)
    none, offsets = np.zeros(4, np.bool_), np.arange(4)
    verdicts = decide(ids, contents, np.zeros(4, np.int64), offsets, none, contents)
    assert verdicts.tolist() == [ACCEPTED, ACCEPTED, DUPLICATE, CONFLICT]


def test_contents_that_differ_in_one_word_conflict() -> None:
    ids, offsets = np.zeros((3, 2), np.uint64), np.arange(3)
    contents = np.array([[5, 5], [5, 6], [6, 5]], np.uint64)
    verdicts = decide(ids, contents, np.zeros(3, np.int64), offsets, np.zeros(3, np.bool_), contents)
    assert verdicts.tolist() == [ACCEPTED, CONFLICT, CONFLICT]


def test_no_candidate_has_no_verdict() -> None:
    assert decided([], [], {}, low=False) == []
