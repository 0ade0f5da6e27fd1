"""The producer's open loop: what is due is sent by the clock alone, and ages count from the intended time."""

from __future__ import annotations

from collections import deque

import pytest

from penstock.core.clock import ManualClock
from penstock.core.errors import RetryError, fail
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.demo.freshness import Freshness, Spread
from penstock.demo.sender import Delivered, Sender, Sending
from penstock.demo.traffic import Message, Traffic
from penstock.demo.truth import Truth

START_MS = 1_790_000_000_000
ZERO = PartitionId(0)


class MemorySink:
    """Takes messages while there is room; `report` tells that the log took all of them."""

    def __init__(self, *, room: int = 10_000) -> None:
        self.room = room
        self.timestamps: list[int] = []
        self.messages: list[Message] = []
        self._held: deque[Delivered] = deque()

    def send(self, message: Message, *, timestamp_ms: TimestampMs, delivered: Delivered) -> bool:
        if len(self._held) >= self.room:
            return False
        self.messages.append(message)
        self.timestamps.append(timestamp_ms)
        self._held.append(delivered)
        return True

    def serve(self) -> None:
        """Reports come when the test says so."""

    def waiting(self) -> int:
        return len(self._held)

    def report(self) -> None:
        for offset in range(len(self.messages) - len(self._held), len(self.messages)):
            self._held.popleft()(ZERO, Offset(offset))


class RefusingSink(MemorySink):
    def serve(self) -> None:
        raise fail(RetryError, "demo-record-refused", reason="too large", log="broker.log")


def sender_of(sink: MemorySink, clock: ManualClock, *, rate: int = 10, freshness: Freshness | None = None) -> Sender:
    traffic = Traffic(seed=1, run=1)
    return Sender(traffic, sink, rate=rate, truth=Truth(), freshness=freshness or Freshness(), clock=clock)


def test_what_is_due_is_sent_and_the_next_waited_for() -> None:
    clock, sink = ManualClock(START_MS), MemorySink()
    sender = sender_of(sink, clock)
    assert sender.step() == pytest.approx(0.1)
    clock.advance(0.25)
    assert sender.step() == pytest.approx(0.05)
    assert (sender.sent, sink.timestamps) == (3, [START_MS, START_MS + 100, START_MS + 200])


def test_a_sender_that_was_held_up_sends_everything_with_the_intended_times() -> None:
    clock, sink = ManualClock(START_MS), MemorySink(room=2)
    freshness = Freshness()
    sender = sender_of(sink, clock, freshness=freshness)
    clock.advance(0.5)
    sender.step()
    assert (sender.sent, sender.waiting()) == (2, 2)
    sink.report()
    sink.room = 100
    clock.advance(1.5)
    sender.step()
    sink.report()
    assert sink.timestamps == [START_MS + number * 100 for number in range(21)]
    freshness.advance({ZERO: Offset(21)}, at=clock.monotonic())
    # Due at 0.0, 0.1 ... 2.0, and all of them seen at 2.0.
    assert freshness.spread() == Spread(1_000.0, 2_000.0, 2_000.0, 21)


def test_a_full_buffer_changes_nothing_of_what_is_sent() -> None:
    clock, narrow, wide = ManualClock(START_MS), MemorySink(room=1), MemorySink()
    held_up, free = sender_of(narrow, clock, rate=100), sender_of(wide, clock, rate=100)
    clock.advance(5.0)
    free.step()
    while held_up.sent < free.sent:
        held_up.step()
        narrow.report()
    assert narrow.messages == wide.messages


def test_only_what_the_log_took_is_counted_as_true() -> None:
    clock, sink = ManualClock(START_MS), MemorySink()
    sender = sender_of(sink, clock, rate=1_000)
    clock.advance(0.4995)
    sender.step()
    assert (sender.sent, sender.truth.read) == (500, 0)
    sink.report()
    assert (sender.truth.read, sender.truth.through) == (500, {ZERO: 500})
    assert sender.truth.gaps == []


def test_a_high_rate_is_sampled() -> None:
    clock, sink, freshness = ManualClock(START_MS), MemorySink(), Freshness()
    sender = sender_of(sink, clock, rate=1_000, freshness=freshness)
    clock.advance(0.9995)
    sender.step()
    sink.report()
    freshness.advance({ZERO: Offset(1_000)}, at=clock.monotonic())
    spread = freshness.spread()
    assert spread is not None
    assert spread.samples == 250


def test_what_the_sender_raises_reaches_who_asks() -> None:
    sending = Sending(sender_of(RefusingSink(), ManualClock(START_MS)))
    with sending:
        sending.join()
    with pytest.raises(RetryError, match="demo-record-refused"):
        sending.check()
