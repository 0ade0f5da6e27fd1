"""The stretch of a demo in which requests are sent: the sender, the drill, the screen, and the truth kept meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.clock import Clock
from penstock.core.errors import CallerError, RetryError
from penstock.core.files import Files, replace_whole
from penstock.demo.drill import Drill, Kill, PartName, Seen
from penstock.demo.freshness import FRESH_S, Freshness, Window
from penstock.demo.parts import Part
from penstock.demo.result import Rates
from penstock.demo.screen import Display, Shown
from penstock.demo.sender import Sender, Sending
from penstock.demo.truth import to_json
from penstock.demo.watch import Watch
from penstock.views import read
from penstock.views.connection import Database

TICK_S = 0.1
READ_EVERY_S = 0.5
SAVE_EVERY_S = 1.0
RATE_OVER_S = 3.0
RECENT_S = 10.0
START_S_MAX = 20.0
"""A machine that is never fresh within a second is taken to have started after this long."""


class View:
    """What the demo's view holds, read now and then; while the database is away, what it held before."""

    def __init__(self, database: Database, *, name: str) -> None:
        self._database = database
        self._name = name
        self.outcomes: Mapping[str, int] | None = None
        self.rows: Sequence[Mapping[str, object]] = ()

    def look(self) -> None:
        try:
            shown = read.show(self._database, self._name)
        except RetryError:
            return
        except CallerError as error:
            if error.code != "view-unknown":
                raise
            return
        self.outcomes = shown["outcomes"]  # type: ignore[assignment]  # a document of plain JSON
        self.rows = shown["rows"]  # type: ignore[assignment]  # a document of plain JSON

    @property
    def applied(self) -> int:
        return self.outcomes["applied"] if self.outcomes else 0


@dataclass(slots=True)
class Production:
    """Send for `seconds` and until the drill is over. Times are those of the clock's `monotonic`."""

    sender: Sender
    drill: Drill
    parts: Mapping[PartName, Part]
    restart: Callable[[PartName], None]
    freshness: Freshness
    watch: Watch
    view: View
    seconds: float
    display: Display
    clock: Clock
    files: Files
    truth_path: Path
    start_window: Window = field(default_factory=lambda: Window(0.0, 0.0))
    _applied_before: int = 0
    _history: deque[tuple[float, int, int]] = field(default_factory=deque)
    _due: dict[str, float] = field(default_factory=dict)
    _seconds_sending: float = 0.0
    _seconds_in_all: float = TICK_S

    def run(self) -> None:
        self.view.look()
        self._applied_before = self.view.applied
        self.start_window = Window(self.sender.begun, self.sender.begun + START_S_MAX)
        try:
            with Sending(self.sender) as sending:
                while not self._is_enough():
                    self.tick()
                    sending.check()
                    self.watch.check()
                    self.clock.sleep(TICK_S)
            self._seconds_sending = self.elapsed
        finally:
            self.save()

    @property
    def elapsed(self) -> float:
        return self.clock.monotonic() - self.sender.begun

    def _is_enough(self) -> bool:
        return self.elapsed >= self.seconds and self.drill.is_over

    def tick(self) -> None:
        """Look, drill, show."""
        now = self.clock.monotonic()
        for action in self.drill.handle(now, self._seen(now)):
            if isinstance(action, Kill):
                self.parts[action.part].kill()
            else:
                self.restart(action.part)
        for name, part in self.parts.items():
            if not self.drill.is_away(name):
                part.check()
        self._note_start(now)
        if self._is_due("read", now, every=READ_EVERY_S):
            self.view.look()
            self.display.traffic(self._shown(now))
        if self._is_due("save", now, every=SAVE_EVERY_S):
            self.save()

    def _seen(self, now: float) -> Seen:
        running = frozenset(name for name, part in self.parts.items() if part.is_running)
        return Seen(self.freshness.behind(now), self.freshness.newest_covered(), running)

    def _note_start(self, now: float) -> None:
        """The start is over when the first requests are in the view and no other has waited long for it."""
        is_first = self.start_window.end == self.sender.begun + START_S_MAX
        if is_first and self.freshness.newest_covered() > self.sender.begun and self.freshness.behind(now) < FRESH_S:
            self.start_window = Window(self.sender.begun, now)

    def _is_due(self, what: str, now: float, *, every: float) -> bool:
        if now < self._due.get(what, now):
            return False
        self._due[what] = now + every
        return True

    def save(self) -> None:
        """Keep what the log has taken so far."""
        with self.sender.truth_lock:
            content = to_json(self.sender.truth)
        replace_whole(self.files, self.truth_path, content=content)

    def _shown(self, now: float) -> Shown:
        sent_per_s, applied_per_s = self._recent_rates(now)
        return Shown(
            elapsed_s=now - self.sender.begun,
            seconds=self.seconds,
            sent=self.sender.sent,
            waiting=self.sender.waiting(),
            sent_per_s=sent_per_s,
            applied_per_s=applied_per_s,
            behind_s=self.freshness.behind(now),
            recent=self.freshness.spread(since=now - RECENT_S),
            outcomes=self.view.outcomes,
            accounts=self.view.rows,
            outages=self.drill.outages,
            now=now,
            begun=self.sender.begun,
        )

    def _recent_rates(self, now: float) -> tuple[float | None, float | None]:
        self._history.append((now, self.sender.sent, self.view.applied))
        while now - self._history[0][0] > RATE_OVER_S:
            self._history.popleft()
        then, sent, applied = self._history[0]
        if now - then < READ_EVERY_S / 2:
            return None, None
        return (self.sender.sent - sent) / (now - then), (self.view.applied - applied) / (now - then)

    def end(self) -> None:
        """The view holds everything now."""
        now = self.clock.monotonic()
        self._seconds_in_all = max(self.elapsed, TICK_S)
        self.view.look()
        self.display.traffic(self._shown(now))

    def rates(self, *, asked: int) -> Rates:
        """Over the whole stretch, until the view held everything."""
        applied = self.view.applied - self._applied_before
        seconds = self._seconds_in_all
        return Rates(asked, self.sender.sent / max(self._seconds_sending, TICK_S), applied / seconds, seconds)
