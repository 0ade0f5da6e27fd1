"""The one commit point: everything that a micro-batch has to say, in one transaction.

V1   A batch whose outcomes do not add up to what was read, in any partition, is not committed.
V3   Fence, identities, folds, outcomes, plan, offsets and outbox commit together or not at all. A batch starts where
     the ledger ends, so a batch that is committed already, or a driver that was taken over, changes nothing.
A lost answer to COMMIT is settled by reading the ledger, after the lost session was ended and its lock taken again.
Worst case: a database that stays away for a minute; then what became of the batch is told by the next start.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
from psycopg import errors
from psycopg.types.json import Jsonb

from penstock.core.errors import FencedError, RetryError, fail
from penstock.core.invariant import invariant
from penstock.core.units import PartitionId
from penstock.core.values import Cut, OffsetRange, TopicPartition
from penstock.views import fence, fold, identities, outbox
from penstock.views.connection import is_lost, meaning, storable
from penstock.views.outbox import Message

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.views.connection import Connection, Database
    from penstock.views.fence import Registered

OUTCOMES = ("applied", "duplicate", "conflict", "rejected", "late", "pending")
READ = "read"
SETTLE_S = 60.0

OutcomeKey = tuple[str, PartitionId, str, str]
"""Topic, partition, outcome, and the reason, which is empty for all but rejected."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch, decided and computed, ready to commit."""

    number: int
    ranges: tuple[OffsetRange, ...]
    plan: Mapping[str, object]
    """What the batch decided from, as JSON; the ranges are added. `set_aside` is `{topic: [[partition, offset]]}`."""
    reads: Mapping[TopicPartition, int]
    """Records per partition as the source counted them."""
    outcomes: Mapping[OutcomeKey, int]
    identities: Mapping[str, pa.Table]
    """Per topic the accepted ones: `id` and `content` of 16 bytes, `partition`, `offset`."""
    folds: Mapping[str, pa.Table]
    """Per view the partial aggregates."""
    outbox: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Phases:
    """Where the time of a commit went, in seconds."""

    fence: float
    identities: float
    fold: float
    ledger: float
    commit: float


def commit(database: Database, registered: Registered, batch: Batch, *, clock: Clock) -> Phases:
    """Commit a batch. When this returns, it is committed; a Retry error means that it is not, and nothing of it."""
    _check_balance(batch)
    try:
        fence.hold(database, registered, clock=clock)
        return _transact(database.connection, registered, batch, clock=clock)
    except psycopg.Error as error:
        if is_lost(error) and settle(database, registered, batch.number, clock=clock):
            return Phases(0, 0, 0, 0, 0)
        raise _meaning(error, registered=registered, batch=batch, where=database.where) from error


def settle(database: Database, registered: Registered, number: int, *, clock: Clock) -> bool:
    """Whether batch `number` is in the ledger under our epoch, once no session of ours can change that any more."""
    deadline = clock.monotonic() + SETTLE_S
    while True:
        try:
            database.close()
            fence.hold(database, registered, clock=clock)
            return _is_recorded(database, registered, number=number)
        except RetryError:
            if clock.monotonic() >= deadline:
                raise
            clock.sleep(0.2)


def _is_recorded(database: Database, registered: Registered, *, number: int) -> bool:
    query = "SELECT 1 FROM penstock.batches WHERE pipeline = %s AND batch = %s AND epoch = %s"
    with database.errors():
        row = database.connection.execute(query, (registered.id, number, registered.epoch)).fetchone()
    return row is not None


def _check_balance(batch: Batch) -> None:
    counted: dict[TopicPartition, int] = dict.fromkeys(batch.reads, 0)
    for (topic, partition, outcome, _), count in batch.outcomes.items():
        invariant(outcome in OUTCOMES, "an outcome is one of six", outcome=outcome)
        where = TopicPartition(topic, partition)
        counted[where] = counted.get(where, 0) + count
    for where, count in counted.items():
        read = batch.reads.get(where, 0)
        invariant(count == read, "every record read has one outcome", where=where, read=read, outcomes=count)


