"""Pipelines as processes of their own, on a real broker and a real database, to be watched, stopped and killed.

    with running_plant(folder) as plant:
        file = plant.write_usage("usage")
        plant.send("usage", records)
        process = plant.start("run", str(file))
        plant.wait_until(lambda: plant.read("usage") == len(records), process=process)
        process.kill()

V1, V2   `disagreements` holds what a pipeline recorded, and what its views hold, against the model, to the last row.
Limit: POSIX; the process that makes a plant is itself a user of the embedded Postgres, which runs while the plant does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from penstock.core.clock import RealClock
from penstock.core.declared import Topic
from penstock.core.errors import CallerError, RetryError
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.pipeline.declare import Pipeline
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.client import Client
from penstock.testing.broker import BrokerProcess, start_broker
from penstock.testing.model import MemoryLog, ModelRow, RowFunction, expect
from penstock.testing.streams import Sent
from penstock.views import read
from penstock.views.connection import Database
from penstock.views.proof import Difference, differences, log_differences
from penstock.views.read import Evidence
from penstock.views.server import embedded

COMMAND = (sys.executable, "-m", "penstock.cli.app")
PATIENCE_S = 180.0
_POLL_S = 0.05
_SHOWN = 3_000

SCHEMA = "id string, source string, account string, model string, quantity decimal(18,6), accepted_at timestamp"
USAGE = """
import os
from pathlib import Path

from pyspark.sql import functions as F

from penstock import Pipeline, agg, tumbling

pipeline = Pipeline("{name}")
requests = pipeline.topic(
    "{name}",
    schema="{schema}",
    identity=["source", "id"],
    event_time="accepted_at",
)
FATAL = "{fatal}"


@F.udf("string")
def passed_on(account):
    # Whoever takes the file away dies of it: one worker, in the middle of a task.
    if os.path.exists(FATAL):
        os.rename(FATAL, FATAL + ".taken")
        os.kill(os.getpid(), 9)
    return account


@pipeline.stream(requests)
def billable(requests):
    return requests.where("quantity > 0").withColumn("account", passed_on("account"))


