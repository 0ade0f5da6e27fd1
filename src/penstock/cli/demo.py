"""`penstock demo`: everything on this machine at once, killed in the middle where asked, and the bill proved.

Exit status 0 means that the balance holds, that every outcome and account is as the producer counted it, and that the
proof found no difference; 1 means that one of them does not. Ctrl-C stops everything and ends with 130.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit


def demo(
    *,
    rate: Annotated[int, typer.Option(min=1, max=100_000, help="Requests a second.")] = 1_000,
    seconds: Annotated[int, typer.Option(min=5, help="How long to send; longer where the drill is not over.")] = 45,
    seed: Annotated[int, typer.Option(help="Decides what is sent, but for the times.")] = 1,
    drill: Annotated[
        bool, typer.Option("--drill", help="Kill the log and the pipeline with -9 in the middle.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run log, database, pipeline and a producer here, and prove the bill."""
    from penstock.core.clock import RealClock
    from penstock.core.settings import read_settings
    from penstock.demo.play import Plan, play
    from penstock.demo.screen import display_for

    clock = RealClock()
    plan = Plan(rate=rate, seconds=seconds, seed=seed, drill=drill)
    result = play(plan, settings=read_settings(), display=display_for(clock), clock=clock)
    if output is Output.JSON:
        emit(result.document(), output=output)
    else:
        sys.stdout.write("\n".join(["", *result.lines(), ""]))
    raise typer.Exit(0 if result.holds else 1)
