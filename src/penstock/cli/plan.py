"""`penstock plan`: what a pipeline file would do, and what is refused in it, without reading a record."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit, say


def plan(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    *,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a pipeline file: its graph, its columns, what is refused."""
    from penstock.core.settings import read_settings
    from penstock.pipeline.described import describe
    from penstock.pipeline.graph import bind
    from penstock.pipeline.load import load_pipeline
    from penstock.pipeline.session import open_session

    settings = read_settings()
    start_spark = partial(open_session, file.stem, home=settings.home, cores=1)
    pipeline = load_pipeline(file, start_spark=start_spark)
    say(f"pipeline {pipeline.name}: starting Spark to check its functions")
    spark = start_spark()
    try:
        emit(describe(bind(pipeline, spark=spark, file=file)), output=output)
    finally:
        spark.stop()
