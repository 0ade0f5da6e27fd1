"""One segment of a partition: a run of batches in a file, and its two indexes.

A segment is three files, named by the offset of its first record in 20 digits:

    00000000000000000000.log        batches (see `protocol.batches`), one after the other, offsets without a gap
    00000000000000000000.index      see `log.index`
    00000000000000000000.timeindex  see `log.index`

Validity: every batch is whole, its CRC matches, and its base offset is the one after the batch before.
Recovery: see `log.recovery`. Only the last segment grows; a segment is synced and sealed before the next one is
written, so a torn end can only be in the last.
Migration: none so far; the layout is Kafka's, and Kafka's tools read it.

L2   A segment's offsets are fixed by its name and its batches.
Limits: 2^31 - 1 offsets and bytes in one segment, as Kafka's indexes count in 32 bits.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from penstock.core.files import File, Files, opened
from penstock.core.units import Offset, TimestampMs
from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY, Entry, Index, floor_in_file
from penstock.protocol.batches import HEADER_BYTES, MAGIC, BatchHeader

INDEX_INTERVAL_BYTES = 4096
RELATIVE_OFFSET_MAX = 2**31 - 1
NO_TIMESTAMP = TimestampMs(-1)
_MAGIC_AT = 16


def log_path(folder: Path, base: Offset) -> Path:
    return folder / f"{base:020}.log"


class Mark(NamedTuple):
    """How far a segment had grown. A tuple, because one is made for every batch."""

    size: int
    since_entry: int
    max_timestamp_ms: TimestampMs
    max_timestamp_offset: Offset
    offset_entries: int
    time_entries: int


class Segment:
    """What is known of one segment; it grows in memory here and on disk in `log.writing`."""

    def __init__(self, folder: Path, *, base: Offset) -> None:
        self.base = base
        self.path = log_path(folder, base)
        self.size = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base
        self.offsets: Index | None = Index(OFFSET_ENTRY)
        self.times: Index | None = Index(TIME_ENTRY)
        self._since_entry = 0

    def fits(self, header: BatchHeader, *, base_offset: Offset, segment_bytes: int, index_bytes: int) -> bool:
        if self.size == 0:
            return True
        if self.size + header.size > segment_bytes or len(self._growing()[0]) * OFFSET_ENTRY.size >= index_bytes:
            return False
        return base_offset + header.last_offset_delta - self.base <= RELATIVE_OFFSET_MAX

    def grow(self, header: BatchHeader, *, last_offset: Offset) -> None:
        """Take a batch at the end."""
        if header.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = header.max_timestamp_ms, last_offset
        if self._since_entry > INDEX_INTERVAL_BYTES:
            offsets, times = self._growing()
            offsets.add(last_offset - self.base, value=self.size)
            times.add(self.max_timestamp_ms, value=self.max_timestamp_offset - self.base)
            self._since_entry = 0
        self._since_entry += header.size
        self.size += header.size

    def seal(self) -> tuple[bytes, bytes]:
        """The bytes of both index files; the last entry of the time index holds the segment's greatest timestamp."""
        offsets, times = self._growing()
        if self.size:
            times.add(self.max_timestamp_ms, value=self.max_timestamp_offset - self.base)
        return offsets.to_bytes(), times.to_bytes()

    def use_files(self) -> None:
        """Forget the indexes: their files are on disk now."""
        self.offsets = self.times = None

    def mark(self) -> Mark:
        offsets, times = self._growing()
        return Mark(
            self.size,
            self._since_entry,
            self.max_timestamp_ms,
            self.max_timestamp_offset,
            len(offsets),
            len(times),
        )

    def back_to(self, mark: Mark) -> None:
        """Undo what was taken since the mark."""
        self.size, self._since_entry = mark.size, mark.since_entry
        self.max_timestamp_ms, self.max_timestamp_offset = mark.max_timestamp_ms, mark.max_timestamp_offset
        offsets, times = self._growing()
        offsets.shorten(mark.offset_entries)
        times.shorten(mark.time_entries)

    def resume(self, *, offsets: Index, times: Index) -> None:
        """Go on after the batch that the indexes name last; the caller walks from there."""
        entry, time = offsets.last(), times.last()
        self.offsets, self.times = offsets, times
        self.size = entry.value if entry else 0
        self._since_entry = 0
        self.max_timestamp_ms = TimestampMs(time.key) if time else NO_TIMESTAMP
        self.max_timestamp_offset = Offset(self.base + time.value) if time else self.base

    def position_near(self, files: Files, log: File, offset: Offset) -> int:
        """A batch starts at this byte of the log, and it holds the offset or comes before it."""
        relative = min(offset - self.base, RELATIVE_OFFSET_MAX)
        growing = self.offsets
        if growing is not None:
            entry = growing.floor(relative)
            return entry.value if entry else 0
        entry = _floor(files, self.path.with_suffix(".index"), relative, layout=OFFSET_ENTRY)
        return entry.value if entry and _batch_starts(log, entry.value, offset=offset, first=self.base) else 0

    def offset_before_time(self, files: Files, timestamp_ms: int) -> Offset:
        """Every record before this offset is earlier than the time."""
        growing = self.times
        if growing is not None:
            entry = growing.floor(timestamp_ms - 1)
        else:
            entry = _floor(files, self.path.with_suffix(".timeindex"), timestamp_ms - 1, layout=TIME_ENTRY)
        return Offset(self.base + entry.value) if entry else self.base

    def _growing(self) -> tuple[Index, Index]:
        if self.offsets is None or self.times is None:
            raise TypeError(f"{self.path.name} is sealed")
        return self.offsets, self.times


def _floor(files: Files, path: Path, key: int, *, layout: struct.Struct) -> Entry | None:
    try:
        with opened(files, path) as file:
            return floor_in_file(file, key, layout=layout)
    except FileNotFoundError:
        return None


def _batch_starts(log: File, position: int, *, offset: Offset, first: Offset) -> bool:
    """An index on disk is a hint: what it points at must look like a batch that does not come after the offset."""
    head = log.read_at(position, length=HEADER_BYTES)
    if len(head) < HEADER_BYTES or head[_MAGIC_AT] != MAGIC:
        return False
    return first <= int.from_bytes(head[:8], "big") <= offset
