"""How long after its intended send time a request stands in the view.

A sample is a message with the time at which it should have been sent, so a producer that is held up shows as age and
never as silence. It is fresh once the cut of the ledger, which commits with the view, lies behind its offset.
Limits: a time is the end of the look that saw the cut, so an age is too large by up to one look (`RESOLUTION_MS` and
the answer of the database), never too small. All samples of a run are kept, about 100 bytes each.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from penstock.core.units import Offset, PartitionId

RESOLUTION_MS = 5
SAMPLES_PER_S_MAX = 250
FRESH_S = 1.0
"""The view is fresh where no request has waited longer for it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time in seconds, both ends included."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Sample:
    """When a message should have been sent, and when the view covered it."""

    intended: float
    covered: float

    @property
    def age(self) -> float:
        return self.covered - self.intended

    def meets(self, window: Window) -> bool:
        return self.intended <= window.end and self.covered >= window.start


@dataclass(frozen=True, slots=True)
class Spread:
    """Ages in milliseconds; a percentile is the least age that is no smaller than that share of them."""

    p50: float
    p99: float
    max: float
    samples: int


class Freshness:
    """Collects samples; the sender, the watch of the ledger and the screen use it at the same time.

    >>> freshness = Freshness()
    >>> freshness.sent(0, intended=10.0)
    >>> freshness.delivered(0, partition=PartitionId(0), offset=Offset(7))
    >>> freshness.advance({PartitionId(0): Offset(8)}, at=10.25)
    >>> freshness.spread()
    Spread(p50=250.0, p99=250.0, max=250.0, samples=1)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, float] = {}
        self._delivered: dict[PartitionId, deque[tuple[Offset, int]]] = {}
        self._ends: dict[PartitionId, list[Offset]] = {}
        self._times: dict[PartitionId, list[float]] = {}
        self._samples: list[Sample] = []
        self._newest = float("-inf")

    def sent(self, number: int, *, intended: float) -> None:
        with self._lock:
            self._open[number] = intended

    def delivered(self, number: int, *, partition: PartitionId, offset: Offset) -> None:
        """The log took message `number`. The view may have covered it before the report of it came."""
        with self._lock:
            if number not in self._open:
                return
            ends = self._ends.get(partition, [])
            place = bisect_right(ends, offset)
            if place < len(ends):
                self._close(number, at=self._times[partition][place])
            else:
                self._delivered.setdefault(partition, deque()).append((offset, number))

    def advance(self, ends: Mapping[PartitionId, Offset], *, at: float) -> None:
        """The ledger's cut was seen to end there."""
        with self._lock:
            for partition, end in ends.items():
                known = self._ends.setdefault(partition, [])
                if not known or end > known[-1]:
                    known.append(end)
                    self._times.setdefault(partition, []).append(at)
                    self._cover(partition, end=end, at=at)

    def _cover(self, partition: PartitionId, *, end: Offset, at: float) -> None:
        waiting = self._delivered.get(partition, deque())
        while waiting and waiting[0][0] < end:
            self._close(waiting.popleft()[1], at=at)

    def _close(self, number: int, *, at: float) -> None:
        intended = self._open.pop(number)
        self._newest = max(self._newest, intended)
        self._samples.append(Sample(intended, max(at, intended)))

    def behind(self, now: float) -> float:
        """The age of the oldest sample that the view does not cover yet; 0 where there is none."""
        with self._lock:
            oldest = next(iter(self._open.values()), now)
            return max(0.0, now - oldest)

    def newest_covered(self) -> float:
        """The latest intended send time that the view covers."""
        with self._lock:
            return self._newest

    def spread(self, *, outside: Sequence[Window] = (), since: float = float("-inf")) -> Spread | None:
        """Of the samples covered `since` then, without those that meet a window; None where there are none."""
        with self._lock:
            chosen = list(_from_newest(self._samples, since=since))
        return spread_of(sample.age for sample in chosen if not any(sample.meets(window) for window in outside))


def _from_newest(samples: Sequence[Sample], *, since: float) -> Iterable[Sample]:
    """Samples from the newest back to the first that was covered before `since`."""
    for sample in reversed(samples):
        if sample.covered < since:
            return
        yield sample


def spread_of(ages: Iterable[float]) -> Spread | None:
    """Percentiles by nearest rank.

    >>> spread_of([0.1, 0.2, 0.3])
    Spread(p50=200.0, p99=300.0, max=300.0, samples=3)
    """
    ordered = sorted(ages)
    if not ordered:
        return None
    p50, p99, most = (round(ordered[ceil(share * len(ordered)) - 1] * 1_000, 1) for share in (0.50, 0.99, 1.0))
    return Spread(p50, p99, most, len(ordered))
