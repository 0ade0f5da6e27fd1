"""One micro-batch from Spark's frame to the committed transaction.

V3   The order is: read, look identities up, judge, run the streams, fold, commit. Nothing is visible before the commit,
     and the commit checks that the batch starts where the ledger ends, which keeps the lookup true.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from penstock.core.clock import Clock
from penstock.core.values import TopicPartition
from penstock.pipeline.batch import Computed, compute
from penstock.pipeline.graph import Graph
from penstock.pipeline.intake import Collected, Known, collect
from penstock.pipeline.intake_rows import Intake
from penstock.pipeline.publish import Publisher, messages_of
from penstock.protocol.client import Client
from penstock.views.commit import Batch, commit
from penstock.views.connection import Database
from penstock.views.fence import Registered
from penstock.views.identities import lookup
from penstock.views.outbox import Message
from penstock.views.read import SET_ASIDE


@dataclass(frozen=True, slots=True)
class Progress:
    """One committed batch, for whoever watches: how much it read and where its time went, in seconds."""

    number: int
    read: int
    phases: dict[str, float]


@dataclass(slots=True)
class Stopwatch:
    clock: Clock
    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = self.clock.monotonic()
        yield
        self.phases[name] = self.clock.monotonic() - start


@dataclass(slots=True)
class Processor:
    """What the batches of one driver share, and the number of the last one that is committed."""

    graph: Graph
    registered: Registered
    database: Database
    publisher: Publisher
    spark: SparkSession
    client: Client
    intake: Intake
    clock: Clock
    set_aside_max: int
    number: int

    def process(self, frame: DataFrame) -> Progress | None:
        """Take a batch all the way; None where there was nothing to read."""
        watch = Stopwatch(self.clock)
        with watch.phase("read"):
            collected = collect(frame.toArrow(), intake=self.intake)
        if not collected.ranges:
            return None
        with watch.phase("lookup"):
            known = {topic: self._known(topic, collected) for topic in collected.topics}
        with watch.phase("streams"):
            computed = compute(
                collected, known=known, graph=self.graph, spark=self.spark, set_aside_max=self.set_aside_max
            )
        with watch.phase("outbox"):
            refusals = computed.judged.refusals
            messages = list(messages_of(refusals, client=self.client, pipeline=self.registered.name))
        with watch.phase("commit"):
            commit(self.database, self.registered, self._batch(collected, computed, messages), clock=self.clock)
        self.number += 1
        if messages:
            self.publisher.nudge()
        return Progress(self.number, sum(collected.reads.values()), watch.phases)

    def _known(self, topic: str, collected: Collected) -> Known:
        found, contents = lookup(self.database, self.registered, topic=topic, ids=collected.topics[topic]["id"])
        return Known(found, contents.view(np.uint64).reshape(-1, 2))

    def _batch(self, collected: Collected, computed: Computed, messages: list[Message]) -> Batch:
        return Batch(
            number=self.number + 1,
            ranges=collected.ranges,
            plan={"clock_ms": self.clock.now_ms(), SET_ASIDE: computed.set_aside.positions()},
            reads={TopicPartition(topic, partition): count for (topic, partition), count in collected.reads.items()},
            outcomes=computed.judged.outcomes,
            identities=computed.judged.identities,
            folds=computed.folds,
            outbox=messages,
        )
