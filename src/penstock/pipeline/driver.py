"""The loop of one process: a streaming query, started again from the ledger whenever it ends early.

V3   The ledger is the truth about what has happened. Every start uses a new, empty checkpoint and the ledger's offsets;
     an old checkpoint is never read.
What a start again mends (log or database away for a while, a contested batch) is retried for ever by a service and a
few times under `once`; everything else stops the pipeline with its error, the death of Spark's own process too.
L7   A batch whose rows are more than the driver may hold is taken in smaller parts from then on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.errors import CorruptError, DataLossError, RetryError, fail
from penstock.core.units import Offset, PartitionId
from penstock.core.values import cut_to_json
from penstock.pipeline.batch import RESULT_LIMIT, what_it_said
from penstock.pipeline.microbatch import Processor, Progress
from penstock.views import fence

RETRY_S = 1.0
TRIES_ONCE = 3
_WATCH_S = 1


@dataclass(slots=True)
class Driver:
    """Runs queries until it is stopped; `watch` hears of every committed batch, `say` of every hindrance."""

    processor: Processor
    bootstrap: str
    home: Path
    records_max: int
    say: Callable[[str], None]
    watch: Callable[[Progress], None]
    stopping: threading.Event
    _failure: Exception | None = None

    @property
    def name(self) -> str:
        return self.processor.registered.name

    def drive(self, *, once: bool) -> None:
        tries, before = 0, self.processor.number
        while not self.stopping.is_set():
            try:
                before = self._catch_up()
                self._check_log()
                self._run_query(once=once)
            except RetryError as error:
                tries = 1 if self.processor.number > before else tries + 1
                if once and tries >= TRIES_ONCE:
                    raise
                self.say(f"pipeline {self.name}: {error.message}; trying again")
                self.stopping.wait(RETRY_S)
            except (Py4JNetworkError, ConnectionError) as error:
                # Who ends a whole group of processes ends Spark's beside ours, and means a stop like any other.
                if self.stopping.is_set():
                    return
                raise fail(RetryError, "spark-gone", pipeline=self.name) from error
            else:
                return

    def _catch_up(self) -> int:
        """Number batches from where the ledger ends: what became of the last one may have been told to nobody.

        A driver that was taken over ends here, even where no record comes that it could fail to commit.
        """
        database, registered = self.processor.database, self.processor.registered
        fence.hold(database, registered, clock=self.processor.clock)
        with database.errors():
            last = fence.read_last_batch(database.connection, pipeline=registered.id)
        self.processor.number = last or 0
        return self.processor.number

    def _check_log(self) -> None:
        """Ask the log for every topic: what is wrong with it is told here as what it is."""
        client, cut = self.processor.client, self._cut()
        for topic in self.processor.graph.definition.topics:
            partitions = client.partitions(topic.name)
            first = client.list_offsets(topic.name, dict.fromkeys(partitions, "earliest"))
            last = client.list_offsets(topic.name, dict.fromkeys(partitions, "latest"))
            for partition, offset in cut.get(topic.name, {}).items():
                held = (first.get(partition, 0), last.get(partition, 0))
                if not held[0] <= offset <= held[1]:
                    place = f"{topic.name}-{partition}"
                    raise fail(DataLossError, "position-gone", place=place, offset=offset, first=held[0], last=held[1])

    def _cut(self) -> Mapping[str, Mapping[PartitionId, Offset]]:
        database = self.processor.database
        with database.errors():
            return fence.read_cut(database.connection, pipeline=self.processor.registered.id)

    def _run_query(self, *, once: bool) -> None:
        self._failure = None
        with _checkpoint(self.name, home=self.home) as folder:
            query = self._start(folder, once=once)
            try:
                while not self.stopping.is_set() and not query.awaitTermination(_WATCH_S):
                    pass
            except PySparkException as error:
                raise self._reason(error) from error
            finally:
                query.stop()

    def _start(self, folder: Path, *, once: bool) -> StreamingQuery:
        reader = self.processor.spark.readStream.format("penstock").options(
            bootstrap=self.bootstrap,
            intake=self.processor.intake.to_json(),
            start=json.dumps(cut_to_json(self._cut())),
            records_max=str(self.records_max),
        )
        writer = reader.load().writeStream.option("checkpointLocation", str(folder)).queryName(self.name)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        return writer.foreachBatch(self._handle).start()

    def _handle(self, frame: DataFrame, _: int) -> None:
        """Spark calls this for each batch, in a thread of its own, and wraps what is raised; so it is kept."""
        try:
            progress = self.processor.process(frame)
        except Exception as error:
            self._failure = error
            raise
        if progress is not None:
            self.watch(progress)

    def _reason(self, error: PySparkException) -> Exception:
        """Why the query ended: what our own code raised, else what Spark says of the reading side."""
        if self._failure is not None and not isinstance(self._failure, PySparkException):
            return self._failure
        told = str(self._failure or error)
        reason = what_it_said(self._failure or error)
        if RESULT_LIMIT in told:
            self.records_max = max(1, self.records_max // 4)
            return fail(RetryError, "batch-beyond-driver", pipeline=self.name, records_max=self.records_max)
        if f"{CorruptError.__module__}.{CorruptError.__name__}" in told:
            return fail(CorruptError, "log-unreadable", pipeline=self.name, reason=reason)
        return fail(RetryError, "query-ended", pipeline=self.name, reason=reason)


@contextmanager
def stopped_by_signals(stopping: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the loop, its last batch committed whole or not at all; a second one ends the process."""

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


@contextmanager
def _checkpoint(name: str, *, home: Path) -> Iterator[Path]:
    """A new, empty folder, in memory where there is a place for that; what killed processes left is removed first.

    It is this process's own: one that was taken over removes its own when it wakes, and not that of its successor.
    """
    memory = Path("/dev/shm")  # noqa: S108  # nothing in it is ever read by a later start
    parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    prefix = f"penstock-{sha256(str(home).encode()).hexdigest()[:12]}-{name}-"
    folder = parent / f"{prefix}{os.getpid()}"
    for left in parent.glob(f"{prefix}*"):
        if left == folder or not _is_alive(left.name.removeprefix(prefix)):
            shutil.rmtree(left, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
