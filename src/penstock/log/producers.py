"""What idempotent producers have stored in one partition, and the file that remembers it.

`.snapshot`, named by the offset it was taken at, big-endian (Kafka's layout):

    version (2) = 1   CRC-32C of everything after it (4)   count (4)   then for each entry, 48 bytes:
    producer id (8)  epoch (2)  last sequence (4)  last offset (8)  offset delta (4)  timestamp (8)
    coordinator epoch (4) = -1   first offset of the open transaction (8) = -1

A producer has up to five entries, oldest first. Kafka writes one and, reading ours, keeps the last, which is the same
one.
Validity: version, CRC, count. Recovery: the newest valid snapshot at or before the log's end, then the log from there
on; one beyond the end is dropped.

L3   A batch among a producer's last five is told from a fresh one, before and after a restart; a batch out of turn is
     refused.
L7   At most `PRODUCERS_MAX` producers are remembered per partition; the one unused for longest is forgotten first.
Limit: a producer that was forgotten, or that is seen for the first time, may start at any sequence.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from crc32c import crc32c

from penstock.core.errors import CallerError, FencedError, PenstockError, fail
from penstock.core.units import Offset, ProducerEpoch, ProducerId, TimestampMs
from penstock.protocol.batches import BatchHeader

PRODUCERS_MAX = 10_000
BATCHES_REMEMBERED = 5
_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_SEQUENCE_MASK = 0x7FFF_FFFF

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: TimestampMs

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def base_offset(self) -> Offset:
        return Offset(self.last_offset - self.offset_delta)


@dataclass(frozen=True, slots=True)
class Producer:
    """The batches, at most five and never none, that a producer stored last, oldest first."""

    epoch: ProducerEpoch
    batches: tuple[StoredBatch, ...]

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1].last_sequence + 1) & _SEQUENCE_MASK

    def with_batch(self, epoch: ProducerEpoch, batch: StoredBatch) -> Producer:
        kept = self.batches[1 - BATCHES_REMEMBERED :] if epoch == self.epoch else ()
        return Producer(epoch, (*kept, batch))


class Producers:
    """Every producer of one partition."""

    def __init__(self, partition: str, *, producers_max: int = PRODUCERS_MAX) -> None:
        self._partition = partition
        self._producers_max = producers_max
        self._known: dict[ProducerId, Producer] = {}
        self._awaited: dict[ProducerId, tuple[ProducerEpoch, int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, producer_id: ProducerId) -> Producer | None:
        return self._known.get(producer_id)

    def find_original(self, header: BatchHeader) -> StoredBatch | None:
        """The stored batch of which this one is a repeat."""
        known = self._known.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            return None
        last = header.last_sequence
        matches = (b for b in known.batches if b.last_sequence == last and b.first_sequence == header.base_sequence)
        return next(matches, None)

    def find_refusal(self, header: BatchHeader) -> PenstockError | None:
        """Why this fresh batch may not be stored now."""
        known = self._known.get(header.producer_id)
        if known is None:
            return self._refuse_early_start(header)
        if header.producer_epoch < known.epoch:
            return self._fenced(header, current=known.epoch)
        expected = known.next_sequence if header.producer_epoch == known.epoch else 0
        return None if header.base_sequence == expected else self._gap(header, expected=expected)

    def _refuse_early_start(self, header: BatchHeader) -> PenstockError | None:
        """A producer whose first batch was refused must repeat that one first, else a later one would overtake it."""
        epoch, sequence = self._awaited.get(header.producer_id, (header.producer_epoch, header.base_sequence))
        if epoch != header.producer_epoch or sequence == header.base_sequence:
            return None
        return self._gap(header, expected=sequence)

    def _gap(self, header: BatchHeader, *, expected: int) -> PenstockError:
        return fail(
            CallerError,
            "sequence-gap",
            partition=self._partition,
            producer_id=header.producer_id,
            sequence=header.base_sequence,
            expected=expected,
        )

    def _fenced(self, header: BatchHeader, *, current: ProducerEpoch) -> PenstockError:
        return fail(
            FencedError,
            "producer-fenced",
            partition=self._partition,
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            current=current,
        )

    def store(self, header: BatchHeader, *, base_offset: Offset) -> Producer | None:
        """Remember the batch; answers what was known before, for `restore`."""
        before = self._known.pop(header.producer_id, None)
        last_offset = Offset(base_offset + header.last_offset_delta)
        batch = StoredBatch(header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp_ms)
        after = before.with_batch(header.producer_epoch, batch) if before else Producer(header.producer_epoch, (batch,))
        self._put(header.producer_id, after)
        self._awaited.pop(header.producer_id, None)
        return before

    def restore(self, header: BatchHeader, *, before: Producer | None) -> None:
        """Undo `store`, the latest one first."""
        self._known.pop(header.producer_id, None)
        if before is None:
            self._awaited.pop(header.producer_id, None)
            self.await_repeat(header)
        else:
            self._put(header.producer_id, before)

    def await_repeat(self, header: BatchHeader) -> None:
        """Remember that this batch was refused though it was in turn."""
        if header.producer_id >= 0 and header.producer_id not in self._known:
            self._awaited.setdefault(header.producer_id, (header.producer_epoch, header.base_sequence))
            _forget_oldest(self._awaited, self._producers_max)

    def _put(self, producer_id: ProducerId, producer: Producer) -> None:
        self._known[producer_id] = producer
        _forget_oldest(self._known, self._producers_max)

    def to_snapshot(self) -> bytes:
        entries = [entry for producer_id, known in self._known.items() for entry in _entries(producer_id, known)]
        body = _COUNT.pack(len(entries)) + b"".join(entries)
        return _HEAD.pack(_VERSION, crc32c(body)) + body

    def load_snapshot(self, data: bytes) -> bool:
        """Take over what the snapshot holds; False, and nothing taken, if it is not valid."""
        if len(data) < _HEAD.size + _COUNT.size:
            return False
        version, crc = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        (count,) = _COUNT.unpack_from(body)
        if version != _VERSION or crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
            return False
        for producer_id, epoch, last_sequence, last_offset, delta, timestamp, _, _ in _ENTRY.iter_unpack(body[4:]):
            before = self._known.pop(producer_id, Producer(epoch, ()))
            batch = StoredBatch(last_sequence, Offset(last_offset), delta, TimestampMs(timestamp))
            self._put(ProducerId(producer_id), before.with_batch(epoch, batch))
        return True


def _entries(producer_id: ProducerId, known: Producer) -> Iterator[bytes]:
    for b in known.batches:
        yield _ENTRY.pack(
            producer_id, known.epoch, b.last_sequence, b.last_offset, b.offset_delta, b.timestamp_ms, -1, -1
        )


def _forget_oldest(known: dict[ProducerId, _Value], limit: int) -> None:
    for producer_id in list(islice(known, max(len(known) - limit, 0))):
        del known[producer_id]
