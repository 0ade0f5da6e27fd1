"""Keep one pipeline running: take the fence, read from where the ledger ends, commit batch by batch, start again.

V3   The ledger is the truth about what has happened. Every start uses a new, empty checkpoint and the ledger's offsets;
     an old checkpoint is never read. A driver that was fenced stops.
What a start again mends (log or database away for a while, a contested batch) is retried for ever by a service and a
few times under `--once`; everything else stops the pipeline with its error.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.clock import Clock, RealClock
from penstock.core.errors import DataLossError, PenstockError, RetryError, fail
from penstock.core.settings import Settings
from penstock.core.units import Offset, PartitionId
from penstock.core.values import TopicPartition, cut_to_json
from penstock.pipeline.batch import compute, what_it_said
from penstock.pipeline.declare import Pipeline
from penstock.pipeline.graph import Graph, bind
from penstock.pipeline.intake import Collected, Known, collect
from penstock.pipeline.intake_rows import Intake, IntakeTopic
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.publish import Publisher, messages_of
from penstock.pipeline.session import open_session
from penstock.protocol.client import Client
from penstock.views import fence
from penstock.views.commit import Batch, commit
from penstock.views.connection import Database
from penstock.views.fence import Registered
from penstock.views.identities import lookup
from penstock.views.server import database_url

RETRY_S = 1.0
TRIES_ONCE = 5
_WATCH_S = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """One committed batch, for whoever watches: how much it read and where its time went, in seconds."""

    number: int
    read: int
    phases: dict[str, float]


def run(
    file: Path,
    *,
    settings: Settings,
    once: bool,
    take_over: bool,
    name: str | None,
    say: Callable[[str], None],
    watch: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Run a pipeline file until it is stopped, or with `once` until everything readable at the start is committed."""
    pipeline = load_pipeline(file)
    if name is not None:
        pipeline.rename(name)
    clock = RealClock()
    with ExitStack() as stack:
        url = stack.enter_context(database_url(settings))
        say(f"pipeline {pipeline.name}: starting Spark")
        spark = open_session(pipeline.name, home=settings.home, cores=settings.cores)
        stack.callback(spark.stop)
        graph = bind(pipeline, spark=spark, file=file)
        database = stack.enter_context(Database(url, application=f"penstock-{pipeline.name}"))
        registered = fence.take(
            database, graph.definition, host=platform.node(), pid=os.getpid(), clock=clock, take_over=take_over
        )
        publisher = Publisher(lambda: Database(url), registered, bootstrap=settings.bootstrap, clock=clock)
        stack.callback(publisher.close)
        driver = Driver(graph, registered, database, publisher, spark, settings, clock, watch)
        say(f"pipeline {pipeline.name}: reading from {cut_to_json(registered.cut) or 'the start of the log'}")
        driver.drive(once=once, say=say)


