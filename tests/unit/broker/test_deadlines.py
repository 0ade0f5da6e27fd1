from __future__ import annotations

from penstock.broker.deadlines import Deadlines


def test_deadlines_fire_in_order_and_the_timer_is_only_ever_set_earlier() -> None:
    done: list[str] = []
    deadlines = Deadlines()
    deadlines.add(5.0, lambda: done.append("late"))
    assert deadlines.to_arm() == 5.0
    assert deadlines.to_arm() is None
    deadlines.add(2.0, lambda: done.append("early"))
    assert deadlines.to_arm() == 2.0
    deadlines.fire(3.0)
    assert done == ["early"]
    assert deadlines.to_arm() == 5.0
    deadlines.fire(5.0)
    assert done == ["early", "late"]
    assert deadlines.to_arm() is None


def test_what_is_cancelled_does_not_happen_and_needs_no_timer() -> None:
    done: list[str] = []
    deadlines = Deadlines()
    deadlines.add(1.0, lambda: done.append("x")).cancel()
    assert deadlines.to_arm() is None
    deadlines.fire(9.0)
    assert done == []


def test_the_timer_is_set_again_when_it_fires_early() -> None:
    deadlines = Deadlines()
    deadlines.add(1.0, lambda: None)
    assert deadlines.to_arm() == 1.0
    deadlines.fire(0.999)
    assert deadlines.to_arm() == 1.0
