"""`penstock run`: run a pipeline file until it is stopped, or once through what the log holds now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit, say


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
    from penstock.pipeline.microbatch import Progress
    from penstock.pipeline.runtime import run as run_pipeline

    done = {"batches": 0, "read": 0}

    def watch(progress: Progress) -> None:
        done["batches"] += 1
        done["read"] += progress.read
        if output is Output.TABLE:
            total = sum(progress.phases.values())
            say(f"batch {progress.number}: {progress.read} records in {total * 1000:.0f} ms")

    settings = read_settings(bootstrap=bootstrap)
    run_pipeline(file, settings=settings, once=once, take_over=take_over, name=name, say=say, watch=watch)
    if output is Output.JSON or once:
        emit(done, output=output)
