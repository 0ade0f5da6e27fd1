"""Shape scanned records into the rows that intake decides on: position, hashes, decoded columns, what is wrong.

All topics of a pipeline share one row layout, so one job reads them all: a struct column per topic, null for the
rows of the others. Each range ends with a row of its own that carries its bounds and how many records were read:
the count that V1 holds the outcomes against, and the only thing that tells the driver where a batch began and ended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.declared import Column, parse_schema
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.kernels.columns import arrow_schema
from penstock.kernels.decode import Decoded, decode, describe
from penstock.kernels.hashing import hash_rows
from penstock.protocol.scan import RecordColumns, scan

UNDECODABLE = "undecodable"
NO_IDENTITY = "no identity"
NO_EVENT_TIME = "no event time"

_RANGE = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("read", pa.int64())])
_FIXED = [
    ("topic", pa.int32()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("logged_ms", pa.int64()),
    ("reason", pa.string()),
    ("detail", pa.string()),
    ("id", pa.binary()),
    ("content", pa.binary()),
    ("range", _RANGE),
]
_FIXED_DDL = (
    "topic int, partition int, offset long, logged_ms long, reason string, detail string, "
    "id binary, content binary, range struct<start: bigint, end: bigint, read: bigint>"
)


@dataclass(frozen=True, slots=True)
class IntakeTopic:
    name: str
    ddl: str
    identity: tuple[str, ...]
    event_time: str

    @property
    def columns(self) -> tuple[Column, ...]:
        return parse_schema(self.ddl)


@dataclass(frozen=True)
class Intake:
    """What the workers must know of a pipeline: its topics, and the key that its hashes are made with."""

    topics: tuple[IntakeTopic, ...]
    key: bytes

    def to_json(self) -> str:
        topics = [[t.name, t.ddl, list(t.identity), t.event_time] for t in self.topics]
        return json.dumps({"topics": topics, "key": self.key.hex()})

    @staticmethod
    def from_json(text: str) -> Intake:
        value = json.loads(text)
        topics = tuple(IntakeTopic(name, ddl, tuple(identity), at) for name, ddl, identity, at in value["topics"])
        return Intake(topics, bytes.fromhex(value["key"]))

    @cached_property
    def structs(self) -> tuple[pa.StructType, ...]:
        return tuple(pa.struct(list(arrow_schema(topic.columns))) for topic in self.topics)

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*_FIXED, *((f"t{at}", struct) for at, struct in enumerate(self.structs))])

    @property
    def ddl(self) -> str:
        structs = (
            f"t{at} struct<{', '.join(f'`{c.name}`: {_spark_type(c)}' for c in topic.columns)}>"
            for at, topic in enumerate(self.topics)
        )
        return ", ".join([_FIXED_DDL, *structs])

    def index(self, topic: str) -> int:
        return next(at for at, declared in enumerate(self.topics) if declared.name == topic)


def _spark_type(column: Column) -> str:
    """Inside a struct Spark's DDL knows the SQL names only."""
    return {"byte": "tinyint", "short": "smallint", "long": "bigint"}.get(str(column.type), str(column.type))


def record_rows(records: RecordColumns, *, intake: Intake, place: OffsetRange) -> pa.RecordBatch:
    """Decode one chunk of one partition and say of each record what is known of it by itself."""
    at = intake.index(place.topic)
    topic = intake.topics[at]
    decoded = decode(records.payload, records.value_start, records.value_length, topic.columns)
    reason, detail = _problems(decoded, topic)
    count = len(records.offsets)
    fixed = [
        pa.array(np.full(count, at, np.int32)),
        pa.array(np.full(count, place.partition, np.int32)),
        pa.array(records.offsets),
        pa.array(records.timestamps_ms),
        reason,
        detail,
        hash_rows(decoded.columns, topic.identity, key=intake.key).cast(pa.binary()),
        hash_rows(decoded.columns, [column.name for column in topic.columns], key=intake.key).cast(pa.binary()),
        pa.nulls(count, _RANGE),
    ]
    values = pa.StructArray.from_arrays(decoded.columns.columns, fields=list(intake.structs[at]))
    structs = [values if other == at else pa.nulls(count, kind) for other, kind in enumerate(intake.structs)]
    return pa.RecordBatch.from_arrays([*fixed, *structs], schema=intake.schema)


def warm_up(intake: Intake) -> None:
    """Load what is compiled, or compile it once for all workers, while Spark is still starting."""
    nothing = np.zeros(0, np.int64)
    records = RecordColumns(np.zeros(0, np.uint8), *[nothing] * 6)
    for topic in intake.topics:
        record_rows(records, intake=intake, place=OffsetRange(topic.name, PartitionId(0), Offset(0), Offset(0)))
    scan([], start=Offset(0), end=Offset(0))


def range_row(place: OffsetRange, *, read: int, intake: Intake) -> pa.RecordBatch:
    """The row that closes a range: its bounds, and the records that were counted while reading it."""
    bounds = {"start": place.start, "end": place.end, "read": read}
    row: dict[str, object] = dict.fromkeys(intake.schema.names)
    row |= {"topic": intake.index(place.topic), "partition": place.partition, "offset": place.end, "range": bounds}
    return pa.RecordBatch.from_pylist([row], schema=intake.schema)


def _problems(decoded: Decoded, topic: IntakeTopic) -> tuple[pa.Array, pa.Array]:
    """The reason for which a record is rejected, and its detail; null where nothing is wrong."""
    count = decoded.columns.num_rows
    undecodable = decoded.problem != 0
    reason = np.full(count, None, dtype=object)
    detail = np.full(count, None, dtype=object)
    _mark_nulls(decoded, [topic.event_time], reason, detail, text=NO_EVENT_TIME)
    _mark_nulls(decoded, topic.identity, reason, detail, text=NO_IDENTITY)
    for row in np.flatnonzero(undecodable):
        reason[row] = UNDECODABLE
        detail[row] = describe(int(decoded.problem[row]), int(decoded.field[row]), columns=topic.columns)
    return pa.array(reason, pa.string()), pa.array(detail, pa.string())


def _mark_nulls(decoded: Decoded, names: Sequence[str], reason: np.ndarray, detail: np.ndarray, *, text: str) -> None:
    for name in names:
        missing = pc.is_null(decoded.columns[name]).to_numpy(zero_copy_only=False)
        reason[missing] = text
        detail[missing] = f"field {name} is null"
