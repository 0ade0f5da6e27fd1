"""Read views, the state of pipelines, and what the ledger recorded for the proof.

V3   Rows, cut and outcomes of one answer come from one snapshot: they are of the same commit.
Answers of `list_views`, `show` and `status` are JSON as it is printed: decimals as strings, times as ISO 8601 in UTC.
Limits: a view is read whole into memory unless a limit is given; a ledger holds about 100 bytes per identity.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.core.declared import INTEGERS, Definition, FoldView
from penstock.core.errors import CallerError, fail
from penstock.core.units import Offset, PartitionId
from penstock.core.values import Cut, OffsetRange, TopicPartition, cut_to_json
from penstock.views import definition as definitions
from penstock.views import fence, schema
from penstock.views.commit import OUTCOMES, READ
from penstock.views.proof_judge import Ledger, Outcome, Position

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

    from penstock.views.connection import Connection, Database

SET_ASIDE = "set_aside"
"""In a plan: `{topic: [[partition, offset], ...]}`, the records rejected because a function raised on them."""


@dataclass(frozen=True, slots=True)
class ViewRows:
    """A view's rows as Python values, in the order of its key, and the cut that they stand at."""

    view: FoldView
    cut: Cut
    rows: tuple[tuple[object, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return column_names(self.view)

    def as_mappings(self) -> Iterator[dict[str, object]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


def column_names(view: FoldView) -> tuple[str, ...]:
    """What readers see: the key, then the measures."""
    return (*(key.name for key in view.key_columns), *(measure.name for measure in view.measures))


def list_views(database: Database) -> list[dict[str, object]]:
    """Every view with its pipeline and columns."""
    with snapshot(database) as connection:
        if not schema.exists(connection):
            return []
        rows = connection.execute(
            "SELECT v.name, p.name, v.definition, (SELECT max(committed_at) FROM penstock.batches b"
            " WHERE b.pipeline = p.id) FROM penstock.views v JOIN penstock.pipelines p ON p.id = v.pipeline ORDER BY 1"
        ).fetchall()
    return [
        {
            "view": name,
            "pipeline": pipeline,
            "by": [key.name for key in definitions.view_from_json(stored).key_columns],
            "columns": [measure.name for measure in definitions.view_from_json(stored).measures],
            "committed_at": spell(committed_at),
        }
        for name, pipeline, stored, committed_at in rows
    ]


def show(database: Database, name: str, *, limit: int | None = None) -> dict[str, object]:
    """A view as `penstock views show` prints it."""
    with snapshot(database) as connection:
        pipeline, found = _read_view(connection, name, limit=limit)
        outcomes = _outcomes(connection, pipeline=pipeline)
    return {
        "view": name,
        "cut": cut_to_json(found.cut),
        "outcomes": outcomes,
        "complete_through": None,  # until there are watermarks nothing is known to be complete
        "rows": [{column: spell(value) for column, value in row.items()} for row in found.as_mappings()],
    }


def rows(database: Database, name: str) -> ViewRows:
    """All rows of a view, for who compares them."""
    with snapshot(database) as connection:
        return _read_view(connection, name, limit=None)[1]


def status(database: Database) -> list[dict[str, object]]:
    """Every pipeline: who runs it, how far it is, what became of what it read."""
    with snapshot(database) as connection:
        if not schema.exists(connection):
            return []
        return [_status(connection, row) for row in connection.execute(_PIPELINES).fetchall()]


def ledger(database: Database, pipeline: str) -> Ledger:
    """What the pipeline recorded, all of it at one cut."""
    with snapshot(database) as connection:
        return _ledger(connection, pipeline=_pipeline(connection, pipeline)[0])


def _ledger(connection: Connection, *, pipeline: int) -> Ledger:
    query = "SELECT plan FROM penstock.batches WHERE pipeline = %s ORDER BY batch"
    plans = [plan for (plan,) in connection.execute(query, (pipeline,))]
    read, outcomes = _counted(connection, pipeline=pipeline)
    return Ledger(
        cut=fence.read_cut(connection, pipeline=pipeline),
        batches=[[OffsetRange(*each) for each in plan["ranges"]] for plan in plans],
        winners=_winners(connection, pipeline=pipeline),
        set_aside=_set_aside(plans),
        read=read,
        outcomes=outcomes,
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a proof compares with the log: the definition, the ledger and the views, at one cut."""

    definition: Definition
    ledger: Ledger
    views: Mapping[str, ViewRows]


def evidence(database: Database, pipeline: str) -> Evidence:
    """What the pipeline recorded and what its views hold, all of one commit."""
    with snapshot(database) as connection:
        number, definition = _pipeline(connection, pipeline)
        views = {view.name: _read_view(connection, view.name, limit=None)[1] for view in definition.views}
        return Evidence(definition, _ledger(connection, pipeline=number), views)


def registered_definition(database: Database, pipeline: str) -> Definition:
    """A pipeline as it was registered: its file, its fingerprint, its views."""
    with snapshot(database) as connection:
        return _pipeline(connection, pipeline)[1]


def pipeline_of(database: Database, view: str) -> str:
    """The pipeline that a view belongs to."""
    with snapshot(database) as connection:
        return _find_view(connection, view)[3]


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """One state of the database for all that is read inside."""
    with database.errors(), database.connection.transaction():
        database.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if schema.exists(database.connection):
            schema.check(database)
        yield database.connection


def _pipeline(connection: Connection, name: str) -> tuple[int, Definition]:
    if schema.exists(connection):
        query = "SELECT id, definition FROM penstock.pipelines WHERE name = %s"
        row = connection.execute(query, (name,)).fetchone()
        if row is not None:
            return int(row[0]), definitions.from_json(row[1])
    raise fail(CallerError, "pipeline-unknown", pipeline=name)


def _find_view(connection: Connection, name: str) -> tuple[int, int, FoldView, str]:
    """The number of the view, of its pipeline, its definition, and the pipeline's name."""
    rows: list[TupleRow] = []
    if schema.exists(connection):
        rows = connection.execute(
            "SELECT v.name, v.id, v.pipeline, v.definition, p.name"
            " FROM penstock.views v JOIN penstock.pipelines p ON p.id = v.pipeline"
        ).fetchall()
    for row in rows:
        if row[0] == name:
            return int(row[1]), int(row[2]), definitions.view_from_json(row[3]), str(row[4])
    near = difflib.get_close_matches(name, [row[0] for row in rows], n=1)
    raise fail(CallerError, "view-unknown", view=name, hint=f"; did you mean {near[0]}?" if near else "")


def _read_view(connection: Connection, name: str, *, limit: int | None) -> tuple[int, ViewRows]:
    _, pipeline, view, _ = _find_view(connection, name)
    order: list[sql.Composable] = [sql.Identifier(key.name) for key in view.key_columns]
    query = sql.SQL("SELECT {} FROM {} ORDER BY {} LIMIT {}").format(
        sql.SQL(", ").join(sql.Identifier(column) for column in column_names(view)),
        sql.Identifier("public", name),
        sql.SQL(", ").join(order or [sql.SQL("1")]),
        sql.Literal(limit),
    )
    raw = connection.execute(query).fetchall()
    cut = fence.read_cut(connection, pipeline=pipeline)
    return pipeline, ViewRows(view, cut, tuple(_plain_row(row, view=view) for row in raw))


def _plain_row(row: Sequence[object], *, view: FoldView) -> tuple[object, ...]:
    """A sum of integers is an integer, though the database keeps it as a numeric without bound."""
    keys = len(view.key_columns)
    measures = zip(view.measures, row[keys:], strict=True)
    whole = [
        int(value) if isinstance(value, Decimal) and m.aggregate.kind == "sum" and m.type.name in INTEGERS else value
        for m, value in measures
    ]
    return (*row[:keys], *whole)


def spell(value: object) -> object:
    """A value as JSON: decimals and what JSON cannot hold as text.

    >>> spell(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)), spell(Decimal("1.50")), spell(float("-inf")), spell(0.5)
    ('2026-01-02T03:04:05Z', '1.50', '-Infinity', 0.5)
    """
    match value:
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return str(Decimal(value))  # NaN, Infinity or -Infinity, as Postgres spells them
    return value


def _outcomes(connection: Connection, *, pipeline: int) -> dict[str, int]:
    rows = connection.execute(
        "SELECT outcome, sum(count)::bigint FROM penstock.outcomes WHERE pipeline = %s GROUP BY 1", (pipeline,)
    )
    found = {outcome: int(count) for outcome, count in rows}
    return {name: found.get(name, 0) for name in (READ, *OUTCOMES)}


_PIPELINES = (
    "SELECT p.id, p.name, p.epoch, p.host, p.pid, p.started_at, p.file, b.batch, b.committed_at,"
    " (SELECT count(*) FROM penstock.outbox o WHERE o.pipeline = p.id),"
    " ARRAY(SELECT v.name FROM penstock.views v WHERE v.pipeline = p.id ORDER BY v.name)"
    " FROM penstock.pipelines p LEFT JOIN LATERAL (SELECT batch, committed_at FROM penstock.batches b"
    " WHERE b.pipeline = p.id ORDER BY batch DESC LIMIT 1) b ON true ORDER BY p.name"
)


def _status(connection: Connection, row: Sequence[object]) -> dict[str, object]:
    number, name, epoch, host, pid, started_at, file, batch, committed_at, outbox, views = row
    pipeline = int(str(number))
    return {
        "pipeline": name,
        "running": fence.is_held(connection, pipeline=pipeline),
        "host": host,
        "pid": pid,
        "epoch": epoch,
        "started_at": spell(started_at),
        "file": file,
        "batch": batch,
        "committed_at": spell(committed_at),
        "cut": cut_to_json(fence.read_cut(connection, pipeline=pipeline)),
        "outcomes": _outcomes(connection, pipeline=pipeline),
        "outbox": outbox,
        "views": views,
    }


def _counted(
    connection: Connection, *, pipeline: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, dict[Outcome, int]]]:
    read: dict[TopicPartition, int] = {}
    outcomes: dict[TopicPartition, dict[Outcome, int]] = {}
    query = "SELECT topic, partition, outcome, reason, count FROM penstock.outcomes WHERE pipeline = %s"
    for topic, partition, name, reason, count in connection.execute(query, (pipeline,)):
        where = TopicPartition(topic, PartitionId(partition))
        if name == READ:
            read[where] = count
        else:
            outcomes.setdefault(where, {})[Outcome(name, reason or None)] = count
    return read, outcomes


def _winners(connection: Connection, *, pipeline: int) -> dict[str, list[Position]]:
    topics = connection.execute("SELECT id, name FROM penstock.topics WHERE pipeline = %s", (pipeline,)).fetchall()
    return {name: _positions(connection, topic_id=number) for number, name in topics}


def _positions(connection: Connection, *, topic_id: int) -> list[Position]:
    query = sql.SQL('SELECT partition, "offset" FROM {}').format(schema.identity_table(topic_id))
    return [(PartitionId(partition), Offset(offset)) for partition, offset in connection.execute(query)]


def _set_aside(plans: Sequence[Mapping[str, Mapping[str, Sequence[Sequence[int]]]]]) -> dict[str, list[Position]]:
    found: dict[str, list[Position]] = {}
    for plan in plans:
        for topic, positions in plan.get(SET_ASIDE, {}).items():
            found.setdefault(topic, []).extend((PartitionId(p), Offset(o)) for p, o in positions)
    return found
