"""Scan record batches into columns: where every key and value lies, without touching the content of any.

L5   A batch whose records do not fit its bytes raises `CorruptError` naming the batch's offset; the CRC is the
     business of whoever fetched the batch.
L7   Columns are sized by the records that batches claim, and a claim is bounded by the batch's decompressed bytes.
Limits: the decompressed records of all batches are held at once, in one array. Headers of records are not looked at.
Worst case: the first call on a machine compiles, which takes two seconds; later processes load what was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.core.errors import CorruptError, fail
from penstock.core.units import Offset
from penstock.protocol.batches import BatchHeader, iter_batches, records_of

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_FROM, _TO, _COUNT, _OFFSET, _TIMESTAMP, _HAS_DELTAS = range(6)
"""Rows of the table of batches. A batch with the broker's timestamps has one for all records; its deltas are void."""
_NULL = -1
_BAD_NUMBER, _BAD_FIELD, _BAD_RECORD = 1, 2, 3
_REASONS = {
    _BAD_NUMBER: "a number is longer than ten bytes, or passes the end of its record",
    _BAD_FIELD: "a key or value passes the end of its record",
    _BAD_RECORD: "records do not end where their batch does",
}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records as columns. Keys and values are slices of `payload`; a length of -1 is a null one."""

    payload: Bytes
    offsets: Int64s
    timestamps_ms: Int64s
    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s


def scan(batches: Sequence[memoryview], *, start: Offset, end: Offset) -> RecordColumns:
    """The records with offsets from `start` to `end` in these buffers of whole batches; control batches hold none.

    >>> from penstock.core.units import TimestampMs
    >>> from penstock.protocol.batches import Record, build_batch
    >>> batch = build_batch([Record(None, b"value", TimestampMs(7))])
    >>> columns = scan([memoryview(batch)], start=Offset(0), end=Offset(1))
    >>> bytes(columns.payload[columns.value_start[0] :][: columns.value_length[0]]), int(columns.key_length[0])
    (b'value', -1)
    """
    bodies = [
        (header, records_of(header, batch))
        for buffer in batches
        for header, batch in iter_batches(buffer)
        if not header.is_control and header.base_offset < end and header.next_offset > start
    ]
    payload = _joined([body for _, body in bodies])
    table = _batch_table(bodies)
    columns = np.empty((6, int(table[_COUNT].sum())), np.int64)
    count, batch, reason = _scan(payload, table, start, end, columns)
    if reason:
        raise fail(CorruptError, "records-unreadable", offset=bodies[batch][0].base_offset, reason=_REASONS[reason])
    return RecordColumns(payload, *columns[:, :count])


def _joined(bodies: list[memoryview]) -> Bytes:
    if len(bodies) == 1:
        return np.frombuffer(bodies[0], np.uint8)
    return np.concatenate([np.frombuffer(body, np.uint8) for body in bodies]) if bodies else np.empty(0, np.uint8)


def _batch_table(bodies: list[tuple[BatchHeader, memoryview]]) -> Int64s:
    """One column for each batch: what the scan must know of it."""
    table = np.empty((6, len(bodies)), np.int64)
    position = 0
    for index, (header, body) in enumerate(bodies):
        timestamp = header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms
        table[:, index] = (
            position,
            position + len(body),
            header.record_count,
            header.base_offset,
            timestamp,
            not header.is_log_append_time,
        )
        position += len(body)
    return table


def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiled on its first call and kept on disk; where nothing may be written, compiled in every process."""
    try:
        made = njit(function, nogil=True, cache=True)
    except RuntimeError:
        made = njit(function, nogil=True)
    return cast("Callable[P, R]", made)


@_compiled
def _varint(payload: Bytes, position: int, end: int) -> tuple[int, int]:
    """A zigzag number and the position behind it, or a position of -1 where it is malformed."""
    raw = np.uint64(0)
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = payload[position]
        position += 1
        raw |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), position  # type: ignore[return-value]
    return 0, -1


@_compiled
def _scan(payload: Bytes, table: Int64s, start: int, end: int, columns: Int64s) -> tuple[int, int, int]:
    """Fill the columns; the answer is (records, batch at fault, reason), the reason 0 where all is well.

    Lengths are compared with what is left, never added first: a sum could pass the greatest number and come back small.
    """
    row = 0
    for batch in range(table.shape[1]):
        position, last = table[_FROM, batch], table[_TO, batch]
        for _ in range(table[_COUNT, batch]):
            length, position = _varint(payload, position, last)
            if position < 0 or length < 1 or length > last - position:
                return row, batch, _BAD_RECORD
            record_end = position + length
            timestamp_delta, position = _varint(payload, position + 1, record_end)
            if position < 0:
                return row, batch, _BAD_NUMBER
            offset_delta, position = _varint(payload, position, record_end)
            if position < 0:
                return row, batch, _BAD_NUMBER
            key_length, key_start = _varint(payload, position, record_end)
            if key_start < 0 or key_length < _NULL or key_length > record_end - key_start:
                return row, batch, _BAD_FIELD
            value_length, value_start = _varint(payload, key_start + max(key_length, 0), record_end)
            if value_start < 0 or value_length < _NULL or value_length > record_end - value_start:
                return row, batch, _BAD_FIELD
            offset = table[_OFFSET, batch] + offset_delta
            if start <= offset < end:
                columns[0, row] = offset
                columns[1, row] = table[_TIMESTAMP, batch] + timestamp_delta * table[_HAS_DELTAS, batch]
                columns[2, row] = key_start
                columns[3, row] = key_length
                columns[4, row] = value_start
                columns[5, row] = value_length
                row += 1
            position = record_end
        if position != last:
            return row, batch, _BAD_RECORD
    return row, 0, 0
