"""Kafka's record batches, format 2: read their headers, check them, patch them, build them, read their records.

A batch, big-endian:

    position  bytes  field
           0      8  base offset; offsets inside count from it
           8      4  length of everything after this field
          12      4  leader epoch
          16      1  magic, always 2
          17      4  CRC-32C of everything from position 21 to the end
          21      2  attributes: bits 0-2 codec, 3 the broker's timestamps, 4 transactional, 5 control, 6 delete horizon
          23      4  last offset delta
          27      8  base timestamp in milliseconds; timestamps inside count from it
          35      8  greatest timestamp
          43      8  producer id, -1 for none
          51      2  producer epoch
          53      4  base sequence
          57      4  number of records
          61         the records, compressed as one block by the codec

A record, with every number but the attributes a zigzag varint: length, attributes (1 byte, unused), timestamp delta,
offset delta, key length (-1 for null), key, value length (-1 for null), value, number of headers, and for each header
key length, key, value length (-1 for null), value.

Validity: a batch is whole, its magic is 2 and its CRC matches; one from a producer also has as many offsets as records.
Base offset and leader epoch lie outside the CRC, so the log patches them in place.

L5   A batch whose bytes changed anywhere from position 21 on is told by its CRC.
L7   A batch's claims are bounded by its bytes before anything is allocated for them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from penstock.core.errors import CallerError, CorruptError, fail
from penstock.core.units import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs
from penstock.protocol.compression import Codec, compress, decompress

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
MAGIC = 2
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = -1
_NOWHERE = Offset(0)

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_LENGTH_FROM = 12
_LEADER_EPOCH_AT = 12
_CRC_AT = 17
_CRC_FROM = 21
_RECORD_BYTES_MIN = 7

_CODEC_BITS = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
_UNREADABLE = (IndexError, ValueError, struct.error)


class BatchHeader(NamedTuple):
    """The 61 bytes in front of a batch. A tuple, because one is made for every batch that passes the broker."""

    base_offset: Offset
    length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: TimestampMs
    max_timestamp_ms: TimestampMs
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, this header included."""
        return self.length + _LENGTH_FROM

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap to zero after the greatest 32-bit one."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def codec_bits(self) -> int:
        return self.attributes & _CODEC_BITS

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_BIT)


@dataclass(frozen=True, slots=True)
class Record:
    """One record. Where a batch is built, `offset` is ignored: it is the log that gives offsets."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: TimestampMs
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: Offset = _NOWHERE


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`; only its length is judged, so that a walk over batches always ends."""
    if len(buffer) - position < HEADER_BYTES:
        raise fail(CorruptError, "batch-corrupt", reason=f"{len(buffer) - position} bytes hold no batch header")
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.length < HEADER_BYTES - _LENGTH_FROM:
        raise fail(CorruptError, "batch-corrupt", reason=f"length {header.length} is shorter than a header")
    return header


def check_batch(buffer: Buffer, *, from_client: bool = True) -> BatchHeader:
    """Accept exactly one whole, undamaged batch and give its header; records stay compressed and unread.

    With `from_client` also what only a broker may write is refused: control batches, its timestamps, offsets with gaps.
    """
    header = parse_header(buffer)
    if header.size != len(buffer):
        raise fail(CorruptError, "batch-corrupt", reason=f"{len(buffer)} bytes instead of the {header.size} it claims")
    if header.magic != MAGIC:
        raise fail(CallerError, "batch-format-old", magic=header.magic)
    if crc32c(memoryview(buffer)[_CRC_FROM:]) != header.crc:
        raise fail(CorruptError, "batch-corrupt", reason="its CRC does not match")
    if header.codec_bits > Codec.ZSTD:
        raise fail(CallerError, "batch-codec-unknown", codec=header.codec_bits)
    if from_client:
        _check_producers_claims(header)
    return header


def _check_producers_claims(header: BatchHeader) -> None:
    if header.is_control:
        raise _refused("only the broker writes control batches")
    if header.is_log_append_time:
        raise fail(CallerError, "batch-timestamp-type")
    if header.record_count <= 0:
        raise _refused(f"it claims {header.record_count} records")
    if header.last_offset_delta != header.record_count - 1:
        raise _refused(f"its last offset delta is {header.last_offset_delta} with {header.record_count} records")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise _refused(f"producer {header.producer_id} gave no epoch or no sequence")
    if header.producer_id < 0 and header.is_transactional:
        raise _refused("it is transactional and names no producer")


