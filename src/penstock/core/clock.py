"""The one place that reads a clock, sleeps, or draws randomness.

Logic takes a `Clock`; a test hands in a `ManualClock` and moves it by hand.
"""

from __future__ import annotations

import secrets
import time
from typing import Protocol

from penstock.core.units import TimestampMs


class Clock(Protocol):
    def now_ms(self) -> TimestampMs:
        """Wall clock time, for timestamps that leave the process. It may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for deadlines and durations."""
        ...

    def sleep(self, seconds: float) -> None: ...


class RealClock:
    """The machine's clock."""

    def now_ms(self) -> TimestampMs:
        return TimestampMs(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is told to move.

    >>> clock = ManualClock(1_000)
    >>> clock.advance(2.5)
    >>> clock.now_ms()
    3500
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self._monotonic = 0.0

    def now_ms(self) -> TimestampMs:
        return TimestampMs(int(self._now_ms))

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self._now_ms += seconds * 1_000
        self._monotonic += seconds

    def jump_wall_clock(self, seconds: float) -> None:
        """Move wall clock time alone, as an administrator or NTP would."""
        self._now_ms += seconds * 1_000


def random_bytes(count: int) -> bytes:
    """Bytes nobody can guess: ids of topics, hash keys, secrets."""
    return secrets.token_bytes(count)
