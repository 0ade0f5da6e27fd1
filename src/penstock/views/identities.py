"""Who was seen already: look identities up in bulk, and add those that a batch accepted.

Identity and content are hashes of 16 bytes, so rows are of fixed width and go over as numpy arrays: no work per record.
A lookup is one round trip whose answer holds the known ones only; an insert is one binary COPY, and the primary key
refuses an identity that came in between.
Limit: a lookup's answer is one value of the database, so at most 25 million known identities.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.pq import Format

from penstock.views.schema import identity_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.views.connection import Connection, Database
    from penstock.views.fence import Registered

HASH = np.dtype("V16")
_UUID, _UUIDS = 2950, 2951  # what the server calls uuid and uuid[]
_ELEMENT = np.dtype([("length", ">i4"), ("value", HASH)])
_FOUND = np.dtype([("at", ">i4"), ("content", HASH)])
_ROW = np.dtype(
    [
        ("fields", ">i2"),
        ("id_length", ">i4"),
        ("id", HASH),
        ("content_length", ">i4"),
        ("content", HASH),
        ("partition_length", ">i4"),
        ("partition", ">i4"),
        ("offset_length", ">i4"),
        ("offset", ">i8"),
    ]
)
_COPY_HEAD = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
_COPY_TAIL = struct.pack(">h", -1)
_LOOKUP = sql.SQL(
    "SELECT string_agg(int4send(asked.at::int - 1) || uuid_send(stored.content), ''::bytea)"
    " FROM unnest(%b) WITH ORDINALITY AS asked(id, at) JOIN {} AS stored USING (id)"
)


class _Hashes(bytes):
    """Hashes as the server's binary form of an array of uuid."""


class _HashesDumper(Dumper):
    format = Format.BINARY
    oid = _UUIDS

    def dump(self, obj: bytes) -> bytes:
        return obj


def lookup(
    database: Database, registered: Registered, *, topic: str, ids: pa.Array
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.void]]:
    """Which of the ids are stored, and the content hash stored with each; zeros where it is not."""
    known, contents = np.zeros(len(ids), dtype=bool), np.zeros(len(ids), dtype=HASH)
    if len(ids) > 0:
        values = hashes(ids)
        order = _by_page(values)
        query = _LOOKUP.format(identity_table(registered.topics[topic]))
        with database.errors(), database.connection.cursor() as cursor:
            cursor.adapters.register_dumper(_Hashes, _HashesDumper)
            row = cursor.execute(query, (_array(values[order]),), binary=True).fetchone()
        found = np.frombuffer((row and row[0]) or b"", dtype=_FOUND)
        at = order[found["at"]]
        known[at] = True
        contents[at] = found["content"]
    return known, contents


def insert(connection: Connection, *, topic_id: int, accepted: pa.Table) -> None:
    """Add identities: the columns `id`, `content`, `partition` and `offset` of a table."""
    if accepted.num_rows == 0:
        return
    command = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(identity_table(topic_id))
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        copy.write(_COPY_HEAD)
        copy.write(_rows(accepted))
        copy.write(_COPY_TAIL)


def hashes(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.void]:
    """A column of 16-byte values without nulls as numpy."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    data = column.buffers()[1]
    if data is None:
        return np.zeros(0, dtype=HASH)
    return np.frombuffer(data, dtype=HASH)[column.offset : column.offset + len(column)]


def _array(values: npt.NDArray[np.void]) -> _Hashes:
    elements = np.empty(len(values), dtype=_ELEMENT)
    elements["length"], elements["value"] = HASH.itemsize, values
    return _Hashes(struct.pack(">iiiii", 1, 0, _UUID, len(values), 1) + elements.tobytes())


def _rows(accepted: pa.Table) -> bytes:
    rows = np.empty(accepted.num_rows, dtype=_ROW)
    rows["fields"] = 4
    rows["id_length"] = rows["content_length"] = HASH.itemsize
    rows["partition_length"], rows["offset_length"] = 4, 8
    rows["id"], rows["content"] = hashes(accepted["id"]), hashes(accepted["content"])
    rows["partition"], rows["offset"] = accepted["partition"].to_numpy(), accepted["offset"].to_numpy()
    return rows[_by_page(rows["id"])].tobytes()


def _by_page(ids: npt.NDArray[np.void]) -> npt.NDArray[np.intp]:
    """The order in which neighbours in the index follow each other: with ten million stored, a bulk lookup takes half
    the time in it and a bulk insert two thirds."""
    leading = np.frombuffer(ids.tobytes(), dtype=">u8")[::2]
    return np.argsort(leading.astype(np.uint64))
