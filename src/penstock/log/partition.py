"""One partition: what it has appended, what of that is durable, and what is to be written next.

Everything here happens in memory and at once; it is called from one thread. What needs the disk is handed out as a
value (`Work`, `ColdRead`, `TimeSearch`) and run elsewhere.

L1   The high watermark is the durable end: an append may be acknowledged when it has reached the answer's `durable_at`,
     and no read passes it.
L2   Offsets are given in order and never twice. Only what no reader could see is ever taken back, when it could not
     be written.
L3   A batch that an idempotent producer repeats is answered with its original's offset; one out of turn is refused.
L7   Memory: what waits to be written (`waiting_bytes`, which the caller bounds), the tail, ten thousand producers and
     the last segment's indexes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.core.errors import DataLossError, PenstockError, fail
from penstock.core.files import Buffer, Files
from penstock.core.invariant import invariant
from penstock.core.units import LeaderEpoch, Offset, TimestampMs
from penstock.core.values import TopicPartition
from penstock.log.epochs import Epochs
from penstock.log.limits import LogLimits
from penstock.log.producers import Producer, Producers
from penstock.log.reading import ColdRead, TimeSearch
from penstock.log.room import Room
from penstock.log.segment import NO_TIMESTAMP, Mark, Segment
from penstock.log.tail import Tail, TailMemory
from penstock.log.writing import Extent, Seal, Setup, Work
from penstock.protocol.batches import BatchHeader, patch_offsets


@dataclass(frozen=True, slots=True)
class Appended:
    """The batch has its offset; acknowledge it when the high watermark is at `durable_at` or past it."""

    base_offset: Offset
    durable_at: Offset


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch repeats one that is stored already; the same rule for acknowledging it."""

    base_offset: Offset
    durable_at: Offset


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was stored; `error.row.wire_code` is Kafka's answer."""

    error: PenstockError


class _Queued(NamedTuple):
    """An appended batch that is not durable yet, and how to take it back."""

    header: BatchHeader
    base_offset: Offset
    next_offset: Offset
    segment: Segment
    before: Mark
    producer_before: Producer | None
    batch: Buffer


@dataclass(frozen=True, slots=True)
class Contents:
    """What is on the disk of a partition when it opens; `setup` where nothing is."""

    segments: tuple[Segment, ...]
    end: Offset
    epochs: Epochs
    producers: Producers
    setup: Setup | None = None


