"""What is to happen at a time of the monotonic clock, unless it is cancelled before; one timer serves all of it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

Then = Callable[[], None]


@dataclass(slots=True, order=True)
class Deadline:
    at: float
    serial: int
    then: Then | None = field(compare=False)

    def cancel(self) -> None:
        """Forget what was to happen; the entry leaves the heap when its time comes."""
        self.then = None


@dataclass(slots=True)
class Deadlines:
    _heap: list[Deadline] = field(default_factory=list)
    _serial: int = 0
    _armed: float | None = None

    def add(self, at: float, then: Then) -> Deadline:
        self._serial += 1
        deadline = Deadline(at, self._serial, then)
        heapq.heappush(self._heap, deadline)
        return deadline

    def fire(self, now: float) -> None:
        """Do what is due."""
        self._armed = None
        while self._heap and self._heap[0].at <= now:
            then = heapq.heappop(self._heap).then
            if then:
                then()

    def to_arm(self) -> float | None:
        """When the timer must fire, if that is earlier than it is set to."""
        while self._heap and self._heap[0].then is None:
            heapq.heappop(self._heap)
        if not self._heap or (self._armed is not None and self._armed <= self._heap[0].at):
            return None
        self._armed = self._heap[0].at
        return self._armed
