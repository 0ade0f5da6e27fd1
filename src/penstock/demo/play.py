"""The demo from start to end: bring the parts up, send, drill, drain, prove, and take the parts down again.

Everything of a demo lies in the home, so a second one goes on where the first ended: the log and the ledger keep their
positions, the producer gets a new run and with it new ids. One demo at a time uses a home.
However it ends, nothing of it is left running: Ctrl-C and SIGTERM stop the parts in order, a second one leaves them to
the guard, and so does a kill of the demo itself.
Worst case: each wait has an end; then there is an error that names the part and its log.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.core.clock import Clock
from penstock.core.errors import CallerError, RetryError, fail
from penstock.core.files import Files, RealFiles
from penstock.core.settings import Settings
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.demo import proof, truth
from penstock.demo.drill import Drill
from penstock.demo.freshness import Freshness
from penstock.demo.parts import Guard, Part
from penstock.demo.result import Rates, Result
from penstock.demo.screen import Display, Stage, largest
from penstock.demo.sender import KafkaSink, Sender, Sending
from penstock.demo.show import Show
from penstock.demo.traffic import TOPIC, Kind, Traffic
from penstock.demo.truth import HEADER, Found, Truth
from penstock.demo.watch import Watch
from penstock.protocol.client import Client
from penstock.views import read, schema, server
from penstock.views.connection import Database

PIPELINE = "usage"
VIEW = "usage_by_account"
FILE = Path(__file__).with_name("usage.py")
PARTITIONS = 2
ROOM_MIN = 300 * 1024**2
READY_S = 120.0
DRAIN_S = 180.0
TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    rate: int
    seconds: float
    seed: int
    drill: bool


def play(plan: Plan, *, settings: Settings, display: Display, clock: Clock) -> Result:
    """Run the whole demo; the answer tells whether everything holds."""
    files = RealFiles()
    with ExitStack() as stack:
        stack.enter_context(_alone_in(settings.home, files=files))
        _check_room(settings.home, files=files)
        stack.enter_context(display)
        stack.enter_context(_stopped_by_sigterm())
        try:
            return Play(plan, settings=settings, display=display, clock=clock, files=files, stack=stack).run()
        except RetryError as error:
            _check_room(settings.home, files=files, instead_of=error)
            raise


class Play:
    """One demo. What it opens is closed by `stack`."""

    def __init__(
        self, plan: Plan, *, settings: Settings, display: Display, clock: Clock, files: Files, stack: ExitStack
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._display = display
        self._clock = clock
        self._files = files
        self._stack = stack
        self._folder = settings.home / "demo"
        self._bootstrap = "127.0.0.1:0"
        self._freshness = Freshness()

    def run(self) -> Result:
        with self._staged("starting the database"):
            url = self._stack.enter_context(server.database_url(self._settings))
            database = self._stack.enter_context(Database(url, application="penstock-demo"))
            schema.ensure(database)
        guard = Guard()
        self._stack.callback(guard.close)
        self._broker, self._pipeline, prover = (self._part(name, guard) for name in ("broker", "pipeline", "proof"))
        self._start_broker()
        self._start_pipeline(database)
        known = self._recall()
        with Watch(url, pipeline=PIPELINE, freshness=self._freshness, clock=self._clock) as watch:
            show, seconds = self._send(database, known, watch)
        self._pipeline.ask_to_stop()
        found = self._prove(prover)
        self._finish()
        return self._result(database, known=known, show=show, seconds=seconds, found=found)

    def _part(self, name: str, guard: Guard) -> Part:
        environment = {"PENSTOCK_HOME": str(self._settings.home)}
        log = self._folder / f"{name}.log"
        part = Part(name, log=log, environment=environment, guard=guard, clock=self._clock)
        self._stack.callback(part.stop)
        return part

    def _start_broker(self) -> None:
        with self._staged("starting the log"):
            self._broker.start(self._broker_arguments())
            self._bootstrap = self._broker.wait_for("listening on ", timeout_s=READY_S)
        with self._client() as client:
            if TOPIC not in client.topics():
                client.create_topic(TOPIC, PARTITIONS)

    def _broker_arguments(self) -> list[str]:
        """Port 0 the first time, and what came of it when the broker is started again."""
        return ["broker", "--data", str(self._settings.home / "log"), "--listen", self._bootstrap]

    def _pipeline_arguments(self) -> list[str]:
        return ["run", str(FILE), "--bootstrap", self._bootstrap]

    def _start_pipeline(self, database: Database) -> None:
        with self._staged("starting Spark and the pipeline") as still:
            self._pipeline.start(self._pipeline_arguments())
            self._wait(lambda: self._drives(database), part=self._pipeline, still=still, timeout_s=READY_S)

    def _drives(self, database: Database) -> bool:
        """Whether our process is the one that holds the pipeline's fence."""
        rows = [row for row in read.status(database) if row["pipeline"] == PIPELINE]
        return any(row["running"] and row["pid"] == self._pipeline.pid for row in rows)

    def _recall(self) -> Truth:
        """What earlier runs sent, settled with the log, and a run number that no id has used."""
        known = truth.load(self._files, self._truth_path)
        self._settle(known)
        known.run += 1
        truth.save(known, files=self._files, path=self._truth_path)
        return known

    def _settle(self, known: Truth) -> dict[PartitionId, Offset]:
        with self._client() as client:
            ends = client.list_offsets(TOPIC, dict.fromkeys(client.partitions(TOPIC), "latest"))
            known.settle(lambda gap: _records(client, gap))
            known.catch_up(ends, read=lambda tail: _records(client, tail))
        return ends

    def _send(self, database: Database, known: Truth, watch: Watch) -> tuple[Show, float]:
        """Send for the time asked for and until the drill is over; then wait until the view holds everything."""
        traffic = Traffic(seed=self._plan.seed, run=known.run)
        sink = KafkaSink(self._bootstrap, log=self._broker.log)
        sender = Sender(
            traffic, sink, rate=self._plan.rate, truth=known, freshness=self._freshness, clock=self._clock
        )
        parts = {"broker": self._broker, "pipeline": self._pipeline} if self._plan.drill else {}
        drill = Drill.of(list(parts), start=sender.begun, seconds=self._plan.seconds)
        show = Show(sender, self._freshness, drill, database, view=VIEW, seconds=self._plan.seconds, clock=self._clock)
        try:
            with Sending(sender) as sending:
                while show.elapsed < self._plan.seconds or not drill.is_over:
                    self._tick(show, drill, sender)
                    sending.check()
                    watch.check()
                    self._clock.sleep(TICK_S)
            show.sent_for = show.elapsed
            self._drain(sender, known, watch)
        finally:
            self._save(sender, known)
        return show, show.elapsed