class Partition:
    """An open partition. Use `Store` to get one."""

    def __init__(
        self,
        name: TopicPartition,
        *,
        topic_id: bytes,
        folder: Path,
        contents: Contents,
        files: Files,
        limits: LogLimits,
        room: Room,
        memory: TailMemory,
        dirty: dict[Partition, None],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.folder = folder
        self.segment_bytes = limits.segment_bytes
        self.waiting_bytes = 0
        self.producers = contents.producers
        self._files = files
        self._limits = limits
        self._room = room
        self._memory = memory
        self._dirty = dirty
        self._tail = Tail(bytes_max=limits.tail_bytes)
        self._segments = list(contents.segments)
        self._epochs = contents.epochs
        self._setup = contents.setup
        self._end = self._high_watermark = self._opened_at = contents.end
        self._max_timestamp_ms = max(segment.max_timestamp_ms for segment in self._segments)
        self._queue: list[_Queued] = []
        self._seals: dict[Segment, Seal] = {}
        self._in_flight: tuple[int, tuple[Segment, ...]] | None = None

    @property
    def log_start(self) -> Offset:
        """The earliest offset that can be read."""
        return self._segments[0].base

    @property
    def end(self) -> Offset:
        """The offset the next record gets; records from the high watermark on are nobody's to see yet."""
        return self._end

    @property
    def high_watermark(self) -> Offset:
        """Everything before this offset is on the disk."""
        return self._high_watermark

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self._epochs.current

    @property
    def has_work(self) -> bool:
        """Whether a round has something to write here."""
        return bool(self._queue or self._setup)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was appended since the partition was opened."""
        return self._end == self._opened_at

    @property
    def is_set_up(self) -> bool:
        """Whether the partition's folder is on the disk."""
        return self._setup is None

    def append(
        self, batch: Buffer, *, header: BatchHeader, into_reserve: bool = False
    ) -> Appended | Duplicate | Refused:
        """Take one batch; `header` is what `check_batch` answered for it, and the bytes are copied.

        `into_reserve` is for records the log itself needs while the disk is almost full.
        """
        if header.producer_id >= 0:
            original = self.producers.find_original(header)
            if original is not None:
                return Duplicate(original.base_offset, Offset(original.last_offset + 1))
            refusal = self.producers.find_refusal(header)
            if refusal is not None:
                return Refused(refusal)
        no_room = None if into_reserve else self._room.take(header.size)
        if no_room is not None:
            self.producers.await_repeat(header)
            return Refused(no_room)
        return self._append(bytearray(batch), header)

    def _append(self, batch: bytearray, header: BatchHeader) -> Appended:
        base = self._end
        next_offset = Offset(base + header.last_offset_delta + 1)
        patch_offsets(batch, base, self._epochs.current)
        segment = self._segment_for(header)
        before = segment.mark()
        segment.grow(header, last_offset=Offset(next_offset - 1))
        known = self.producers.store(header, base_offset=base) if header.producer_id >= 0 else None
        self._queue.append(_Queued(header, base, next_offset, segment, before, known, batch))
        self._memory.add(self._tail, batch, base_offset=base, next_offset=next_offset)
        self._dirty[self] = None
        self.waiting_bytes += len(batch)
        self._end = next_offset
        return Appended(base, next_offset)

    def _segment_for(self, header: BatchHeader) -> Segment:
        last = self._segments[-1]
        index_bytes = self._limits.index_bytes
        if last.fits(header, base_offset=self._end, segment_bytes=self.segment_bytes, index_bytes=index_bytes):
            return last
        snapshot_path = self.folder / f"{self._end:020}.snapshot"
        self._seals[last] = Seal(*last.seal(), snapshot_path, self.producers.to_snapshot())
        self._segments.append(Segment(self.folder, base=self._end))
        return self._segments[-1]

    def take_work(self) -> Work:
        """Everything to be written now; `flushed` or `take_back` must answer it before the next one is taken."""
        invariant(self._in_flight is None, "one round at a time writes a partition", partition=self.name)
        touched = {queued.segment for queued in self._queue} | self._seals.keys()
        segments = sorted(touched, key=lambda segment: segment.base)
        self._in_flight = (len(self._queue), tuple(self._seals))
        return Work(self.folder, self._setup, tuple(map(self._extent, segments)), self._end)

    def _extent(self, segment: Segment) -> Extent:
        queued = [item for item in self._queue if item.segment is segment]
        position = queued[0].before.size if queued else segment.size
        return Extent(segment.path, position, tuple(item.batch for item in queued), self._seals.get(segment))

    def flushed(self, work: Work) -> None:
        """The work is on the disk: readers may see it now."""
        invariant(self._in_flight is not None, "what is flushed was taken", partition=self.name)
        count, sealed = self._in_flight or (0, ())
        for item in self._queue[:count]:
            self._max_timestamp_ms = max(self._max_timestamp_ms, item.header.max_timestamp_ms)
            self.waiting_bytes -= len(item.batch)
        for segment in sealed:
            segment.use_files()
            del self._seals[segment]
        del self._queue[:count]
        self._in_flight = self._setup = None
        self._high_watermark = work.end

    def take_back(self) -> None:
        """The work could not be written: forget everything that is not durable, what was appended since included."""
        self._in_flight = None
        for item in reversed(self._queue):
            item.segment.back_to(item.before)
            if item.header.producer_id >= 0:
                self.producers.restore(item.header, before=item.producer_before)
        if self._seals:
            last = min(self._seals, key=lambda segment: segment.base)
            del self._segments[self._segments.index(last) + 1 :]
        self._queue.clear()
        self._seals.clear()
        self._memory.drop_from(self._tail, self._high_watermark)
        self.waiting_bytes = 0
        self._end = self._high_watermark

    def read(self, offset: Offset, *, max_bytes: int) -> list[Buffer] | ColdRead:
        """Whole batches from the one that holds `offset` on, at least one, at most `max_bytes` where one fits.

        At the high watermark the list is empty. A `ColdRead` is to be run in a thread. An offset that is not, or no
        longer, in the log raises `DataLossError`.
        """
        if not self.log_start <= offset <= self._end:
            raise fail(
                DataLossError,
                "offset-outside",
                partition=self.name,
                offset=offset,
                start=self.log_start,
                end=self._high_watermark,
            )
        if offset >= self._high_watermark:
            return []
        held = self._tail.read(offset, end=self._high_watermark, max_bytes=max_bytes)
        if held is not None:
            return held
        first = bisect_right(self._segments, offset, key=lambda segment: segment.base) - 1
        segments = tuple(s for s in self._segments[first : first + 2] if s.base < self._high_watermark)
        return ColdRead(self._files, self.name, segments, offset, self._high_watermark, max_bytes)

    def find_by_time(self, timestamp_ms: TimestampMs) -> TimeSearch | None:
        """The search for the first record at or after a time, to be run in a thread; None where all are earlier."""
        if self._max_timestamp_ms < timestamp_ms or self._max_timestamp_ms == NO_TIMESTAMP:
            return None
        segments = tuple(
            segment
            for segment in self._segments
            if segment.max_timestamp_ms >= timestamp_ms and segment.base < self._high_watermark
        )
        return TimeSearch(self._files, self.name, segments, timestamp_ms, self._high_watermark)

    def find_max_timestamp(self) -> TimeSearch | None:
        """The search for the first record with the greatest timestamp; None in a log without records."""
        return self.find_by_time(self._max_timestamp_ms)

    def closing_seal(self) -> tuple[Segment, Seal]:
        """What a clean stop leaves beside the last segment; everything is flushed by then."""
        invariant(not self.has_work, "a partition is flushed before it closes", partition=self.name)
        last = self._segments[-1]
        snapshot_path = self.folder / f"{self._end:020}.snapshot"
        return last, Seal(*last.seal(), snapshot_path, self.producers.to_snapshot())

    def release_memory(self) -> None:
        """Forget the tail: the partition is going away."""
        self._memory.release(self._tail)