def _transact(connection: Connection, registered: Registered, batch: Batch, *, clock: Clock) -> Phases:
    marks = [clock.monotonic()]
    with connection.transaction():
        fence.check_epoch(connection, registered, lock=True)
        _check_start(batch, registered=registered, cut=fence.read_cut(connection, pipeline=registered.id))
        marks.append(clock.monotonic())
        for topic, accepted in batch.identities.items():
            identities.insert(connection, topic_id=registered.topics[topic], accepted=accepted)
        marks.append(clock.monotonic())
        _fold(connection, registered, batch)
        marks.append(clock.monotonic())
        _record(connection, registered, batch)
        outbox.insert(connection, pipeline=registered.id, messages=batch.outbox)
        marks.append(clock.monotonic())
    marks.append(clock.monotonic())
    return Phases(*(after - before for before, after in itertools.pairwise(marks)))


def _check_start(batch: Batch, *, registered: Registered, cut: Cut) -> None:
    for wanted in batch.ranges:
        applied = cut.get(wanted.topic, {}).get(wanted.partition, wanted.start)
        if wanted.start != applied:
            raise fail(
                FencedError,
                "batch-misplaced",
                batch=batch.number,
                pipeline=registered.name,
                topic=wanted.topic,
                partition=wanted.partition,
                start=wanted.start,
                applied=applied,
            )


def _fold(connection: Connection, registered: Registered, batch: Batch) -> None:
    with connection.pipeline():  # one round trip for all views
        for view in registered.definition.views:
            if view.name in batch.folds:
                fold.apply(connection, view, view_id=registered.views[view.name], partial=batch.folds[view.name])


def _record(connection: Connection, registered: Registered, batch: Batch) -> None:
    ranges = [[each.topic, each.partition, each.start, each.end] for each in batch.ranges]
    with connection.pipeline():
        connection.execute(
            "INSERT INTO penstock.batches (pipeline, batch, epoch, plan) VALUES (%s, %s, %s, %s)",
            (registered.id, batch.number, registered.epoch, Jsonb({**batch.plan, "ranges": ranges})),
        )
        connection.execute(_COUNT, (registered.id, *_columns(_counts(batch), width=5)))
        connection.execute(_MOVE, (registered.id, *_columns(_ends(batch), width=3)))


_COUNT = (
    "INSERT INTO penstock.outcomes AS held SELECT %s, came.*"
    " FROM unnest(%s::text[], %s::int[], %s::text[], %s::text[], %s::bigint[]) AS came"
    " ON CONFLICT (pipeline, topic, partition, outcome, reason) DO UPDATE SET count = held.count + excluded.count"
)
_MOVE = (
    "INSERT INTO penstock.offsets SELECT %s, came.* FROM unnest(%s::text[], %s::int[], %s::bigint[]) AS came"
    " ON CONFLICT (pipeline, topic, partition) DO UPDATE SET next_offset = excluded.next_offset"
)


def _counts(batch: Batch) -> list[tuple[object, ...]]:
    read = [(where.topic, where.partition, READ, "", count) for where, count in batch.reads.items()]
    judged = [(*key[:3], storable(key[3]), count) for key, count in batch.outcomes.items()]
    return [row for row in [*read, *judged] if row[4]]


def _ends(batch: Batch) -> list[tuple[object, ...]]:
    return [(each.topic, each.partition, each.end) for each in batch.ranges]


def _columns(rows: Sequence[tuple[object, ...]], *, width: int) -> list[list[object]]:
    return [[row[i] for row in rows] for i in range(width)]


def _meaning(error: psycopg.Error, *, registered: Registered, batch: Batch, where: str) -> Exception:
    if isinstance(error, errors.UniqueViolation):
        table = error.diag.table_name or ""
        topics = {f"identities_{number}": topic for topic, number in registered.topics.items()}
        if table in topics:
            return fail(
                RetryError, "batch-contested", batch=batch.number, pipeline=registered.name, topic=topics[table]
            )
    return meaning(error, where=where)
