"""One driver per pipeline: registration, the lock that a session holds, and the epoch that every commit checks.

V3   A driver commits only under the epoch that it took; whoever takes the pipeline raises it, so a driver that was
     stopped, cut off or taken over commits nothing, however late it wakes.
The lock keeps two drivers from working at once; the epoch makes it harmless should they. A lock is lost with its
session: `hold` takes it again for the same epoch.
Worst case: a second driver waits ten seconds before it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString, cast

from psycopg.types.json import Jsonb

from penstock.core.clock import random_bytes
from penstock.core.declared import Definition, FoldView
from penstock.core.errors import CallerError, FencedError, fail
from penstock.core.units import Offset, PartitionId
from penstock.views import definition as definitions
from penstock.views import schema

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.views.connection import Connection, Database

WAIT_S = 10.0
_POLL_S = 0.1
HASH_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Registered:
    """A pipeline as this driver took it: under which epoch, and where the ledger stood."""

    id: int
    definition: Definition
    epoch: int
    batch: int | None
    """The last committed batch; None before the first."""
    cut: Mapping[str, Mapping[PartitionId, Offset]]
    hash_key: bytes
    topics: Mapping[str, int]
    """The number of each topic's table of identities."""
    views: Mapping[str, int]
    """The number of each view's table."""

    @property
    def name(self) -> str:
        return self.definition.name


def take(
    database: Database,
    definition: Definition,
    *,
    host: str,
    pid: int,
    clock: Clock,
    take_over: bool = False,
    wait_s: float = WAIT_S,
) -> Registered:
    """Make this process the driver of the pipeline, registering it the first time."""
    schema.ensure(database)
    with database.errors():
        connection = database.connection
        pipeline = _register(connection, definition, host=host, pid=pid)
        _refuse_changes(connection, definition, pipeline=pipeline)
        _lock(database, pipeline, name=definition.name, take_over=take_over, wait_s=wait_s, clock=clock)
        try:
            with connection.transaction():
                return _enter(connection, definition, pipeline=pipeline, host=host, pid=pid)
        except BaseException:
            database.close()  # and with the session its lock
            raise


def hold(database: Database, registered: Registered, *, clock: Clock, wait_s: float = WAIT_S) -> None:
    """Have the lock, also in a session that followed a broken one; somebody else's epoch ends this driver."""
    with database.errors():
        connection = database.connection
        if registered.id not in database.locks:
            check_epoch(connection, registered)
            _lock(database, registered.id, name=registered.name, take_over=False, wait_s=wait_s, clock=clock)
            check_epoch(connection, registered)


def check_epoch(connection: Connection, registered: Registered, *, lock: bool = False) -> None:
    """Refuse a driver whose epoch is past; with `lock`, keep it true until the transaction ends."""
    query = "SELECT epoch FROM penstock.pipelines WHERE id = %s"
    row = connection.execute(query + (" FOR UPDATE" if lock else ""), (registered.id,)).fetchone()
    current = int(row[0]) if row else None
    if current != registered.epoch:
        raise fail(FencedError, "pipeline-fenced", pipeline=registered.name, epoch=registered.epoch, current=current)


def _register(connection: Connection, definition: Definition, *, host: str, pid: int) -> int:
    connection.execute(
        "INSERT INTO penstock.pipelines (name, epoch, host, pid, started_at, file, fingerprint, definition, hash_key)"
        " VALUES (%s, 0, %s, %s, now(), %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING",
        (
            definition.name,
            host,
            pid,
            definition.file,
            definition.fingerprint,
            Jsonb(definitions.to_json(definition)),
            random_bytes(HASH_KEY_BYTES),
        ),
    )
    row = connection.execute("SELECT id FROM penstock.pipelines WHERE name = %s", (definition.name,)).fetchone()
    return int(row[0]) if row else 0


def _lock(database: Database, pipeline: int, *, name: str, take_over: bool, wait_s: float, clock: Clock) -> None:
    connection, deadline = database.connection, clock.monotonic() + wait_s
    while not _try_lock(connection, pipeline):
        if clock.monotonic() >= deadline:
            raise _busy(connection, pipeline, name=name)
        if take_over:
            connection.execute("SELECT pg_terminate_backend(pid)" + _HOLDER, _key(pipeline))
        clock.sleep(_POLL_S)
    database.locks.add(pipeline)


_HOLDER = (
    " FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = %s::oid AND objid = %s::oid"
)


def _key(pipeline: int) -> tuple[int, int]:
    return schema.LOCK_SPACE, pipeline


def _try_lock(connection: Connection, pipeline: int) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", _key(pipeline)).fetchone()
    return row is not None and bool(row[0])


def is_held(connection: Connection, *, pipeline: int) -> bool:
    """Whether a driver of the pipeline is connected now."""
    return connection.execute("SELECT pid" + _HOLDER, _key(pipeline)).fetchone() is not None


