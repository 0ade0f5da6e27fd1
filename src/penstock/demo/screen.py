"""What the demo shows while it runs: a live screen in a terminal, a line every few seconds elsewhere.

Both show the same `Shown`; the screen fits 80 columns and 24 rows. A number that is not known shows as a dash, never as
a zero. Everything goes to standard error: standard output holds the result alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self, TypeGuard

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.core.clock import Clock
from penstock.demo.drill import Outage
from penstock.demo.freshness import Spread

LINE_EVERY_S = 5.0
ACCOUNTS_SHOWN = 6
_WIDTH_MAX = 100
_OUTCOMES_IN_A_LINE = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """Something that is waited for; `seconds` so far, or in all where it is done."""

    what: str
    seconds: float
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """The state of the traffic at one moment; None where nothing is known yet."""

    elapsed_s: float
    seconds: float
    sent: int
    waiting: int
    sent_per_s: float | None
    applied_per_s: float | None
    behind_s: float
    recent: Spread | None
    outcomes: Mapping[str, int] | None
    accounts: Sequence[Mapping[str, object]]
    outages: Sequence[Outage]
    now: float
    begun: float


class Display(Protocol):
    """Where progress is shown."""

    def stage(self, stage: Stage) -> None: ...

    def traffic(self, shown: Shown) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def display_for(clock: Clock) -> Display:
    """The live screen where standard error is a terminal that can move its cursor."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else PlainLines(clock)


