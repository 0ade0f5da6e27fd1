"""Reads that need the disk: values made on the loop, run in a thread.

L1   Everything below the high watermark can be read; nothing above it is.
L5   Every batch is checked against its CRC before it leaves; a damaged one is named by file and byte, others are
     served.
Limits: a read holds `max_bytes`, or one batch where that is larger. An index is only a hint: where it is wrong or
missing the segment is walked from its start.
Worst case: a time is looked up by walking one index interval and decompressing one batch.
Limit: the greatest timestamp in a batch's header is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import CorruptError, DataLossError, PenstockError, RetryError, fail
from penstock.core.files import Buffer, File, Files
from penstock.core.units import Offset, TimestampMs
from penstock.core.values import TopicPartition
from penstock.log.segment import INDEX_INTERVAL_BYTES, Segment
from penstock.log.walk import Walk, is_intact
from penstock.protocol.batches import BatchHeader, Record, read_records

_JOIN_FROM = 16
_WALKED_BYTES = 2 * INDEX_INTERVAL_BYTES
"""What is usually read before the batch that is wanted."""


@dataclass(frozen=True, slots=True)
class ColdRead:
    """Batches from the one that holds `offset` on."""

    files: Files
    partition: TopicPartition
    segments: tuple[Segment, ...]
    offset: Offset
    high_watermark: Offset
    max_bytes: int

    def run(self) -> list[Buffer]:
        """Blocking. Never empty: `offset` is below the high watermark, and where nothing follows, records are lost."""
        for segment in self.segments:
            with _open_log(self.files, segment, self.partition) as file:
                taken = self._read(segment, file)
            if taken:
                return [b"".join(taken)] if len(taken) >= _JOIN_FROM else list(taken)
        raise fail(DataLossError, "records-lost", partition=self.partition, start=self.offset, end=self.high_watermark)

    def _read(self, segment: Segment, file: File) -> list[memoryview]:
        near = segment.position_near(self.files, file, self.offset)
        walk = Walk(
            file, position=near, end=file.size(), expected=None, check_crc=True, chunk=self.max_bytes + _WALKED_BYTES
        )
        taken = self._take(walk)
        if not taken and walk.flaw:
            raise damaged(self.partition, segment.path, position=walk.position, reason=walk.flaw)
        return taken

    def _take(self, walk: Walk) -> list[memoryview]:
        taken: list[memoryview] = []
        size = 0
        for start, header in walk:
            size += header.size if header.next_offset > self.offset else 0
            if taken and size > self.max_bytes:
                break
            if header.next_offset > self.offset:
                taken.append(walk.batch(start, header))
            if header.next_offset >= self.high_watermark:
                break
        return taken


@dataclass(frozen=True, slots=True)
class TimeHit:
    """A record and its time."""

    offset: Offset
    timestamp_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class TimeSearch:
    """The first record at or after a time."""

    files: Files
    partition: TopicPartition
    segments: tuple[Segment, ...]
    timestamp_ms: TimestampMs
    high_watermark: Offset

    def run(self) -> TimeHit | None:
        """Blocking. None where every record is earlier."""
        for segment in self.segments:
            with _open_log(self.files, segment, self.partition) as file:
                for record in self._candidates(segment, file):
                    if record.timestamp_ms >= self.timestamp_ms:
                        return TimeHit(record.offset, record.timestamp_ms)
        return None

    def _candidates(self, segment: Segment, file: File) -> Iterator[Record]:
        near = segment.position_near(self.files, file, segment.offset_before_time(self.files, self.timestamp_ms))
        walk = Walk(file, position=near, end=file.size(), expected=None, check_crc=False)
        for start, header in walk:
            if header.max_timestamp_ms >= self.timestamp_ms:
                yield from self._records(segment, walk, start, header)
            if header.next_offset >= self.high_watermark:
                return
        if walk.flaw:
            raise damaged(self.partition, segment.path, position=walk.position, reason=walk.flaw)

    def _records(self, segment: Segment, walk: Walk, start: int, header: BatchHeader) -> list[Record]:
        batch = walk.batch(start, header)
        if not is_intact(batch, header):
            raise damaged(self.partition, segment.path, position=start, reason="the CRC of the batch does not match")
        return read_records(batch)


def damaged(partition: TopicPartition, path: Path, *, position: int, reason: str) -> PenstockError:
    return fail(CorruptError, "log-damaged", partition=partition, file=path, position=position, reason=reason)


@contextmanager
def _open_log(files: Files, segment: Segment, partition: TopicPartition) -> Iterator[File]:
    try:
        file = files.open(segment.path)
    except FileNotFoundError as error:
        raise fail(RetryError, "partition-gone", partition=partition) from error
    try:
        yield file
    finally:
        file.close()
