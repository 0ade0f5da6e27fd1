"""The recorded durable offsets: up to which offset each partition's log was certainly on the disk.

`durable-offsets`, two slots, the second at byte 4,194,304 (the file is sparse); rounds write them in turn. A slot,
big-endian:

    magic (8)   sequence (8)   length of the rest (4)   CRC-32C of sequence, length and rest (4)
    then for each partition:
    length of the name (2)   name   topic id (16)   first offset (8)   durable offset (8), -1 where it is not known

Validity: magic and CRC. The valid slot with the greater sequence counts. The offsets are those of the round before, so
writing them waits for nothing: they are a lower bound. Recovery: with no valid slot nothing is known, and nothing is
cut.

L5   Before a recorded offset the log is never cut; a log shorter than its record is reported.
Limit: about 60,000 partitions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from penstock.core.files import File, Files, opened
from penstock.core.invariant import invariant
from penstock.core.units import Offset

FILE_NAME = "durable-offsets"
SLOT_BYTES = 4 << 20
_MAGIC = b"PSDURABL"
_HEAD = struct.Struct(">8sQII")
_COVERED = struct.Struct(">QI")
_NAME = struct.Struct(">H")
_REST = struct.Struct(">16sqq")
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Recorded:
    """One partition in the record; `topic_id` tells it from an earlier partition of the same name.

    With no `end` nothing is known of it, and nothing of it may be cut.
    """

    topic_id: bytes
    start: Offset
    end: Offset | None


@dataclass(frozen=True, slots=True)
class DurableRecord:
    sequence: int
    partitions: Mapping[str, Recorded]


def encode_slot(record: DurableRecord) -> bytes:
    body = b"".join(
        _NAME.pack(len(name))
        + name.encode("ascii")
        + _REST.pack(known.topic_id, known.start, _UNKNOWN if known.end is None else known.end)
        for name, known in record.partitions.items()
    )
    crc = crc32c(body, crc32c(_COVERED.pack(record.sequence, len(body))))
    return _HEAD.pack(_MAGIC, record.sequence, len(body), crc) + body


def decode_slot(data: bytes) -> DurableRecord | None:
    if len(data) < _HEAD.size:
        return None
    magic, sequence, length, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or len(body) != length or crc32c(body, crc32c(_COVERED.pack(sequence, length))) != crc:
        return None
    return DurableRecord(sequence, _decode_partitions(body))


def _decode_partitions(body: memoryview) -> dict[str, Recorded]:
    partitions, position = {}, 0
    while position < len(body):
        name_end = position + _NAME.size + _NAME.unpack_from(body, position)[0]
        topic_id, start, end = _REST.unpack_from(body, name_end)
        name = bytes(body[position + _NAME.size : name_end]).decode("ascii")
        partitions[name] = Recorded(topic_id, Offset(start), None if end == _UNKNOWN else Offset(end))
        position = name_end + _REST.size
    return partitions


def read_record(files: Files, folder: Path) -> DurableRecord | None:
    """The newest valid record, or None where there is none."""
    try:
        with opened(files, folder / FILE_NAME) as file:
            slots = [decode_slot(_read_slot(file, at)) for at in (0, SLOT_BYTES)]
    except FileNotFoundError:
        return None
    return max((slot for slot in slots if slot), key=lambda slot: slot.sequence, default=None)


def _read_slot(file: File, at: int) -> bytes:
    head = file.read_at(at, length=_HEAD.size)
    length = _HEAD.unpack(head)[2] if len(head) == _HEAD.size else 0
    return head + file.read_at(at + _HEAD.size, length=min(length, SLOT_BYTES - _HEAD.size))


def write_record(files: Files, folder: Path, *, record: DurableRecord) -> None:
    """Write the slot of this sequence number, durably; the other slot stays as it is."""
    slot = encode_slot(record)
    invariant(len(slot) <= SLOT_BYTES, "the durable offsets fit their slot", bytes=len(slot))
    with opened(files, folder / FILE_NAME, create=True) as file:
        file.write_at(record.sequence % 2 * SLOT_BYTES, buffers=[slot])
        file.sync()
