"""The tables behind the views: the ledger, the identities, the outbox, and one table per view.

`penstock` is ours; what people read are SQL views in `public`, named as the pipeline names them. A group of a view is
one row under the digest of its key, so that a null or a very long key is a key like any other; it carries the hidden
count of its rows and, per measure, a value `v<i>` and the count `n<i>` of what went into it.
Limit: Postgres 14 or later. A schema written by a later release is refused, never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from penstock.core.declared import ColumnType, FoldView, Measure
from penstock.core.errors import CallerError, fail
from penstock.kernels.fold import measure_type

if TYPE_CHECKING:
    from penstock.views.connection import Connection, Database

VERSION = 1
LOCK_SPACE = 0x50454E53
"""The first half of our advisory locks; the second is a pipeline's number, 0 for the schema itself."""
NAME_BYTES_MAX = 63
"""Postgres cuts longer names off without a word."""

_DDL = """
CREATE SCHEMA IF NOT EXISTS penstock;
CREATE TABLE penstock.schema_version (version int NOT NULL);
CREATE TABLE penstock.pipelines (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    epoch bigint NOT NULL,
    host text NOT NULL,
    pid int NOT NULL,
    started_at timestamptz NOT NULL,
    file text NOT NULL,
    fingerprint text NOT NULL,
    definition jsonb NOT NULL,
    hash_key bytea NOT NULL
);
CREATE TABLE penstock.batches (
    pipeline int NOT NULL REFERENCES penstock.pipelines,
    batch bigint NOT NULL,
    epoch bigint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    plan jsonb NOT NULL,
    PRIMARY KEY (pipeline, batch)
);
CREATE TABLE penstock.offsets (
    pipeline int NOT NULL REFERENCES penstock.pipelines,
    topic text COLLATE "C" NOT NULL,
    partition int NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (pipeline, topic, partition)
) WITH (fillfactor = 50);
CREATE TABLE penstock.outcomes (
    pipeline int NOT NULL REFERENCES penstock.pipelines,
    topic text COLLATE "C" NOT NULL,
    partition int NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (pipeline, topic, partition, outcome, reason)
) WITH (fillfactor = 50);
CREATE TABLE penstock.topics (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline int NOT NULL REFERENCES penstock.pipelines,
    name text COLLATE "C" NOT NULL,
    UNIQUE (pipeline, name)
);
CREATE TABLE penstock.views (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    pipeline int NOT NULL REFERENCES penstock.pipelines,
    definition jsonb NOT NULL
);
CREATE TABLE penstock.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline int NOT NULL REFERENCES penstock.pipelines,
    target text NOT NULL,
    source_topic text NOT NULL,
    source_partition int NOT NULL,
    source_offset bigint NOT NULL,
    key bytea,
    value bytea,
    headers jsonb NOT NULL
);
"""

_STORED: dict[str, str] = {
    "string": 'text COLLATE "C"',
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "int": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamptz",
}


def stored_type(kind: ColumnType) -> str:
    """How Postgres keeps a column; text compares by code point there too."""
    return f"numeric({kind.precision},{kind.scale})" if kind.name == "decimal" else _STORED[kind.name]


def value_type(measure: Measure) -> str:
    """How Postgres keeps what a measure has gathered. A sum is a numeric without bound: it never overflows."""
    if measure.aggregate.kind == "count":
        return "bigint"
    return "numeric" if measure.aggregate.kind in {"sum", "avg"} else stored_type(measure.type)


def ensure(database: Database) -> None:
    """Make our schema where there is none; two who come at once make it once."""
    connection = database.connection
    with database.errors(), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK_SPACE,))
        if not exists(connection):
            connection.execute(_DDL)
            connection.execute("INSERT INTO penstock.schema_version VALUES (%s)", (VERSION,))
    check(database)


