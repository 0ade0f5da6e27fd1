"""Bring one pipeline file up: database, Spark, plan, fence; then hand over to the driver."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.core.clock import RealClock
from penstock.core.errors import RetryError
from penstock.core.settings import Settings
from penstock.core.values import cut_to_json
from penstock.pipeline.declare import Pipeline
from penstock.pipeline.driver import Driver, stopped_by_signals
from penstock.pipeline.graph import bind
from penstock.pipeline.intake_rows import Intake, IntakeTopic, warm_up
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.microbatch import Processor, Progress
from penstock.pipeline.publish import Publisher
from penstock.pipeline.session import open_session
from penstock.protocol.client import Client
from penstock.views import fence, schema
from penstock.views.connection import Database
from penstock.views.server import database_url


def run(
    file: Path,
    *,
    settings: Settings,
    once: bool,
    take_over: bool,
    name: str | None,
    say: Callable[[str], None],
    watch: Callable[[Progress], None],
) -> None:
    """Run a pipeline file until it is stopped, or with `once` until everything readable at the start is committed."""
    start_spark = partial(open_session, name or file.stem, home=settings.home, cores=settings.cores)
    pipeline = load_pipeline(file, start_spark=start_spark)
    if name is not None:
        pipeline.rename(name)
    stopping = threading.Event()
    with stopped_by_signals(stopping), database_url(settings) as url:
        _check_places(pipeline, url=url, bootstrap=settings.bootstrap)
        say(f"pipeline {pipeline.name}: starting Spark")
        threading.Thread(target=warm_up, args=[intake_of(pipeline, key=bytes(16))], daemon=True).start()
        spark = start_spark()
        try:
            with driving(
                pipeline,
                file=file,
                settings=settings,
                url=url,
                spark=spark,
                take_over=take_over,
                stopping=stopping,
                say=say,
                watch=watch,
            ) as driver:
                driver.drive(once=once)
        finally:
            with suppress(Py4JError, OSError):  # where its process is gone there is nothing left to stop
                spark.stop()


def _check_places(pipeline: Pipeline, *, url: str, bootstrap: str) -> None:
    """What is wrong with the database or a topic's name is told at once, not after the seconds that Spark needs."""
    with Database(url) as database:
        schema.ensure(database)
    with suppress(RetryError), Client(bootstrap, clock=RealClock(), patience_s=0) as client:
        for topic in pipeline.topics:
            client.partitions(topic.name)


@contextmanager
def driving(
    pipeline: Pipeline,
    *,
    file: Path,
    settings: Settings,
    url: str,
    spark: SparkSession,
    take_over: bool,
    stopping: threading.Event,
    say: Callable[[str], None],
    watch: Callable[[Progress], None],
) -> Iterator[Driver]:
    """The driver of a pipeline, with the fence taken and everything open that its batches need."""
    clock = RealClock()
    graph = bind(pipeline, spark=spark, file=file)
    with ExitStack() as stack:
        database = stack.enter_context(Database(url, application=f"penstock-{pipeline.name}"))
        registered = fence.take(
            database, graph.definition, host=platform.node(), pid=os.getpid(), clock=clock, take_over=take_over
        )
        client = stack.enter_context(Client(settings.bootstrap, clock=clock, client_id=f"penstock-{pipeline.name}"))
        publisher = Publisher(Database(url), registered, bootstrap=settings.bootstrap, clock=clock, say=say)
        stack.callback(publisher.close)
        processor = Processor(
            graph=graph,
            registered=registered,
            database=database,
            publisher=publisher,
            spark=spark,
            client=client,
            intake=intake_of(pipeline, key=registered.hash_key),
            clock=clock,
            set_aside_max=settings.set_aside_max,
            number=registered.batch or 0,
        )
        say(f"pipeline {pipeline.name}: reading from {cut_to_json(registered.cut) or 'the start of the log'}")
        yield Driver(processor, settings.bootstrap, settings.home, settings.batch_records_max, say, watch, stopping)


def intake_of(pipeline: Pipeline, *, key: bytes) -> Intake:
    topics = [handle.topic for handle in pipeline.topics]
    return Intake(tuple(IntakeTopic(t.name, t.ddl, t.identity, t.event_time) for t in topics), key)
