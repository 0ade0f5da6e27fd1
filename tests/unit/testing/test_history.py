"""The checker turns red on every kind of broken promise, and stays green where none was broken."""

from __future__ import annotations

import pytest

from penstock.testing.history import EndSeen, Operation, Read, Written, find_anomalies

GOOD: list[Operation] = [
    Written(0, b"a", 0),
    Written(0, b"b", 1),
    EndSeen(0, 2),
    Read("r", 0, ((0, b"a"), (1, b"b"))),
    Read("s", 0, ((1, b"b"),)),
    Written(1, b"c", 0),
    Read("r", 1, ((0, b"c"),)),
]


def test_a_history_without_broken_promises_is_clean() -> None:
    assert find_anomalies(GOOD) == {}


def test_a_write_that_was_not_acknowledged_may_be_there_or_not() -> None:
    assert find_anomalies([Written(0, b"a", None), Read("r", 0, ((0, b"b"),))]) == {}
    assert find_anomalies([Written(0, b"a", None), Read("r", 0, ((0, b"a"),))]) == {}


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("lost-write", [Written(0, b"a", 0), Read("r", 0, ((0, b"b"), (1, b"c")))]),
        ("lost-write", [Written(0, b"a", 5), Read("r", 0, ((0, b"b"),))]),
        ("lost-write", [Written(0, b"a", 0)]),
        ("duplicate", [Written(0, b"a", 0), Read("r", 0, ((0, b"a"), (1, b"a")))]),
        ("duplicate", [Written(0, b"a", None), Read("r", 0, ((0, b"a"), (1, b"a")))]),
        ("inconsistent-offsets", [Read("r", 0, ((0, b"a"),)), Read("s", 0, ((0, b"b"),))]),
        ("inconsistent-offsets", [Written(0, b"a", 0), Read("r", 0, ((0, b"b"), (1, b"a")))]),
        ("nonmonotonic", [Read("r", 0, ((1, b"b"), (0, b"a")))]),
        ("nonmonotonic", [Read("r", 0, ((1, b"b"),)), Read("r", 0, ((0, b"a"),))]),
        ("nonmonotonic", [Read("r", 0, ((1, b"b"),)), Read("r", 0, ((1, b"b"),))]),
        ("nonmonotonic", [EndSeen(0, 9), EndSeen(0, 8)]),
    ],
)
def test_a_broken_promise_is_found_under_its_name(name: str, history: list[Operation]) -> None:
    assert list(find_anomalies(history)) == [name]