def exists(connection: Connection) -> bool:
    row = connection.execute("SELECT to_regclass('penstock.schema_version') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def check(database: Database) -> None:
    """Refuse a schema that a later release wrote."""
    with database.errors():
        row = database.connection.execute("SELECT version FROM penstock.schema_version").fetchone()
    found = int(row[0]) if row else 0
    if found > VERSION:
        raise fail(CallerError, "database-schema-newer", where=database.where, found=found, known=VERSION)


def identity_table(topic_id: int) -> sql.Identifier:
    return sql.Identifier("penstock", f"identities_{topic_id}")


def fold_table(view_id: int) -> sql.Identifier:
    return sql.Identifier("penstock", f"fold_{view_id}")


def create_identities(connection: Connection, *, topic_id: int) -> None:
    """Who was seen: the hash of an identity, the hash of its content, and where it came first."""
    connection.execute(
        sql.SQL(
            "CREATE TABLE {} (id uuid PRIMARY KEY, content uuid NOT NULL,"
            ' partition int NOT NULL, "offset" bigint NOT NULL)'
        ).format(identity_table(topic_id))
    )


def create_view(connection: Connection, view: FoldView, *, view_id: int) -> None:
    """Make a view's table, and the SQL view over it that people read."""
    for name in (view.name, *(key.name for key in view.key_columns), *(measure.name for measure in view.measures)):
        if len(name.encode()) > NAME_BYTES_MAX:
            raise fail(CallerError, "view-name-long", name=name, view=view.name, bytes_max=NAME_BYTES_MAX)
    connection.execute(_table_ddl(view, view_id=view_id))
    connection.execute(_view_ddl(view, view_id=view_id))


def key_name(at: int) -> str:
    """How the view's table calls a column of the key: by place, so that no user's name meets one of ours."""
    return f"k{at}"


def stored_columns(view: FoldView) -> list[tuple[str, str]]:
    """The columns of a view's table after the digest, with their types."""
    found = [(key_name(i), stored_type(key.type)) for i, key in enumerate(view.key_columns)]
    found.append(("rows", "bigint"))
    for i, measure in enumerate(view.measures):
        found.append((f"v{i}", value_type(measure)))
        if measure.aggregate.kind != "count":
            found.append((f"n{i}", "bigint"))
    return found


def _table_ddl(view: FoldView, *, view_id: int) -> sql.Composed:
    columns = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in stored_columns(view)]
    # Groups are updated far more often than they are made: room in the page keeps the index out of it.
    return sql.SQL("CREATE TABLE {} (key bytea PRIMARY KEY, {}) WITH (fillfactor = 80)").format(
        fold_table(view_id), sql.SQL(", ").join(columns)
    )


def _view_ddl(view: FoldView, *, view_id: int) -> sql.Composed:
    keys = [(sql.Identifier(key_name(i)), key.name) for i, key in enumerate(view.key_columns)]
    measures = [(shown(measure, at=i), measure.name) for i, measure in enumerate(view.measures)]
    columns = [sql.SQL("{} AS {}").format(value, sql.Identifier(name)) for value, name in [*keys, *measures]]
    return sql.SQL("CREATE VIEW {} AS SELECT {} FROM {}").format(
        sql.Identifier("public", view.name), sql.SQL(", ").join(columns), fold_table(view_id)
    )


def shown(measure: Measure, *, at: int) -> sql.Composed:
    """A measure as people read it, from `v<at>` and `n<at>`."""
    value, count = sql.Identifier(f"v{at}"), sql.Identifier(f"n{at}")
    match measure.aggregate.kind:
        case "count" | "min" | "max":
            return sql.Composed([value])
        case "sum":
            return sql.SQL("CASE WHEN {} > 0 THEN {} END").format(count, value)
        case "avg":
            return _average(value, count, places=measure_type(measure).scale)


def _average(value: sql.Identifier, count: sql.Identifier, *, places: int) -> sql.Composed:
    """Half away from zero at so many places. Division of numerics rounds by itself, so this one
    is of whole numbers: twice the sum in units of the last place, plus the count, by twice the count."""
    return sql.SQL(
        "CASE WHEN {n} > 0 THEN sign({v}) * div(abs({v}) * 2 * {units} + {n}, 2 * {n}::numeric) * {unit} END"
    ).format(v=value, n=count, units=sql.SQL("1" + "0" * places), unit=sql.SQL("0." + "0" * (places - 1) + "1"))
