"""One open partition: offsets, visibility, reads, rolls, and taking back what found no room."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.core.errors import CorruptError, DataLossError
from penstock.core.units import Offset, TimestampMs
from penstock.log.limits import LogLimits
from penstock.log.partition import Appended, Duplicate, Partition, Refused
from penstock.log.reading import ColdRead, TimeHit
from penstock.protocol.batches import parse_header
from penstock.testing.faulty_files import Fault, FaultyFiles
from tests.unit.log.partitions import (
    FIRST_LOG,
    FOLDER,
    LIMITS,
    NAME,
    append,
    append_at,
    batch,
    fetch,
    flush,
    new_partition,
    open_store,
    records_in,
    values_from,
)

NO_TAIL = LogLimits(segment_bytes=10_000, tail_bytes=0, sync_threads=0)


def filled(files: FaultyFiles, count: int, *, limits: LogLimits = LIMITS, size: int = 300) -> Partition:
    """One record in each batch, `v0` to `vN` and some padding, times 1,000 apart."""
    store, partition = new_partition(files, limits)
    for number in range(count):
        append_at(partition, batch(f"v{number}".ljust(size), at=1_000 * number))
    flush(store)
    return partition


def test_l1_nothing_is_visible_before_its_flush_is_done() -> None:
    store, partition = new_partition(FaultyFiles())
    answer = append(partition, batch("a", "b"))
    assert answer == Appended(Offset(0), durable_at=Offset(2))
    assert (partition.high_watermark, partition.end) == (0, 2)
    assert partition.read(Offset(0), max_bytes=100) == []
    flush(store)
    assert partition.high_watermark == 2
    assert records_in(fetch(partition, 0)) == [(0, "a"), (1, "b")]


def test_l2_offsets_and_the_leader_epoch_are_written_into_the_stored_batch() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    append_at(partition, batch("a", "b"))
    append_at(partition, batch("c"))
    flush(store)
    stored = files.content(FIRST_LOG)
    first = parse_header(stored)
    second = parse_header(stored, first.size)
    assert (first.base_offset, first.leader_epoch, second.base_offset) == (0, 0, 2)
    assert first.crc == parse_header(batch("a", "b")).crc


def test_l1_no_read_passes_the_high_watermark_whether_the_rest_is_in_memory_or_on_disk() -> None:
    store, partition = new_partition(FaultyFiles(), NO_TAIL)
    for value in "ab":
        append_at(partition, batch(value, at=1_000))
    flush(store)
    append_at(partition, batch("c", at=5_000))
    append_at(partition, batch("d", at=6_000))
    for _ in range(2):
        cold = partition.read(Offset(0), max_bytes=10_000)
        assert isinstance(cold, ColdRead)
        assert records_in(b"".join(cold.run())) == [(0, "a"), (1, "b")]
        search = partition.find_by_time(TimestampMs(1_000))
        assert search is not None
        assert dataclasses.replace(search, timestamp_ms=TimestampMs(5_000)).run() is None
        if round_ := store.take_round():
            round_.run()


def test_l1_a_read_from_memory_stops_at_the_high_watermark() -> None:
    store, partition = new_partition(FaultyFiles())
    append_at(partition, batch("a"))
    flush(store)
    append_at(partition, batch("b"))
    assert isinstance(partition.read(Offset(0), max_bytes=10_000), list)
    assert records_in(fetch(partition, 0)) == [(0, "a")]


def test_an_index_that_went_wrong_while_the_log_was_open_misleads_nobody() -> None:
    files = FaultyFiles()
    partition = filled(files, 60)
    index = FOLDER / f"{0:020}.index"
    for entries in ("00000001 00000007", "00000001 00001158", "00000001 7fffffff", "00000000 00000000"):
        files.put(index, content=bytes.fromhex(entries))
        for offset in (0, 5, 20, 26):
            assert records_in(fetch(partition, offset, max_bytes=1))[0][0] == offset
    files.remove(index)
    assert records_in(fetch(partition, 20, max_bytes=1))[0][0] == 20


def test_what_is_appended_during_a_round_belongs_to_the_next() -> None:
    store, partition = new_partition(FaultyFiles())
    append_at(partition, batch("a"))
    round_ = store.take_round()
    assert round_ is not None
    append_at(partition, batch("b"))
    assert store.take_round() is None
    round_.run()
    store.settle(round_)
    assert (partition.high_watermark, partition.end) == (1, 2)
    flush(store)
    assert values_from(partition) == ["a", "b"]
    assert store.take_round() is None


def test_l3_a_retried_batch_is_stored_once_and_waits_for_its_originals_flush() -> None:
    store, partition = new_partition(FaultyFiles())
    append_at(partition, batch("x"))
    flush(store)
    data = batch("a", "b", producer=5)
    assert append(partition, data) == Appended(Offset(1), Offset(3))
    assert append(partition, data) == Duplicate(Offset(1), durable_at=Offset(3))
    assert partition.high_watermark == 1
    flush(store)
    assert values_from(partition) == ["x", "a", "b"]


@pytest.mark.parametrize("limits", [LIMITS, NO_TAIL])
def test_a_read_starts_with_the_batch_that_holds_the_offset(limits: LogLimits) -> None:
    store, partition = new_partition(FaultyFiles(), limits)
    append_at(partition, batch("a", "b", "c"))
    append_at(partition, batch("d", "e"))
    flush(store)
    assert records_in(fetch(partition, 1)) == [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")]
    assert records_in(fetch(partition, 4)) == [(3, "d"), (4, "e")]


@pytest.mark.parametrize("limits", [LIMITS, NO_TAIL])
def test_a_read_keeps_to_its_bytes_but_gives_at_least_one_batch(limits: LogLimits) -> None:
    store, partition = new_partition(FaultyFiles(), limits)
    sizes = [len(data) for data in (batch("a" * 100), batch("b" * 100), batch("c" * 100))]
    for letter in "abc":
        append_at(partition, batch(letter * 100))
    flush(store)
    assert len(fetch(partition, 0, max_bytes=1)) == sizes[0]
    assert len(fetch(partition, 0, max_bytes=sizes[0] + sizes[1])) == sizes[0] + sizes[1]
    assert len(fetch(partition, 0, max_bytes=sum(sizes) - 1)) == sizes[0] + sizes[1]


def test_the_end_of_the_log_is_read_from_memory_and_the_rest_from_disk() -> None:
    partition = filled(FaultyFiles(), 100)
    assert isinstance(partition.read(Offset(0), max_bytes=1_000), ColdRead)
    assert isinstance(partition.read(Offset(99), max_bytes=1_000), list)


def test_every_offset_is_found_through_every_segment_and_index() -> None:
    partition = filled(FaultyFiles(), 120, limits=LogLimits(segment_bytes=15_000, tail_bytes=0, sync_threads=0))
    for offset in range(120):
        assert records_in(fetch(partition, offset, max_bytes=1))[0][0] == offset


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_an_offset_outside_the_log_is_told_with_what_there_is(offset: int) -> None:
    partition = filled(FaultyFiles(), 3)
    assert partition.read(Offset(3), max_bytes=10) == []
    with pytest.raises(DataLossError, match=rf"usage-0 has no offset {offset}: it holds 0 to 3 \(exclusive\)"):
        partition.read(Offset(offset), max_bytes=10)


def test_segments_roll_at_their_size_and_are_named_by_their_first_offset() -> None:
    """A batch here has 61 + 300 + 9 bytes, so 27 fit in 10,000."""
    files = FaultyFiles()
    assert len(batch("v0".ljust(300), at=0)) == 370
    filled(files, 60)
    logs = [name for name in files.names(FOLDER) if name.endswith(".log")]
    assert logs == [f"{base:020}.log" for base in (0, 27, 54)]


def test_a_sealed_segment_has_its_indexes_and_a_snapshot() -> None:
    files = FaultyFiles()
    filled(files, 30)
    names = files.names(FOLDER)
    assert {f"{0:020}.index", f"{0:020}.timeindex", f"{27:020}.snapshot"} <= {*names}
    # 12 batches of 370 bytes are the first to pass 4,096, so the 13th is indexed, and the 25th.
    assert files.content(FOLDER / f"{0:020}.index") == bytes.fromhex("0000000c 00001158 00000018 000022b0")


def test_a_full_index_rolls_the_segment() -> None:
    files = FaultyFiles()
    filled(files, 40, limits=LogLimits(index_bytes=16, sync_threads=0))
    logs = [name for name in files.names(FOLDER) if name.endswith(".log")]
    assert logs == [f"{base:020}.log" for base in (0, 25)]


@pytest.mark.parametrize("limits", [LIMITS, NO_TAIL])
def test_a_time_is_found_to_the_record(limits: LogLimits) -> None:
    store, partition = new_partition(FaultyFiles(), limits)
    append_at(partition, batch("a", "b", "c", at=1_000))
    append_at(partition, batch("d", at=500))
    append_at(partition, batch("e", "f", at=2_000))
    flush(store)
    wanted = [0, 1_001, 1_003, 2_001, 2_002]
    searches = [partition.find_by_time(TimestampMs(time)) for time in wanted]
    hits = [search.run() if search else None for search in searches]
    assert hits == [
        TimeHit(Offset(0), TimestampMs(1_000)),
        TimeHit(Offset(1), TimestampMs(1_001)),
        TimeHit(Offset(4), TimestampMs(2_000)),
        TimeHit(Offset(5), TimestampMs(2_001)),
        None,
    ]
    greatest = partition.find_max_timestamp()
    assert greatest is not None
    assert greatest.run() == TimeHit(Offset(5), TimestampMs(2_001))


def test_every_time_is_found_through_every_segment_and_index() -> None:
    partition = filled(FaultyFiles(), 120)
    for number in range(120):
        search = partition.find_by_time(TimestampMs(1_000 * number - 999))
        assert search is not None
        assert search.run() == TimeHit(Offset(number), TimestampMs(1_000 * number))


def test_a_time_that_is_not_durable_is_not_found() -> None:
    store, partition = new_partition(FaultyFiles())
    assert partition.find_max_timestamp() is None
    append_at(partition, batch("a", at=1_000))
    assert partition.find_by_time(TimestampMs(1)) is None
    flush(store)
    append_at(partition, batch("b", at=2_000))
    assert partition.find_by_time(TimestampMs(1_500)) is None


def test_l7_the_tails_stay_within_their_limits() -> None:
    files = FaultyFiles()
    store = open_store(files, LogLimits(tail_bytes=2_000, tails_bytes=3_000, sync_threads=0))
    names = [type(NAME)(topic, NAME.partition) for topic in ("a", "b", "c")]
    partitions = [store.create(name, topic_id=bytes(16)) for name in names]
    for partition in partitions * 10:
        append_at(partition, batch("x" * 300))
    assert store._memory.held_bytes <= 3_000
    assert max(partition._tail.held_bytes for partition in partitions) <= 2_000


# A full disk


def test_a_round_without_room_is_taken_back_and_the_next_one_goes_on() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    append_at(partition, batch("a"))
    flush(store)
    append_at(partition, batch("lost", producer=5))
    files.fault_at(files.calls + 1, fault=Fault.FULL)
    ((refused, error),) = flush(store).refused
    assert refused is partition
    assert (error.code, error.row.wire_code) == ("disk-full", 56)
    assert (partition.end, partition.high_watermark, partition.waiting_bytes) == (1, 1, 0)
    assert append(partition, batch("again", producer=5)) == Appended(Offset(1), Offset(2))
    flush(store)
    assert values_from(partition) == ["a", "again"]
    store = open_store(files.after_kill())
    assert not store.quarantined
    assert values_from(store.partitions[NAME]) == ["a", "again"]


def test_l2_what_was_refused_for_want_of_room_does_not_come_back_after_a_power_cut() -> None:
    """Half of the write was done, so the first of its two batches was whole for a moment."""
    for seed in range(20):
        files = FaultyFiles()
        store, partition = new_partition(files)
        append_at(partition, batch("a"))
        flush(store)
        append_at(partition, batch("refused once"))
        append_at(partition, batch("again"))
        files.fault_at(files.calls + 1, fault=Fault.FULL)
        assert flush(store).refused
        store = open_store(files.after_power_cut(seed=seed))
        assert values_from(store.partitions[NAME]) == ["a"]


def test_every_call_of_a_round_that_rolls_twice_can_find_the_disk_full() -> None:
    """Call 1 finds it full, then call 2, until the round gets through; each time all of it is taken back."""
    for call in range(1, 100):
        files = FaultyFiles()
        store, partition = new_partition(files)
        append_at(partition, batch("first" * 100, producer=5))
        flush(store)
        kept = files.content(FIRST_LOG)
        for number in range(1, 60):
            append_at(partition, batch(f"{number}".ljust(350), producer=5, sequence=number))
        files.fault_at(files.calls + call, fault=Fault.FULL)
        try:
            refused = flush(store).refused
        except CorruptError:
            continue  # there is no room for what a sync must bring to the disk: the process ends
        files.clear_faults()
        if not refused:
            break
        assert files.content(FIRST_LOG) == kept
        assert [name for name in files.names(FOLDER) if name.endswith(".log")] == [FIRST_LOG.name]
        assert append(partition, batch("second", producer=5, sequence=1)) == Appended(Offset(1), Offset(2))
        flush(store)
        assert values_from(partition)[1:] == ["second"]
        store = open_store(files.after_power_cut(seed=call))
        assert not store.quarantined
        assert not store.losses
        assert values_from(store.partitions[NAME])[1:] == ["second"]
    else:
        pytest.fail("no round got through")
    assert call > 10


def test_users_stop_before_the_disk_is_full_and_the_log_itself_goes_on() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files, LogLimits(reserve_bytes=1_000, sync_threads=0))
    files.free = 900
    users, ours = batch("user"), batch("ours")
    answer = append(partition, users)
    assert isinstance(answer, Refused)
    assert answer.error.code == "disk-full"
    assert partition.append(ours, header=parse_header(ours), into_reserve=True) == Appended(Offset(0), Offset(1))
    files.free = 1 << 30
    assert append(partition, users) == Appended(Offset(1), Offset(2))
    flush(store)
    assert values_from(partition) == ["ours", "user"]


def test_l3_a_batch_refused_for_want_of_room_is_not_overtaken_by_a_later_one() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files, LogLimits(reserve_bytes=1_000, sync_threads=0))
    files.free = 900
    first, second = batch("x" * 300, producer=5), batch("y", producer=5, sequence=1)
    assert isinstance(append(partition, first), Refused)
    files.free = 1 << 30
    assert isinstance(append(partition, second), Refused)
    assert append(partition, first) == Appended(Offset(0), Offset(1))
    assert append(partition, second) == Appended(Offset(1), Offset(2))
    flush(store)
