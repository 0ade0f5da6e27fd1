"""One small pipeline, its batches written by hand, and all that a database holds of it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal

import psycopg
import pyarrow as pa
from psycopg import sql

from penstock.core.clock import Clock, RealClock
from penstock.core.declared import (
    Aggregate,
    AggregateKind,
    Definition,
    FoldView,
    Key,
    Late,
    Measure,
    Stream,
    Topic,
    parse_schema,
)
from penstock.core.units import DurationUs, Offset, PartitionId
from penstock.core.values import OffsetRange, TopicPartition
from penstock.views import fence
from penstock.views.commit import Batch, OutcomeKey
from penstock.views.connection import Database
from penstock.views.fence import Registered
from penstock.views.outbox import Message

TOPIC = "usage.requests"
VIEW = "usage_by_account"
P0 = PartitionId(0)

KIND = {column.name: column.type for column in parse_schema("text string, money decimal(18,2), number bigint")}


def measure(name: str, aggregate: AggregateKind, kind: str = "number") -> Measure:
    return Measure(name, Aggregate(aggregate, None if aggregate == "count" else kind), KIND[kind])


ACCOUNT_VIEW = FoldView(
    VIEW,
    "billable",
    None,
    (Key("account", KIND["text"]),),
    (measure("requests", "count"), measure("amount", "sum", "money"), measure("mean", "avg", "money")),
)


def definition(
    name: str = "usage", *, views: Sequence[FoldView] = (ACCOUNT_VIEW,), fingerprint: str = "f1"
) -> Definition:
    topic = Topic(
        TOPIC,
        parse_schema("id string, account string, amount decimal(18,2), at timestamp"),
        ("id",),
        "at",
        Late("correct", DurationUs(86_400_000_000)),
        DurationUs(60_000_000),
    )
    return Definition(
        name, "/srv/usage.py", fingerprint, (topic,), (Stream("billable", (TOPIC,), fingerprint),), tuple(views)
    )


def take(
    database: Database,
    wanted: Definition | None = None,
    *,
    take_over: bool = False,
    wait_s: float = 0.0,
    clock: Clock | None = None,
) -> Registered:
    return fence.take(
        database,
        wanted or definition(),
        host="here",
        pid=4711,
        clock=clock or RealClock(),
        take_over=take_over,
        wait_s=wait_s,
    )


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


def identities(events: Sequence[tuple[str, int]], *, content: str = "content of {}") -> pa.Table:
    """Accepted events as (id, offset) in partition 0."""
    names = [name for name, _ in events]
    return pa.table(
        {
            "id": pa.array([digest(name) for name in names], pa.binary(16)),
            "content": pa.array([digest(content.format(name)) for name in names], pa.binary(16)),
            "partition": pa.array([0] * len(events), pa.int32()),
            "offset": pa.array([offset for _, offset in events], pa.int64()),
        }
    )


def account_partial(groups: Sequence[tuple[str | None, int, str | None, int]]) -> pa.Table:
    """Groups of the account view as (account, rows, sum of amounts, how many had an amount)."""
    amounts = pa.array(
        [None if amount is None else Decimal(amount) for _, _, amount, _ in groups], pa.decimal128(38, 2)
    )
    rows = pa.array([rows for _, rows, _, _ in groups], pa.int64())
    counts = pa.array([count for _, _, _, count in groups], pa.int64())
    accounts = pa.array([account for account, *_ in groups], pa.string())
    return pa.table(
        {"account": accounts, "rows": rows, "v0": rows, "v1": amounts, "n1": counts, "v2": amounts, "n2": counts}
    )


def batch(
    number: int,
    start: int,
    end: int,
    *,
    outcomes: Mapping[tuple[str, str], int] | None = None,
    accepted: pa.Table | None = None,
    folds: Mapping[str, pa.Table] | None = None,
    outbox: Sequence[Message] = (),
    plan: Mapping[str, object] | None = None,
) -> Batch:
    """A batch that read [start, end) of partition 0; all applied where nothing else is said."""
    judged = {("applied", ""): end - start} if outcomes is None else outcomes
    counts: dict[OutcomeKey, int] = {(TOPIC, P0, name, reason): n for (name, reason), n in judged.items()}
    return Batch(
        number=number,
        ranges=(OffsetRange(TOPIC, P0, Offset(start), Offset(end)),),
        plan=plan or {"clock_ms": 1_700_000_000_000},
        reads={TopicPartition(TOPIC, P0): end - start},
        outcomes=counts,
        identities={} if accepted is None else {TOPIC: accepted},
        folds=folds or {},
        outbox=outbox,
    )


def full_batch(number: int, start: int, name: str) -> Batch:
    """A batch of two records that writes to every table: one applied, one rejected and told to a topic."""
    message = Message(TOPIC + ".rejected", TOPIC, P0, Offset(start + 1), b"k", b"{", (("reason", "not JSON"),))
    return batch(
        number,
        start,
        start + 2,
        outcomes={("applied", ""): 1, ("rejected", "undecodable"): 1},
        accepted=identities([(name, start)]),
        folds={VIEW: account_partial([("acme", 1, "2.50", 1)])},
        outbox=[message],
    )


def without_folds(made: Batch) -> Batch:
    return dataclasses.replace(made, folds={})


def everything(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table of ours but the pipelines' epochs, and of the views, as text."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname = 'penstock' AND tablename <> 'pipelines'"
            " UNION ALL SELECT schemaname, viewname FROM pg_views WHERE schemaname = 'public' ORDER BY 1, 2"
        ).fetchall()
        query = "SELECT t::text FROM {} AS t ORDER BY 1"
        return {
            name: connection.execute(sql.SQL(query).format(sql.Identifier(space, name))).fetchall()
            for space, name in tables
        }