pipeline.view(
    "{name}_by_account",
    billable,
    by=["account"],
    columns={{"requests": agg.count(), "quantity": agg.sum("quantity"), "least": agg.min("quantity")}},
)
pipeline.view(
    "{name}_by_minute",
    billable,
    by=[tumbling("1 minute"), "model"],
    columns={{"requests": agg.count(), "mean": agg.avg("quantity"), "last": agg.max("account")}},
)
"""


def plain_billable(_: str, row: ModelRow) -> Iterable[ModelRow]:
    """What `billable` of the file above means, in plain Python."""
    quantity = row["quantity"]
    return [row] if isinstance(quantity, Decimal) and quantity > 0 else []


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


@dataclass(slots=True)
class PipelineProcess:
    """A command that goes on, in a process group of its own; what it says on standard error is kept in a file."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End the driver alone, as `kill -9 PID` does; what it started finds out by itself."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the driver and to its Java."""
        os.killpg(self.process.pid, number)

    def stop(self) -> int:
        """End it as an operator would; gives its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit status, once it ended by itself."""
        return self.process.wait(PATIENCE_S)


@dataclass(slots=True)
class Plant:
    """A broker, a database, and whoever is started on them."""

    folder: Path
    home: Path
    broker: BrokerProcess
    url: str
    started: list[PipelineProcess] = field(default_factory=list)

    def environment(self, settings: Mapping[str, object]) -> dict[str, str]:
        """The process's own, without settings of the machine, with those of the plant and the ones given."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        named = {"home": self.home, "bootstrap": self.broker.address, "cores": 2, **settings}
        return plain | {"PENSTOCK_" + name.upper(): str(value) for name, value in named.items()}

    def call(self, *arguments: str, typed: str = "", **settings: object) -> Answer:
        """Run a command to its end."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=typed,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment(settings),
            timeout=PATIENCE_S,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, launcher: Sequence[str] = COMMAND, **settings: object) -> PipelineProcess:
        """Start a command that goes on. A `launcher` takes the place of the plain one."""
        log = self.folder / f"process-{len(self.started)}.log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*launcher, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=self.folder,
                env=self.environment(settings),
                start_new_session=True,
            )
        self.started.append(PipelineProcess(process, log))
        return self.started[-1]

    def write(self, name: str, text: str) -> Path:
        """Keep a pipeline file in a folder of its own, from which it may import."""
        path = self.folder / name / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def write_usage(self, name: str, *, partitions: int = 3) -> Path:
        """The pipeline of the README under names of its own, and its topic."""
        with self.client() as client:
            client.create_topic(name, partitions)
        return self.write(name, USAGE.format(name=name, schema=SCHEMA, fatal=self.fatal(name)))

    def fatal(self, name: str) -> Path:
        """The file whose taking kills a Python worker of that pipeline."""
        return self.folder / f"{name}.fatal"

    def client(self) -> Client:
        return Client(self.broker.address, clock=RealClock(), patience_s=30.0)

    def produce(self, topic: str, values: Sequence[bytes | None], *, partition: int = 0) -> None:
        """Append values in one batch, as a client does."""
        now = RealClock().now_ms()
        with self.client() as client:
            client.produce(topic, PartitionId(partition), build_batch([Record(None, value, now) for value in values]))

    def send(self, topic: str, sent: Sequence[Sent]) -> None:
        for partition in sorted({record.partition for record in sent}):
            self.produce(topic, [r.value for r in sent if r.partition == partition], partition=partition)

    def records(self, topic: str) -> list[Record]:
        """All that a topic holds; nothing where there is none."""
        with self.client() as client:
            try:
                ends = client.list_offsets(topic, dict.fromkeys(client.partitions(topic), "latest"))
            except CallerError:
                return []
            ranges = [OffsetRange(topic, partition, Offset(0), end) for partition, end in ends.items() if end]
            return [record for each in ranges for record in client.read_records(each)]

    def evidence(self, pipeline: str) -> Evidence:
        with Database(self.url) as database:
            return read.evidence(database, pipeline)

    def status(self, pipeline: str) -> Mapping[str, object]:
        """What the ledger tells of a pipeline; nothing while it is unknown or the database is away."""
        with suppress(RetryError), Database(self.url) as database:
            return next((row for row in read.status(database) if row["pipeline"] == pipeline), {})
        return {}

    def read(self, pipeline: str) -> int:
        """How many records the committed batches have read."""
        outcomes = self.status(pipeline).get("outcomes")
        return int(outcomes["read"]) if isinstance(outcomes, dict) else 0

    def wait_until(self, is_so: Callable[[], bool], *, process: PipelineProcess | None = None) -> None:
        """Wait for a condition; should the process that it depends on end first, say what it said."""
        clock = RealClock()
        deadline = clock.monotonic() + PATIENCE_S
        while not is_so():
            has_ended = process is not None and not process.is_running
            if has_ended or clock.monotonic() > deadline:
                said = process.said[-_SHOWN:] if process else ""
                raise TimeoutError(f"{'the process ended' if has_ended else 'nothing came of it'}: {said}")
            clock.sleep(_POLL_S)

    def end(self) -> None:
        """Kill whatever still runs, stopped processes too."""
        for each in self.started:
            with suppress(ProcessLookupError):
                each.signal_all(signal.SIGKILL)
            each.process.wait(PATIENCE_S)
            for left in Path("/dev/shm").glob(f"penstock-*-{each.pid}"):
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def running_plant(folder: Path, *, home: Path | None = None) -> Iterator[Plant]:
    """A broker and a database under a folder; they end with the block, and so does all that was started on them."""
    broker = start_broker(folder / "log")
    home = home or folder / "home"
    try:
        with embedded(home) as server:
            plant = Plant(folder, home, broker, server.url)
            try:
                yield plant
            finally:
                plant.end()
                plant.broker.stop()
    finally:
        broker.process.kill()


def usage_topic(name: str) -> Topic:
    """The topic of such a pipeline, for who makes records for it."""
    return Pipeline(name).topic(name, schema=SCHEMA, identity=["source", "id"], event_time="accepted_at").topic


def disagreements(
    held: Evidence, *, log: MemoryLog, functions: Mapping[str, RowFunction] | None = None
) -> list[Difference]:
    """What ledger and views hold otherwise than the model: nothing, where the pipeline is exact."""
    expected = expect(
        log,
        definition=held.definition,
        functions=functions or {"billable": plain_billable},
        batches=held.ledger.batches,
    )
    found = log_differences(expected.judged, ledger=held.ledger)
    for view in held.definition.views:
        actual = held.views[view.name].as_mappings()
        found += differences(view, expected=expected.views[view.name], actual=actual)
    return found