def _refused(reason: str) -> Exception:
    return fail(CallerError, "batch-refused", reason=reason)


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every whole batch with its bytes; a partial one at the end, as Fetch delivers it, is left out."""
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= HEADER_BYTES:
        header = parse_header(view, position)
        if header.size > len(view) - position:
            return
        yield header, view[position : position + header.size]
        position += header.size


def patch_offsets(batch: bytearray | memoryview, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
    """Write where the batch stands in the log; the CRC does not cover these fields."""
    struct.pack_into(">q", batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_AT, leader_epoch)


def build_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    offset_deltas: Iterable[int] | None = None,
) -> bytes:
    """One batch of at least one record; `offset_deltas` leaves gaps, as compaction does.

    >>> batch = build_batch([Record(b"k", b"v", TimestampMs(1_000))])
    >>> check_batch(batch).record_count, read_records(batch)[0].value
    (1, b'v')
    """
    held = tuple(records)
    if not held:
        raise _refused("it has no records")
    deltas = tuple(range(len(held)) if offset_deltas is None else offset_deltas)
    base_timestamp = held[0].timestamp_ms
    body = bytearray()
    for record, delta in zip(held, deltas, strict=True):
        _write_record(body, record, timestamp_delta=record.timestamp_ms - base_timestamp, offset_delta=delta)
    payload = compress(body, codec=codec)
    attributes = codec | (_TRANSACTIONAL_BIT * transactional) | (_CONTROL_BIT * control)
    batch = bytearray(HEADER_BYTES) + payload
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - _LENGTH_FROM,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        deltas[-1],
        base_timestamp,
        max(record.timestamp_ms for record in held),
        producer_id,
        producer_epoch,
        base_sequence,
        len(held),
    )
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    return bytes(batch)


def records_of(header: BatchHeader, batch: Buffer) -> memoryview:
    """The decompressed records of a batch, one after the other."""
    if header.codec_bits > Codec.ZSTD:
        raise fail(CallerError, "batch-codec-unknown", codec=header.codec_bits)
    body = decompress(memoryview(batch)[HEADER_BYTES : header.size], codec=Codec(header.codec_bits))
    if not 0 <= header.record_count <= len(body) // _RECORD_BYTES_MIN:
        raise _unreadable(header, f"{len(body)} bytes cannot hold {header.record_count} records")
    return body


def read_records(batch: Buffer) -> list[Record]:
    """Every record of one batch, decompressed. The batch's CRC is not checked again."""
    header = parse_header(batch)
    body = records_of(header, batch)
    records = []
    position = 0
    try:
        for _ in range(header.record_count):
            length, start = _read_varint(body, position)
            position = start + length
            if length < 0 or position > len(body):
                raise ValueError("a record passes the end of its batch")
            records.append(_read_record(body[start:position], header))
    except _UNREADABLE as error:
        raise _unreadable(header, str(error)) from error
    if position != len(body):
        raise _unreadable(header, f"{len(body) - position} bytes follow the last record")
    return records


def _unreadable(header: BatchHeader, reason: str) -> Exception:
    return fail(CorruptError, "records-unreadable", offset=header.base_offset, reason=reason)


def _read_record(data: memoryview, header: BatchHeader) -> Record:
    timestamp_delta, position = _read_varint(data, 1)
    offset_delta, position = _read_varint(data, position)
    key, position = _read_bytes(data, position)
    value, position = _read_bytes(data, position)
    headers, position = _read_headers(data, position)
    if position != len(data):
        raise ValueError(f"a record is {len(data) - position} bytes longer than its fields")
    timestamp = header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms + timestamp_delta
    return Record(key, value, TimestampMs(timestamp), headers, Offset(header.base_offset + offset_delta))


def _read_headers(data: memoryview, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = _read_varint(data, position)
    if not 0 <= count <= (len(data) - position) // 2:
        raise ValueError(f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position)
        value, position = _read_bytes(data, position)
        if name is None:
            raise ValueError("a header has no name")
        # Brokers never look inside records, so a name may be any bytes; a reader must still get at the record.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position


def _read_bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(data, position)
    if length == -1:
        return None, position
    end = position + length
    if length < -1 or end > len(data):
        raise ValueError(f"a field of {length} bytes passes the end of its record")
    return bytes(data[position:end]), end


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    raw = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > 63:
            raise ValueError("a number is longer than ten bytes")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), position


def _write_record(out: bytearray, record: Record, *, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(1)
    _write_varint(body, timestamp_delta)
    _write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    _write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, value)
    _write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        _write_varint(out, -1)
        return
    _write_varint(out, len(data))
    out += data


def _write_varint(out: bytearray, value: int) -> None:
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
