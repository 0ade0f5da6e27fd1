"""Add a batch's partial aggregates to the groups of a view, one statement per view.

V2   What a group holds is the exact sum of the partials of all batches; a group without rows is not there.
The columns of the partial go over as arrays in the server's text form, made by Arrow and not row by row. The server
computes the key's digest: SHA-256 of the key's row as text, cut to 16 bytes.
Worst case: ten thousand groups take about a tenth of a second, nearly all of it in the server.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from penstock.core.declared import FoldView, Measure
from penstock.core.invariant import invariant
from penstock.views.schema import fold_table, key_name, stored_columns

if TYPE_CHECKING:
    from penstock.views.connection import Connection

GROUPS_MAX = 20_000
"""Groups in one statement; a parameter of the server holds a gigabyte at most."""


def columns(view: FoldView) -> list[str]:
    """The columns of a partial, in order: the key's by their names, then as the view's table has them."""
    keys = [key.name for key in view.key_columns]
    return keys + [name for name, _ in stored_columns(view)[len(keys) :]]


def apply(connection: Connection, view: FoldView, *, view_id: int, partial: pa.Table) -> None:
    """Fold a partial in; a group that would be left with fewer than no rows is a bug, and stops the commit."""
    if partial.num_rows == 0:
        return
    invariant(partial.column_names == columns(view), "a partial has its view's columns", view=view.name)
    upsert = _upsert(view, view_id=view_id)
    for start in range(0, partial.num_rows, GROUPS_MAX):
        part = partial.slice(start, GROUPS_MAX)
        arrays = [array_text(part.column(i)) for i in range(part.num_columns)]
        connection.execute(upsert, arrays)
        if pc.min(part.column(len(view.key_columns))).as_py() <= 0:
            _remove_empty(connection, view, view_id=view_id, arrays=arrays)


def _remove_empty(connection: Connection, view: FoldView, *, view_id: int, arrays: list[str]) -> None:
    gone = [row[0] for row in connection.execute(_removal(view, view_id=view_id), arrays)]
    invariant(not any(gone), "a retraction meets a row", view=view.name, rows=gone)


@cache
def _removal(view: FoldView, *, view_id: int) -> bytes:
    statement = sql.SQL(
        "DELETE FROM {} AS held USING (SELECT {} AS key FROM {}) AS touched"
        " WHERE held.key = touched.key AND held.rows <= 0 RETURNING held.rows"
    ).format(fold_table(view_id), _digest(view), _arrays(view))
    return statement.as_bytes(None)


@cache
def _upsert(view: FoldView, *, view_id: int) -> bytes:
    names = [sql.Identifier(name) for name, _ in stored_columns(view)]
    statement = sql.SQL(
        "INSERT INTO {} AS held (key, {}) SELECT {}, {} FROM {} ON CONFLICT (key) DO UPDATE SET {}"
    ).format(
        fold_table(view_id),
        sql.SQL(", ").join(names),
        _digest(view),
        sql.SQL(", ").join(sql.SQL("came.") + name for name in names),
        _arrays(view),
        sql.SQL(", ").join(_added(view)),
    )
    return statement.as_bytes(None)


def _arrays(view: FoldView) -> sql.Composed:
    """The partial as a table `came`."""
    arrays = [sql.SQL("%s::{}[]").format(sql.SQL(kind.split(" COLLATE")[0])) for _, kind in stored_columns(view)]
    names = [sql.Identifier(name) for name, _ in stored_columns(view)]
    return sql.SQL("unnest({}) AS came({})").format(sql.SQL(", ").join(arrays), sql.SQL(", ").join(names))


def _digest(view: FoldView) -> sql.Composed:
    keys = sql.SQL(", ").join(sql.Identifier("came", key_name(i)) for i in range(len(view.key_columns)))
    return sql.SQL("substring(sha256(convert_to(ROW({})::text, 'UTF8')) FROM 1 FOR 16)").format(keys)


def _added(view: FoldView) -> list[sql.Composed]:
    """How each stored column takes in what came."""
    found = [_sum("rows")]
    for i, measure in enumerate(view.measures):
        found.append(_merged(measure, name=f"v{i}"))
        if measure.aggregate.kind != "count":
            found.append(_sum(f"n{i}"))
    return found


def _merged(measure: Measure, *, name: str) -> sql.Composed:
    if measure.aggregate.kind in {"min", "max"}:
        # Both pass over nulls.
        pick = "LEAST" if measure.aggregate.kind == "min" else "GREATEST"
        return sql.SQL("{0} = " + pick + "(held.{0}, excluded.{0})").format(sql.Identifier(name))
    return _sum(name)


def _sum(name: str) -> sql.Composed:
    return sql.SQL("{0} = coalesce(held.{0}, 0) + coalesce(excluded.{0}, 0)").format(sql.Identifier(name))


def array_text(column: pa.Array | pa.ChunkedArray) -> str:
    """A column as the text of a Postgres array.

    >>> array_text(pa.array(["a", None, 'say "no"']))
    '{"a",NULL,"say \\\\"no\\\\""}'
    """
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    words = values.cast(pa.string())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        words = _quoted(words)
    whole = pa.ListArray.from_arrays(pa.array([0, len(words)], pa.int32()), pc.fill_null(words, "NULL"))
    return "{" + str(pc.binary_join(whole, ",")[0].as_py()) + "}"


def _quoted(words: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(words, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped, '"', "")
