"""Shape scanned records into the columns that a reader of the data source asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.declared import POSITION, Column, parse_schema
from penstock.core.errors import CorruptError, fail
from penstock.core.values import OffsetRange
from penstock.kernels.decode import Decoded, decode, describe
from penstock.protocol.scan import RecordColumns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

RAW_SCHEMA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
_RAW_NAMES = [column.split()[0] for column in RAW_SCHEMA.split(", ")]
PROBLEM = "_problem"
_POSITION_TYPE = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])


def plain_rows(records: RecordColumns, *, schema: StructType, place: OffsetRange) -> pa.RecordBatch:
    """Raw records where the schema is the default one, else JSON decoded into its columns."""
    if schema.fieldNames() == _RAW_NAMES:
        return _raw_rows(records, place)
    return _decoded_rows(records, schema=schema, place=place)


def _raw_rows(records: RecordColumns, place: OffsetRange) -> pa.RecordBatch:
    at = pa.array(records.timestamps_ms * 1_000).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            _bytes(records.payload, records.key_start, records.key_length),
            _bytes(records.payload, records.value_start, records.value_length),
            *_place_arrays(records, place),
            at,
        ],
        names=_RAW_NAMES,
    )


def _bytes(payload: np.ndarray, start: np.ndarray, length: np.ndarray) -> pa.Array:
    """Slices of one buffer as an Arrow array; null where the length is negative."""
    data = payload.tobytes()
    return pa.array(
        [None if n < 0 else data[s : s + n] for s, n in zip(start.tolist(), length.tolist(), strict=True)], pa.binary()
    )


def _decoded_rows(records: RecordColumns, *, schema: StructType, place: OffsetRange) -> pa.RecordBatch:
    names = [name for name in schema.fieldNames() if name not in (POSITION, PROBLEM)]
    columns = tuple(_column(name, schema[name].dataType.simpleString()) for name in names)
    decoded = decode(records.payload, records.value_start, records.value_length, columns)
    problems = _described(decoded, columns)
    arrays = {name: decoded.columns[name] for name in names}
    if PROBLEM in schema.fieldNames():
        arrays[PROBLEM] = pa.array(problems, pa.string())
    else:
        _refuse_problems(problems, records, place)
    if POSITION in schema.fieldNames():
        arrays[POSITION] = _positions(records, place)
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.fieldNames()], names=schema.fieldNames())


def _column(name: str, spelling: str) -> Column:
    return parse_schema(f"`{name}` {spelling}")[0]


def _positions(records: RecordColumns, place: OffsetRange) -> pa.Array:
    return pa.StructArray.from_arrays(_place_arrays(records, place), fields=list(_POSITION_TYPE))


def _place_arrays(records: RecordColumns, place: OffsetRange) -> list[pa.Array]:
    """Topic, partition and offset of every record."""
    count = len(records.offsets)
    partitions = np.full(count, place.partition, np.int32)
    return [pa.array([place.topic] * count, pa.string()), pa.array(partitions), pa.array(records.offsets)]


def _described(decoded: Decoded, columns: tuple[Column, ...]) -> list[str | None]:
    pairs = zip(decoded.problem.tolist(), decoded.field.tolist(), strict=True)
    return [describe(problem, field, columns=columns) if problem else None for problem, field in pairs]


def _refuse_problems(problems: list[str | None], records: RecordColumns, place: OffsetRange) -> None:
    for row, problem in enumerate(problems):
        if problem is not None:
            at = f"{place.topic}-{place.partition}-{records.offsets[row]}"
            raise fail(CorruptError, "record-undecodable", where=at, reason=problem)