def _busy(connection: Connection, pipeline: int, *, name: str) -> FencedError:
    row = connection.execute("SELECT host, pid FROM penstock.pipelines WHERE id = %s", (pipeline,)).fetchone()
    host, pid = row or (None, None)
    return cast("FencedError", fail(FencedError, "pipeline-busy", pipeline=name, host=host, pid=pid))


def _enter(connection: Connection, definition: Definition, *, pipeline: int, host: str, pid: int) -> Registered:
    _refuse_changes(connection, definition, pipeline=pipeline)
    row = connection.execute(
        "UPDATE penstock.pipelines SET epoch = epoch + 1, host = %s, pid = %s, started_at = now(), file = %s,"
        " fingerprint = %s, definition = %s WHERE id = %s RETURNING epoch, hash_key",
        (
            host,
            pid,
            definition.file,
            definition.fingerprint,
            Jsonb(definitions.to_json(definition)),
            pipeline,
        ),
    ).fetchone()
    epoch, hash_key = row or (0, b"")
    return Registered(
        id=pipeline,
        definition=definition,
        epoch=epoch,
        batch=read_last_batch(connection, pipeline=pipeline),
        cut=read_cut(connection, pipeline=pipeline),
        hash_key=bytes(hash_key),
        topics={topic.name: _topic(connection, topic.name, pipeline=pipeline) for topic in definition.topics},
        views={
            view.name: _view(connection, view, pipeline=pipeline, name=definition.name) for view in definition.views
        },
    )


def _refuse_changes(connection: Connection, offered: Definition, *, pipeline: int) -> None:
    """Only what nothing is built on may change: all of it at epoch 0, functions until a batch is committed."""
    query = "SELECT definition FROM penstock.pipelines WHERE id = %s AND epoch > 0"
    row = connection.execute(query, (pipeline,)).fetchone()
    held = definitions.from_json(row[0]) if row else offered
    changed = definitions.differences(held, offered)
    is_unused = read_last_batch(connection, pipeline=pipeline) is None
    if changed and not (is_unused and (held.topics, held.views) == (offered.topics, offered.views)):
        raise fail(
            CallerError, "pipeline-changed", pipeline=offered.name, changed=", ".join(changed), file=offered.file
        )


def read_last_batch(connection: Connection, *, pipeline: int) -> int | None:
    """The number of the last committed batch; None before the first."""
    row = connection.execute("SELECT max(batch) FROM penstock.batches WHERE pipeline = %s", (pipeline,)).fetchone()
    return row[0] if row else None


def read_cut(connection: Connection, *, pipeline: int) -> dict[str, dict[PartitionId, Offset]]:
    """Where the ledger ends: the next offset of every partition that a batch has read."""
    rows = connection.execute(
        "SELECT topic, partition, next_offset FROM penstock.offsets WHERE pipeline = %s ORDER BY 1, 2", (pipeline,)
    )
    cut: dict[str, dict[PartitionId, Offset]] = {}
    for topic, partition, offset in rows:
        cut.setdefault(topic, {})[PartitionId(partition)] = Offset(offset)
    return cut


def _topic(connection: Connection, name: str, *, pipeline: int) -> int:
    found = _number(connection, "SELECT id FROM penstock.topics WHERE pipeline = %s AND name = %s", (pipeline, name))
    if found is not None:
        return found
    insert = "INSERT INTO penstock.topics (pipeline, name) VALUES (%s, %s) RETURNING id"
    made = _number(connection, insert, (pipeline, name)) or 0
    schema.create_identities(connection, topic_id=made)
    return made


def _view(connection: Connection, view: FoldView, *, pipeline: int, name: str) -> int:
    query = "SELECT v.id, p.id, p.name FROM penstock.views v JOIN penstock.pipelines p ON p.id = v.pipeline"
    row = connection.execute(query + " WHERE v.name = %s", (view.name,)).fetchone()
    if row is not None and row[1] == pipeline:
        return int(row[0])
    if row is not None:
        raise fail(CallerError, "view-taken", view=view.name, owner=f"pipeline {row[2]}", pipeline=name)
    if _number(connection, "SELECT 1 WHERE to_regclass(format('public.%%I', %s::text)) IS NOT NULL", (view.name,)):
        raise fail(CallerError, "view-taken", view=view.name, owner="a table that is not ours", pipeline=name)
    insert = "INSERT INTO penstock.views (name, pipeline, definition) VALUES (%s, %s, %s) RETURNING id"
    made = _number(connection, insert, (view.name, pipeline, Jsonb(definitions.view_to_json(view)))) or 0
    schema.create_view(connection, view, view_id=made)
    return made


def _number(connection: Connection, query: LiteralString, values: Sequence[object]) -> int | None:
    row = connection.execute(query, values).fetchone()
    return None if row is None else int(row[0])
