"""The demo from start to end: bring the parts up, send, drill, drain, prove, and take the parts down again.

Everything of a demo lies in the home, so a second one goes on where the first ended: the log and the ledger keep their
positions, the producer gets a new run and with it new ids. One demo at a time uses a home.
However it ends, nothing of it is left running: Ctrl-C and SIGTERM stop the parts in order, a second one leaves them to
the guard, and so does a kill of the demo itself.
Worst case: each wait has an end; then there is an error that names the part and its log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, RetryError, fail
from penstock.core.files import RealFiles
from penstock.core.settings import Settings
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.demo import home, truth
from penstock.demo.drill import Drill, PartName
from penstock.demo.freshness import Freshness
from penstock.demo.parts import Guard, Part
from penstock.demo.production import Production, View
from penstock.demo.proof import Proof, read_proof
from penstock.demo.result import Result
from penstock.demo.screen import Display, largest
from penstock.demo.sender import KafkaSink, Sender
from penstock.demo.stages import staged, wait_until
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
READY_S = 120.0
DRAIN_S = 180.0
PROOF_S = 600.0


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
        stack.enter_context(home.alone_in(settings.home, files=files))
        stack.enter_context(home.with_room(settings.home, files=files))
        stack.enter_context(display)
        stack.enter_context(home.stopped_by_sigterm())
        return Play(plan, settings=settings, display=display, clock=clock, stack=stack).run()


class Play:
    """One demo. What it opens is closed with `stack`, the last first."""

    def __init__(self, plan: Plan, *, settings: Settings, display: Display, clock: Clock, stack: ExitStack) -> None:
        self._plan = plan
        self._home = settings.home
        self._display = display
        self._clock = clock
        self._files = RealFiles()
        self._truth_path = self._home / home.FOLDER / "truth.json"
        self._bootstrap = "127.0.0.1:0"
        self._freshness = Freshness()
        with staged("starting the database", display=display, clock=clock):
            self._url = stack.enter_context(server.database_url(settings))
            self._database = stack.enter_context(Database(self._url, application="penstock-demo"))
            schema.ensure(self._database)
        self._guard = Guard()
        stack.callback(self._guard.close)
        self._broker, self._pipeline, self._prover = (self._part(n, stack) for n in ("broker", "pipeline", "proof"))

    def _part(self, name: str, stack: ExitStack) -> Part:
        part = Part(
            name,
            log=self._home / home.FOLDER / f"{name}.log",
            environment={"PENSTOCK_HOME": str(self._home)},
            guard=self._guard,
            clock=self._clock,
        )
        stack.callback(part.stop)
        return part

    def run(self) -> Result:
        self._start_broker()
        self._start_pipeline()
        known = self._recall()
        with Watch(self._url, pipeline=PIPELINE, freshness=self._freshness, clock=self._clock) as watch:
            production = self._produce(known, watch=watch)
        self._pipeline.ask_to_stop()
        proof = self._prove()
        with staged("stopping", display=self._display, clock=self._clock):
            self._pipeline.stop()
            self._broker.stop()
        return self._result(production, known=known, proof=proof)

    def _start_broker(self) -> None:
        with staged("starting the log", display=self._display, clock=self._clock):
            self._start("broker")
            self._bootstrap = self._broker.wait_for("listening on ", timeout_s=READY_S)
            with self._client() as client:
                if TOPIC not in client.topics():
                    client.create_topic(TOPIC, PARTITIONS)

    def _start(self, part: PartName) -> None:
        """Start it, at the same address as before where it is started again."""
        if part == "broker":
            self._broker.start(["broker", "--data", str(self._home / "log"), "--listen", self._bootstrap])
        else:
            self._pipeline.start(["run", str(FILE), "--bootstrap", self._bootstrap])

    def _start_pipeline(self) -> None:
        self._start("pipeline")
        self._wait(
            self._is_driving,
            what="starting Spark and the pipeline",
            timeout_s=READY_S,
            failure=lambda: fail(
                RetryError, "demo-part-silent", part="pipeline", seconds=int(READY_S), log=self._pipeline.log
            ),
        )

    def _wait(
        self, is_done: Callable[[], bool], *, what: str, timeout_s: float, failure: Callable[[], PenstockError]
    ) -> None:
        wait_until(is_done, what=what, timeout_s=timeout_s, failure=failure, display=self._display, clock=self._clock)

    def _is_driving(self) -> bool:
        """Whether our process is the one that holds the pipeline's fence."""
        self._pipeline.check()
        rows = [row for row in read.status(self._database) if row["pipeline"] == PIPELINE]
        return any(row["running"] and row["pid"] == self._pipeline.pid for row in rows)

    def _client(self) -> Client:
        return Client(self._bootstrap, clock=self._clock, client_id="penstock-demo-truth")

    def _recall(self) -> Truth:
        """What earlier runs sent, settled with the log, and a run number that no id has used."""
        known = truth.load(self._files, self._truth_path)
        self._settle(known)
        known.run += 1
        truth.save(known, files=self._files, path=self._truth_path)
        return known

    def _settle(self, known: Truth) -> dict[PartitionId, Offset]:
        """Count what no delivery report told of; the answer is where the log ends."""
        with self._client() as client:
            ends = client.list_offsets(TOPIC, dict.fromkeys(client.partitions(TOPIC), "latest"))
            known.settle(lambda gap: _records(client, gap))
            known.catch_up(ends, read=lambda tail: _records(client, tail))
        return ends

    def _produce(self, known: Truth, *, watch: Watch) -> Production:
        sink = KafkaSink(self._bootstrap, log=self._broker.log)
        traffic = Traffic(seed=self._plan.seed, run=known.run)
        sender = Sender(traffic, sink, rate=self._plan.rate, truth=known, freshness=self._freshness, clock=self._clock)
        names: list[PartName] = ["broker", "pipeline"] if self._plan.drill else []
        production = Production(
            sender=sender,
            drill=Drill.of(names, start=sender.begun, seconds=self._plan.seconds),
            parts={"broker": self._broker, "pipeline": self._pipeline},
            restart=self._start,
            freshness=self._freshness,
            watch=watch,
            view=View(self._database, name=VIEW),
            seconds=self._plan.seconds,
            display=self._display,
            clock=self._clock,
            files=self._files,
            truth_path=self._truth_path,
        )
        production.run()
        self._drain(production, known=known, watch=watch)
        return production

    def _drain(self, production: Production, *, known: Truth, watch: Watch) -> None:
        """Wait until the log has all that was sent and the view all that the log has."""
        sender = production.sender

        def is_taken() -> bool:
            sender.serve()
            return sender.waiting() == 0

        self._wait(
            is_taken,
            what="waiting until the log has everything",
            timeout_s=DRAIN_S,
            failure=lambda: fail(RetryError, "demo-not-taken", count=sender.waiting(), seconds=int(DRAIN_S)),
        )
        ends = self._settle(known)
        production.save()

        def is_covered() -> bool:
            self._pipeline.check()
            watch.check()
            return watch.covers(ends)

        self._wait(
            is_covered,
            what="waiting until the view has everything",
            timeout_s=DRAIN_S,
            failure=lambda: fail(RetryError, "demo-not-covered", behind=watch.missing(ends), seconds=int(DRAIN_S)),
        )
        production.end()

    def _prove(self) -> Proof:
        self._prover.start(["views", "verify", "--bootstrap", self._bootstrap, "--output", "json"])
        self._wait(
            lambda: not self._prover.is_running,
            what="proving the views from the log",
            timeout_s=PROOF_S,
            failure=lambda: fail(
                RetryError, "demo-part-silent", part="proof", seconds=int(PROOF_S), log=self._prover.log
            ),
        )
        if self._prover.status not in {0, 1}:
            self._prover.check()
        return read_proof(self._prover.printed(), pipeline=PIPELINE)

    def _result(self, production: Production, *, known: Truth, proof: Proof) -> Result:
        view, windows = production.view, production.drill.windows(self._clock.monotonic())
        outcomes = view.outcomes or {}
        return Result(
            outcomes=outcomes,
            truth_differences=known.differences(outcomes, rows=view.rows),
            strangers=known.strangers,
            proof=proof,
            freshness=self._freshness.spread(),
            steady=self._freshness.spread(outside=[production.start_window, *windows]),
            rates=production.rates(asked=self._plan.rate),
            bill=largest(view.rows)[0],
            outages=production.drill.outages,
            begun=production.sender.begun,
            home=self._home,
        )


def _records(client: Client, wanted: OffsetRange) -> Iterable[Found]:
    """The records of a range, each with what its header says that it was meant to be."""
    for record in client.read_records(wanted):
        planned = dict(record.headers).get(HEADER)
        yield Found(record.offset, Kind(planned.decode()) if planned else None, record.value)
