"""One Spark session, one broker and one database for all tests of this folder; every test has names of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import Pipeline
from penstock.core.clock import RealClock
from penstock.core.settings import Settings, read_settings
from penstock.core.units import PartitionId
from penstock.core.values import TopicPartition
from penstock.pipeline.driver import Driver
from penstock.pipeline.microbatch import Progress
from penstock.pipeline.runtime import driving
from penstock.pipeline.session import open_session
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.client import Client
from penstock.testing.broker import running_broker
from penstock.testing.streams import Sent
from penstock.views import read
from penstock.views.connection import Database
from penstock.views.read import Evidence
from penstock.views.server import embedded

FILE = Path("pipeline.py")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("home")
    return folder


@pytest.fixture(scope="session")
def spark(home: Path) -> Iterator[SparkSession]:
    session = open_session("tests", home=home, cores=2)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("log")) as address:
        yield address


@pytest.fixture(scope="session")
def url(home: Path) -> Iterator[str]:
    with embedded(home) as server:
        yield server.url


@dataclass
class Bench:
    """What a test of a whole pipeline works with."""

    spark: SparkSession
    bootstrap: str
    url: str
    home: Path
    said: list[str] = field(default_factory=list)
    done: list[Progress] = field(default_factory=list)

    def client(self) -> Client:
        return Client(self.bootstrap, clock=RealClock())

    def create(self, topic: str, *, partitions: int = 1) -> None:
        with self.client() as client:
            client.create_topic(topic, partitions)

    def produce(self, topic: str, values: Sequence[bytes | None], *, partition: int = 0) -> None:
        """Append values in one batch, as a client does."""
        now = RealClock().now_ms()
        records = [Record(None, value, now) for value in values]
        with self.client() as client:
            client.produce(topic, PartitionId(partition), build_batch(records))

    def produce_sent(self, topic: str, sent: Sequence[Sent]) -> None:
        for partition in sorted({record.partition for record in sent}):
            self.produce(topic, [r.value for r in sent if r.partition == partition], partition=partition)

    def settings(self, **changed: object) -> Settings:
        return read_settings(bootstrap=self.bootstrap, database_url=self.url, home=self.home, **changed)

    def run(self, pipeline: Pipeline, *, before: Callable[[Driver], None] = lambda _: None, **changed: object) -> None:
        """Run the pipeline through what the log holds now."""
        settings = self.settings(**changed)
        with driving(
            pipeline,
            file=FILE,
            settings=settings,
            url=self.url,
            spark=self.spark,
            take_over=False,
            stopping=threading.Event(),
            say=self.said.append,
            watch=self.done.append,
        ) as driver:
            before(driver)
            driver.drive(once=True)

    def evidence(self, pipeline: str) -> Evidence:
        with Database(self.url) as database:
            return read.evidence(database, pipeline)

    def rows(self, view: str) -> list[dict[str, object]]:
        with Database(self.url) as database:
            return list(read.rows(database, view).as_mappings())

    def outcomes(self, pipeline: str) -> dict[str, int]:
        """Counts over all partitions, as the ledger has them."""
        held = self.evidence(pipeline).ledger
        total = {"read": sum(held.read.values())}
        for counts in held.outcomes.values():
            for outcome, count in counts.items():
                total[str(outcome)] = total.get(str(outcome), 0) + count
        return total

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        with self.client() as client:
            latest = client.list_offsets(topic, dict.fromkeys(client.partitions(topic), "latest"))
        return {TopicPartition(topic, partition): offset for partition, offset in latest.items()}


@pytest.fixture
def bench(spark: SparkSession, bootstrap: str, url: str, home: Path) -> Bench:
    return Bench(spark, bootstrap, url, home)
