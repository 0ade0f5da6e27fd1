"""The drill as a script: at each moment what is seen, and what must be done."""

from __future__ import annotations

import pytest

from penstock.core.errors import RetryError
from penstock.demo.drill import PATIENCE_S, STARTS_MAX, Action, Drill, Kill, PartName, Seen, Start
from penstock.demo.freshness import Window

BOTH: frozenset[PartName] = frozenset({"broker", "pipeline"})


def seen(*, behind: float = 0.2, newest: float = 0.0, broker: bool = True) -> Seen:
    return Seen(behind, newest, BOTH if broker else BOTH - {"broker"})


def play(drill: Drill, script: list[tuple[float, Seen, list[Action]]]) -> None:
    for now, state, expected in script:
        assert drill.handle(now, state) == expected, f"at {now}"


def test_each_part_is_killed_started_and_waited_for_in_turn() -> None:
    drill = Drill.of(["broker", "pipeline"], start=100.0, seconds=40.0)
    play(
        drill,
        [
            (111.9, seen(newest=111.5), []),
            (112.0, seen(newest=111.8), [Kill("broker")]),
            (113.9, seen(behind=1.9, newest=111.9, broker=False), []),
            (114.0, seen(behind=2.0, newest=111.9, broker=False), [Start("broker")]),
            # Older records arrive first: fresh is only what was sent after the start.
            (114.5, seen(behind=0.9, newest=113.6), []),
            (115.0, seen(behind=1.1, newest=114.1), []),
            (115.5, seen(behind=0.9, newest=114.6), []),
            (122.0, seen(newest=121.8), [Kill("pipeline")]),
        ],
    )
    assert drill.windows(123.0) == [Window(112.0, 115.5), Window(122.0, 123.0)]
    assert drill.is_away("pipeline")
    assert not drill.is_away("broker")
    play(
        drill,
        [
            (124.0, seen(behind=2.0, newest=121.9), [Start("pipeline")]),
            (135.0, seen(behind=0.5, newest=134.5), []),
            (136.0, seen(newest=135.9), []),
        ],
    )
    assert drill.is_over
    assert drill.windows(140.0)[1] == Window(122.0, 135.0)


def test_a_part_is_left_in_peace_for_a_while_after_the_one_before() -> None:
    drill = Drill.of(["broker", "pipeline"], start=0.0, seconds=10.0)
    play(
        drill,
        [
            (3.0, seen(newest=2.9), [Kill("broker")]),
            (5.0, seen(behind=2.0, newest=2.9, broker=False), [Start("broker")]),
            (7.0, seen(newest=6.8), []),
            (9.9, seen(newest=9.8), []),
            (10.0, seen(newest=9.8), [Kill("pipeline")]),
        ],
    )


def test_a_broker_that_does_not_stay_up_is_started_again() -> None:
    drill = Drill.of(["broker"], start=0.0, seconds=10.0)
    play(
        drill,
        [
            (3.0, seen(), [Kill("broker")]),
            (5.0, seen(behind=2.0, broker=False), [Start("broker")]),
            (6.0, seen(behind=3.0, broker=False), []),
            (7.1, seen(behind=4.1, broker=False), [Start("broker")]),
        ],
    )
    now = 7.1
    for _ in range(STARTS_MAX - 2):
        now += 2.1
        assert drill.handle(now, seen(behind=now, broker=False)) == [Start("broker")]
    assert drill.handle(now + 2.1, seen(behind=now, broker=False)) == []


def test_a_view_that_was_never_fresh_within_a_second_need_not_become_so() -> None:
    drill = Drill.of(["broker"], start=0.0, seconds=10.0)
    play(
        drill,
        [
            (3.0, seen(behind=1.5), []),
            (12.9, seen(behind=1.5), []),
            (13.0, seen(behind=1.5), [Kill("broker")]),
            (15.0, seen(behind=3.5), [Start("broker")]),
            (19.0, seen(behind=3.1, newest=15.9), []),
            (19.5, seen(behind=2.9, newest=16.6), []),
        ],
    )
    assert drill.is_over


def test_a_part_that_never_gets_fresh_again_fails_the_drill_by_name() -> None:
    drill = Drill.of(["broker"], start=0.0, seconds=10.0)
    play(drill, [(3.0, seen(), [Kill("broker")]), (5.0, seen(behind=2.0), [Start("broker")])])
    with pytest.raises(RetryError, match="drill-stalled") as caught:
        drill.handle(3.1 + PATIENCE_S, seen(behind=PATIENCE_S))
    assert caught.value.fields["part"] == "broker"


def test_without_parts_there_is_nothing_to_do() -> None:
    drill = Drill.of([], start=0.0, seconds=10.0)
    assert drill.is_over
    assert drill.handle(5.0, seen()) == []
