"""`penstock run`: run a pipeline file until it is stopped, or once through what the log holds now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit, say
from penstock.core.clock import Clock, RealClock

if TYPE_CHECKING:
    from penstock.pipeline.microbatch import Progress

EVERY_S = 5.0


def run(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop when all that the log holds now is committed.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence the process that runs this pipeline, and go on from it.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--as", help="Run as another pipeline, from the start of the log, views prefixed.")
    ] = None,
    bootstrap: Annotated[str | None, typer.Option(help="The log: host:port.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a pipeline file."""
    from penstock.core.settings import read_settings
    from penstock.pipeline.runtime import run as run_pipeline

    progress = Told(RealClock(), is_quiet=output is Output.JSON)
    settings = read_settings(bootstrap=bootstrap)
    run_pipeline(file, settings=settings, once=once, take_over=take_over, name=name, say=say, watch=progress.hear)
    emit({"batches": progress.batches, "read": progress.read}, output=output)


@dataclass(slots=True)
class Told:
    """Batches are many; what they did is told every few seconds."""

    clock: Clock
    is_quiet: bool
    batches: int = 0
    read: int = 0
    _told_read: int = 0
    _told_at: float | None = None

    def hear(self, progress: Progress) -> None:
        self.batches += 1
        self.read += progress.read
        now = self.clock.monotonic()
        since = None if self._told_at is None else now - self._told_at
        if not self.is_quiet and (since is None or since >= EVERY_S):
            rate = "" if since is None else f", {(self.read - self._told_read) / since:,.0f} records/s"
            took = sum(progress.phases.values()) * 1000
            say(f"batch {progress.number}: {self.read:,} records read{rate}; the last batch took {took:.0f} ms")
            self._told_at, self._told_read = now, self.read
