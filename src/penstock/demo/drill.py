"""The drill: kill a part with -9, leave it dead for a moment, start it again, wait until the view is fresh again.

A state machine: `handle` takes the time and what is seen, and answers with what to do. The parts are taken one after
the other, each no sooner than `PAUSE_S` after the one before is over and
while the view is fresh.
A part that does not stay up (its port was taken meanwhile) is started again, `STARTS_MAX` times in all.
Worst case: a part is not fresh again within `PATIENCE_S`; then the drill fails, naming it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from penstock.core.errors import RetryError, fail
from penstock.demo.freshness import FRESH_S, Window

PartName = Literal["broker", "pipeline"]

DOWN_S = 2.0
PAUSE_S = 3.0
CATCH_UP_S = 10.0
"""How long a view that is behind may take to catch up before the next part is killed all the same."""
PATIENCE_S = 180.0
RESTART_S = 2.0
STARTS_MAX = 5


@dataclass(frozen=True, slots=True)
class Kill:
    part: PartName


@dataclass(frozen=True, slots=True)
class Start:
    part: PartName


Action = Kill | Start


@dataclass(frozen=True, slots=True)
class Seen:
    """What the drill decides from: the oldest age not covered, the newest send time covered, the parts that run."""

    behind_s: float
    newest_covered: float
    running: frozenset[PartName]


@dataclass(slots=True)
class Outage:
    """One part's death; times in seconds, None while it has not come to that."""

    part: PartName
    due: float
    fresh_s: float = FRESH_S
    killed: float | None = None
    started: float | None = None
    fresh: float | None = None
    starts: int = 0

    @property
    def is_open(self) -> bool:
        return self.killed is not None and self.fresh is None


@dataclass(slots=True)
class Drill:
    """All outages, in order."""

    outages: list[Outage] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Sequence[PartName], *, start: float, seconds: float) -> Drill:
        """Spread the deaths over the middle of a run."""
        return cls([Outage(part, start + seconds * (0.3 + 0.25 * index)) for index, part in enumerate(parts)])

    @property
    def is_over(self) -> bool:
        return all(outage.fresh is not None for outage in self.outages)

    def is_away(self, part: PartName) -> bool:
        """Whether the part may be missing: it was killed and is not known to work again."""
        return any(outage.part == part and outage.is_open for outage in self.outages)

    def windows(self, now: float) -> list[Window]:
        """The time of every outage so far, from the kill until the view was fresh again."""
        return [Window(o.killed, now if o.fresh is None else o.fresh) for o in self.outages if o.killed is not None]

    def handle(self, now: float, seen: Seen) -> list[Action]:
        """What to do now."""
        current = next((outage for outage in self.outages if outage.fresh is None), None)
        if current is None:
            return []
        if current.killed is None:
            return self._begin(current, now, seen)
        if current.started is None or self._has_died(current, now, seen):
            return _start(current, now)
        if seen.newest_covered > current.started and seen.behind_s < current.fresh_s:
            current.fresh = now
        elif now - current.killed > PATIENCE_S:
            raise fail(RetryError, "drill-stalled", part=current.part, seconds=int(PATIENCE_S))
        return []

    def _begin(self, outage: Outage, now: float, seen: Seen) -> list[Action]:
        ends = [before.fresh + PAUSE_S for before in self.outages if before.fresh is not None]
        due = max([outage.due, *ends])
        if now < due or (seen.behind_s > FRESH_S and now < due + CATCH_UP_S):
            return []
        # A slow machine is never a second behind: fresh means as fresh as it was.
        outage.fresh_s = max(FRESH_S, 2 * seen.behind_s)
        outage.killed = now
        return [Kill(outage.part)]

    def _has_died(self, outage: Outage, now: float, seen: Seen) -> bool:
        return (
            outage.started is not None
            and outage.part not in seen.running
            and now - outage.started > RESTART_S
            and outage.starts < STARTS_MAX
        )


def _start(outage: Outage, now: float) -> list[Action]:
    if outage.killed is None or now - outage.killed < DOWN_S:
        return []
    outage.started = now
    outage.starts += 1
    return [Start(outage.part)]
