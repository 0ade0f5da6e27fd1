"""What a batch has to say to topics: written with the batch, published after it, forgotten when it is on the log.

V3   A message stands here exactly when its batch is committed. It is published at least once; the header
     `source-position` is the same every time, so that a reader can tell repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from penstock.core.units import Offset, PartitionId
from penstock.views.connection import storable

if TYPE_CHECKING:
    from penstock.views.connection import Connection, Database
    from penstock.views.fence import Registered

POSITION_HEADER = "source-position"


@dataclass(frozen=True, slots=True)
class Message:
    """A record for another topic, and the record that it comes from."""

    target: str
    topic: str
    partition: PartitionId
    offset: Offset
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def all_headers(self) -> tuple[tuple[str, str], ...]:
        """The headers to publish, the position of the source record first."""
        return ((POSITION_HEADER, f"{self.topic}-{self.partition}@{self.offset}"), *self.headers)


def insert(connection: Connection, *, pipeline: int, messages: Sequence[Message]) -> None:
    if not messages:
        return
    command = (
        "COPY penstock.outbox (pipeline, target, source_topic, source_partition, source_offset, key, value, headers)"
        " FROM STDIN"
    )
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        for message in messages:
            source = (message.topic, message.partition, message.offset)
            headers = [[name, storable(text)] for name, text in message.headers]
            copy.write_row((pipeline, message.target, *source, message.key, message.value, Jsonb(headers)))


def pending(
    database: Database, registered: Registered, *, limit: int = 10_000, bytes_max: int = 64 * 1024 * 1024
) -> list[tuple[int, Message]]:
    """The oldest messages that may not have been published, each with its number: one at least, then within bounds."""
    query = (
        "SELECT id, target, source_topic, source_partition, source_offset, key, value, headers FROM"
        " (SELECT *, sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0))"
        " OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before FROM"
        " (SELECT * FROM penstock.outbox WHERE pipeline = %s ORDER BY id LIMIT %s) AS oldest) AS counted"
        " WHERE coalesce(bytes_before, 0) < %s ORDER BY id"
    )
    with database.errors():
        rows = database.connection.execute(query, (registered.id, limit, bytes_max)).fetchall()
    return [
        (row[0], Message(row[1], row[2], row[3], row[4], row[5], row[6], tuple((name, text) for name, text in row[7])))
        for row in rows
    ]


def forget(database: Database, registered: Registered, *, ids: Sequence[int]) -> None:
    """Drop messages that are on the log."""
    with database.errors():
        database.connection.execute(
            "DELETE FROM penstock.outbox WHERE pipeline = %s AND id = ANY(%s)", (registered.id, list(ids))
        )
