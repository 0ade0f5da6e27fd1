"""Small words for tests of the log: one partition on a faulty disk, batches of short values, rounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.core.files import Buffer, Files
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.core.values import TopicPartition
from penstock.log.limits import LogLimits
from penstock.log.partition import Appended, Duplicate, Partition, Refused
from penstock.log.reading import ColdRead
from penstock.log.rounds import Settled
from penstock.log.store import Store
from penstock.protocol.batches import Record, build_batch, check_batch, iter_batches, read_records
from penstock.testing.faulty_files import FaultyFiles

ROOT = Path("/data")
NAME = TopicPartition("usage", PartitionId(0))
FOLDER = ROOT / "usage-0"
TOPIC_ID = bytes(range(16))
LIMITS = LogLimits(segment_bytes=10_000, tail_bytes=4_000, tails_bytes=6_000, sync_threads=0)

ONE_SEGMENT = LogLimits(segment_bytes=1_000_000, tail_bytes=0, sync_threads=0)

FIRST_LOG = FOLDER / "00000000000000000000.log"


def batch(*values: str, at: int = 1_000, producer: int = -1, epoch: int = 0, sequence: int = 0) -> bytes:
    """A batch of one record for each value, one millisecond apart."""
    records = [Record(None, value.encode(), TimestampMs(at + i)) for i, value in enumerate(values)]
    if producer < 0:
        return build_batch(records)
    return build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def append(partition: Partition, data: bytes) -> Appended | Duplicate | Refused:
    return partition.append(data, header=check_batch(data))


def append_at(partition: Partition, data: bytes) -> Offset:
    """Append a fresh batch; its base offset."""
    answer = append(partition, data)
    assert isinstance(answer, Appended), answer
    return answer.base_offset


def flush(store: Store) -> Settled:
    round_ = store.take_round()
    assert round_ is not None
    round_.run()
    return store.settle(round_)


def open_store(files: Files, limits: LogLimits = LIMITS) -> Store:
    return Store.open(ROOT, files=files, limits=limits)


def new_partition(files: Files, limits: LogLimits = LIMITS) -> tuple[Store, Partition]:
    store = open_store(files, limits)
    partition = store.create(NAME, topic_id=TOPIC_ID)
    flush(store)
    return store, partition


def fetch(partition: Partition, offset: int, *, max_bytes: int = 1 << 20) -> bytes:
    found = partition.read(Offset(offset), max_bytes=max_bytes)
    buffers: Sequence[Buffer] = found.run() if isinstance(found, ColdRead) else found
    return b"".join(buffers)


def records_in(data: bytes) -> list[tuple[int, str]]:
    records = [record for _, held in iter_batches(data) for record in read_records(held)]
    return [(record.offset, (record.value or b"").decode()) for record in records]


def values_from(partition: Partition, offset: int = 0) -> list[str]:
    """Every value from an offset to the high watermark, by as many reads as it takes; offsets must be in a row."""
    values: list[str] = []
    position = offset
    while position < partition.high_watermark:
        for found, value in records_in(fetch(partition, position, max_bytes=2_000)):
            if found < position:
                continue
            assert found == position, f"offset {found} where {position} belongs"
            values.append(value)
            position += 1
    return values


def rounds(files: FaultyFiles, *values: str, limits: LogLimits = LIMITS) -> Store:
    """A store killed after a round for each value; the record knows all but the last."""
    store, partition = new_partition(files, limits)
    for number, value in enumerate(values):
        append_at(partition, batch(value, producer=5, sequence=number))
        flush(store)
    files.after_kill()
    return store


def reopened(files: FaultyFiles, limits: LogLimits = LIMITS) -> tuple[Store, Partition]:
    store = open_store(files.after_kill(), limits)
    assert not store.quarantined
    return store, store.partitions[NAME]


def only_error(store: Store) -> PenstockError:
    assert list(store.quarantined) == [NAME]
    assert NAME not in store.partitions
    return store.quarantined[NAME]


def logs(files: FaultyFiles) -> list[int]:
    return [int(name[:20]) for name in files.names(FOLDER) if name.endswith(".log")]