@dataclass(slots=True)
class PlainLines:
    """One line when a stage begins, drags on or ends, one every few seconds of traffic."""

    clock: Clock
    _stage: str = ""
    _next: float = field(default=float("-inf"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is open."""

    def stage(self, stage: Stage) -> None:
        if stage.is_done or stage.what != self._stage or self._is_due():
            _write(stage_line(stage))
            self._next = self.clock.monotonic() + LINE_EVERY_S
        self._stage = stage.what

    def traffic(self, shown: Shown) -> None:
        if self._is_due():
            _write(traffic_line(shown))
            self._next = self.clock.monotonic() + LINE_EVERY_S

    def _is_due(self) -> bool:
        return self.clock.monotonic() >= self._next


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class LiveScreen:
    """The screen in a terminal, drawn anew at every call."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False, vertical_overflow="crop")
        self._stages: dict[str, Stage] = {}
        self._shown: Shown | None = None

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.__exit__(kind, error, at)

    def stage(self, stage: Stage) -> None:
        self._stages[stage.what] = stage
        self._draw()

    def traffic(self, shown: Shown) -> None:
        # What started up is of no interest once numbers move; what comes after them is.
        if self._shown is None:
            self._stages.clear()
        self._shown = shown
        self._draw()

    @property
    def state(self) -> tuple[Shown | None, list[Stage]]:
        """What is drawn now."""
        return self._shown, list(self._stages.values())

    def _draw(self) -> None:
        shown, stages = self.state
        width = min(_WIDTH_MAX, self._live.console.width)
        self._live.update(screen(shown, stages=stages, width=width), refresh=True)


def screen(shown: Shown | None, *, stages: Sequence[Stage], width: int) -> RenderableType:
    """The whole picture: heading, traffic, balance, accounts, drill, and what is waited for."""
    lines: list[RenderableType] = [_heading(shown, width=width)]
    if shown is not None:
        lines += [_traffic_table(shown), Text(), balance_text(shown.outcomes), Text(), _accounts_table(shown)]
        lines += [Text(), *(_outage_text(shown, outage) for outage in shown.outages)] if shown.outages else []
    lines += [Text(), *(_stage_text(stage) for stage in stages)] if stages else []
    return Padding(Group(*lines), (0, 1))


def _heading(shown: Shown | None, *, width: int) -> Text:
    title = Text("penstock demo", style="bold cyan") + Text("  usage requests of MLE, billed by account", style="dim")
    time = _time_text(shown) if shown else ""
    title.append(" " * max(2, width - len(title.plain) - len(time) - 2) + time, style="bold")
    return title + Text("\n")


def _time_text(shown: Shown) -> str:
    """The time, and of how much, unless it went on for the drill's sake."""
    elapsed = clock_time(shown.elapsed_s)
    if shown.elapsed_s <= shown.seconds:
        return f"{elapsed} of {clock_time(shown.seconds)}"
    return f"{elapsed}, drill not over" if any(outage.fresh is None for outage in shown.outages) else elapsed


def _traffic_table(shown: Shown) -> Table:
    table = Table.grid(padding=(0, 3))
    waiting = f"{shown.waiting:,} waiting for the log" if shown.waiting else ""
    table.add_row("sending", per_second(shown.sent_per_s), f"{shown.sent:,} sent", Text(waiting, style="yellow"))
    applied = f"{shown.outcomes['applied']:,} applied" if _is_known(shown.outcomes) else "-"
    table.add_row("into the view", per_second(shown.applied_per_s), applied, _behind_text(shown.behind_s))
    p50, p99 = (milliseconds(shown.recent.p50), milliseconds(shown.recent.p99)) if shown.recent else ("-", "-")
    table.add_row("fresh after", f"p50 {p50}", f"p99 {p99}", Text("of the last 10 s", style="dim"))
    return table


def _is_known(outcomes: Mapping[str, int] | None) -> TypeGuard[Mapping[str, int]]:
    """A view that has read nothing has no numbers yet."""
    return outcomes is not None and outcomes["read"] > 0


def _behind_text(seconds: float) -> Text:
    return Text(f"{seconds:.1f} s behind", style="dim" if seconds < 1 else "bold red")


def balance_text(outcomes: Mapping[str, int] | None) -> Text:
    """The balance in three lines that fit a narrow screen, with a word that says whether it holds."""
    if not _is_known(outcomes):
        return Text("waiting for the first batch\n\n", style="yellow")
    parts = {name: count for name, count in outcomes.items() if name != "read"}
    holds = outcomes["read"] == sum(parts.values())
    text = Text("read ", style="dim") + Text(f"{outcomes['read']:,}", style="bold")
    text += Text("  balanced" if holds else "  NOT BALANCED", style="green" if holds else "bold red")
    text.append("\n  = ", style="dim")
    for index, (name, count) in enumerate(parts.items()):
        text.append("\n  + " if index == _OUTCOMES_IN_A_LINE else " + " if index else "", style="dim")
        text.append(f"{name} ", style="dim").append(f"{count:,}")
    return text


def _accounts_table(shown: Shown) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("account", min_width=18)
    table.add_column("requests", justify="right")
    table.add_column("quantity", justify="right")
    for row in largest(shown.accounts)[:ACCOUNTS_SHOWN]:
        table.add_row(str(row["account"]), f"{int(str(row['requests'])):,}", str(row["quantity"]))
    return table


def largest(accounts: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Accounts with the most requests first."""
    return sorted(accounts, key=lambda row: (-int(str(row["requests"])), str(row["account"])))


def _outage_text(shown: Shown, outage: Outage) -> Text:
    style = "dim" if outage.killed is None else "green" if outage.fresh is not None else "bold yellow"
    return Text(outage_line(outage, now=shown.now, begun=shown.begun), style=style)


def outage_line(outage: Outage, *, now: float, begun: float) -> str:
    """What became of a part so far, in words."""
    if outage.killed is None:
        when = f"at {clock_time(outage.due - begun)}" if now < outage.due else "once the view is fresh"
        return f"{outage.part}: to be killed with -9 {when}"
    killed = f"{outage.part}: killed with -9 at {clock_time(outage.killed - begun)}"
    if outage.fresh is not None:
        return f"{killed}, the view fresh again after {outage.fresh - outage.killed:.1f} s"
    state = "down" if outage.started is None else "started again, catching up"
    return f"{killed}, {state} for {now - (outage.started or outage.killed):.1f} s"


def _stage_text(stage: Stage) -> Text:
    return Text(stage_line(stage), style="green" if stage.is_done else "yellow")


def stage_line(stage: Stage) -> str:
    """A stage in words.

    >>> stage_line(Stage("starting Spark", 3.24)), stage_line(Stage("starting Spark", 7.0, is_done=True))
    ('starting Spark ... 3 s', 'starting Spark: done in 7.0 s')
    """
    return (
        f"{stage.what}: done in {stage.seconds:.1f} s" if stage.is_done else f"{stage.what} ... {stage.seconds:.0f} s"
    )


def traffic_line(shown: Shown) -> str:
    """The state of the traffic in one line."""
    parts = [f"{clock_time(shown.elapsed_s)}", f"sent {shown.sent:,} ({per_second(shown.sent_per_s)})"]
    if _is_known(shown.outcomes):
        parts.append(f"applied {shown.outcomes['applied']:,} ({per_second(shown.applied_per_s)})")
    if shown.recent is not None:
        parts.append(f"fresh after p50 {milliseconds(shown.recent.p50)}, p99 {milliseconds(shown.recent.p99)}")
    parts.append(f"{shown.behind_s:.1f} s behind")
    parts += [outage_line(o, now=shown.now, begun=shown.begun) for o in shown.outages if o.is_open]
    return "; ".join(parts)


def per_second(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}/s"


def milliseconds(value: float) -> str:
    return f"{value:,.0f} ms"


def clock_time(seconds: float) -> str:
    """Minutes and seconds.

    >>> clock_time(75.9)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