class Driver:
    """The loop of one process: a streaming query, started again from the ledger whenever it ends early."""

    def __init__(
        self,
        graph: Graph,
        registered: Registered,
        database: Database,
        publisher: Publisher,
        spark: SparkSession,
        settings: Settings,
        clock: Clock,
        watch: Callable[[Progress], None],
    ) -> None:
        self._graph = graph
        self._registered = registered
        self._database = database
        self._publisher = publisher
        self._spark = spark
        self._settings = settings
        self._clock = clock
        self._watch = watch
        self._intake = intake_of(graph.pipeline, key=registered.hash_key)
        self._client = Client(settings.bootstrap, clock=clock, client_id=f"penstock-{registered.name}")
        self._number = registered.batch or 0
        self._failure: BaseException | None = None
        self._stopping = threading.Event()

    def drive(self, *, once: bool, say: Callable[[str], None]) -> None:
        tries = 0
        with _signals(self._stopping):
            while not self._stopping.is_set():
                before = self._number
                try:
                    self._check_log()
                    self._run_query(once=once)
                    return
                except RetryError as error:
                    tries = 1 if self._number > before else tries + 1
                    if once and tries >= TRIES_ONCE:
                        raise
                    say(f"pipeline {self._registered.name}: {error.message}; trying again")
                    self._stopping.wait(RETRY_S)

    def _check_log(self) -> None:
        """Ask the log for every topic: what is wrong with it is told here as what it is."""
        cut = self._cut()
        for topic in self._graph.definition.topics:
            partitions = self._client.partitions(topic.name)
            first = self._client.list_offsets(topic.name, dict.fromkeys(partitions, "earliest"))
            last = self._client.list_offsets(topic.name, dict.fromkeys(partitions, "latest"))
            for partition, offset in cut.get(topic.name, {}).items():
                held = (first.get(partition, 0), last.get(partition, 0))
                if not held[0] <= offset <= held[1]:
                    place = f"{topic.name}-{partition}"
                    raise fail(DataLossError, "position-gone", place=place, offset=offset, first=held[0], last=held[1])

    def _cut(self) -> dict[str, dict[PartitionId, Offset]]:
        with self._database.errors():
            return fence.read_cut(self._database.connection, pipeline=self._registered.id)

    def _run_query(self, *, once: bool) -> None:
        self._failure = None
        with _checkpoint(self._registered.name, home=self._settings.home) as folder:
            query = self._start(folder, once=once)
            try:
                while not self._stopping.is_set() and not query.awaitTermination(_WATCH_S):
                    pass
            except PySparkException as error:
                raise self._reason(error) from error
            finally:
                query.stop()

    def _start(self, folder: Path, *, once: bool) -> StreamingQuery:
        reader = self._spark.readStream.format("penstock").options(
            bootstrap=self._settings.bootstrap,
            intake=self._intake.to_json(),
            start=json.dumps(cut_to_json(self._cut())),
            records_max=str(self._settings.batch_records_max),
        )
        writer = reader.load().writeStream.option("checkpointLocation", str(folder)).queryName(self._registered.name)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        return writer.foreachBatch(self._handle).start()

    def _reason(self, error: PySparkException) -> PenstockError:
        """Why the query ended: what our own code raised, else what Spark says of the reading side."""
        if isinstance(self._failure, PenstockError):
            return self._failure
        if self._failure is not None:
            raise self._failure
        return fail(RetryError, "query-ended", pipeline=self._registered.name, reason=what_it_said(error))

    def _handle(self, frame: DataFrame, _: int) -> None:
        try:
            self._process(frame)
        except BaseException as error:
            self._failure = error
            raise

    def _process(self, frame: DataFrame) -> None:
        marks = [("start", self._clock.monotonic())]
        collected = collect(frame.toArrow(), intake=self._intake)
        marks.append(("read", self._clock.monotonic()))
        if not collected.ranges:
            return
        known = {topic: self._known(topic, collected) for topic in collected.topics}
        marks.append(("lookup", self._clock.monotonic()))
        computed = compute(
            collected,
            known=known,
            graph=self._graph,
            spark=self._spark,
            set_aside_max=self._settings.set_aside_max,
        )
        marks.append(("streams", self._clock.monotonic()))
        refusals = computed.judged.refusals
        messages = list(messages_of(refusals, client=self._client, pipeline=self._registered.name))
        batch = Batch(
            number=self._number + 1,
            ranges=collected.ranges,
            plan={
                "clock_ms": self._clock.now_ms(),
                "set_aside": sorted([t, p, o] for t, p, o in computed.set_aside.said),
            },
            reads={TopicPartition(topic, partition): count for (topic, partition), count in collected.reads.items()},
            outcomes=computed.judged.outcomes,
            identities=computed.judged.identities,
            folds=computed.folds,
            outbox=messages,
        )
        commit(self._database, self._registered, batch, clock=self._clock)
        self._number = batch.number
        marks.append(("commit", self._clock.monotonic()))
        if messages:
            self._publisher.nudge()
        phases = {name: at - before for (name, at), (_, before) in zip(marks[1:], marks, strict=False)}
        self._watch(Progress(batch.number, sum(collected.reads.values()), phases))

    def _known(self, topic: str, collected: Collected) -> Known:
        """Look up the identities of the rows that have one; the others are never asked about."""
        rows = collected.topics[topic]
        found, contents = lookup(self._database, self._registered, topic=topic, ids=rows["id"])
        return Known(found, contents)


def intake_of(pipeline: Pipeline, *, key: bytes) -> Intake:
    topics = [handle.topic for handle in pipeline.topics]
    return Intake(tuple(IntakeTopic(t.name, t.ddl, t.identity, t.event_time) for t in topics), key)


@contextmanager
def _checkpoint(name: str, *, home: Path) -> Iterator[Path]:
    """A new, empty folder, in memory where the machine has a place for that; what a killed run left is removed first."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    folder = parent / f"penstock-{sha256(str(home).encode()).hexdigest()[:12]}-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _signals(stopping: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the loop after the batch in hand; a second one ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
