"""The data directory: partitions come and go, rounds over several of them, real threads and a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import CorruptError
from penstock.core.files import RealFiles
from penstock.core.units import Offset, PartitionId
from penstock.core.values import TopicPartition
from penstock.log.limits import LogLimits
from penstock.log.store import Store, parse_folder_name
from penstock.testing.faulty_files import Fault, FaultyFiles, PowerCut
from tests.unit.log.partitions import (
    FOLDER,
    LIMITS,
    NAME,
    ROOT,
    TOPIC_ID,
    append_at,
    batch,
    flush,
    new_partition,
    open_store,
    values_from,
)

THREE = [TopicPartition("orders", PartitionId(number)) for number in range(3)]


OTHER_NAMES = ["orders", "orders-", "or ders-1", "orders-1.new", "orders-1-delete", ".lock", "a" * 250 + "-1"]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names_are_no_partitions(name: str) -> None:
    assert parse_folder_name(name) is None


def test_a_partition_is_usable_before_its_folder_is_on_the_disk() -> None:
    files = FaultyFiles()
    store = open_store(files)
    partition = store.create(NAME, topic_id=TOPIC_ID)
    append_at(partition, batch("a"))
    assert files.names(FOLDER) == []
    assert flush(store).advanced == (partition,)
    assert files.names(FOLDER) == ["00000000000000000000.log", "leader-epoch-checkpoint", "partition.metadata"]
    assert files.content(FOLDER / "partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert values_from(partition) == ["a"]


def test_a_partition_whose_folder_finds_no_room_is_not_made() -> None:
    for call in range(1, 20):
        files = FaultyFiles()
        store = open_store(files)
        partition = store.create(NAME, topic_id=TOPIC_ID)
        files.fault_at(files.calls + call, fault=Fault.FULL)
        try:
            settled = flush(store)
        except CorruptError:
            continue
        if not settled.refused:
            break
        files.clear_faults()
        assert settled.refused[0][0] is partition
        assert NAME not in store.partitions
        if round_ := store.take_round():
            round_.run()
            store.settle(round_)
        assert store.take_round() is None
        store.create(NAME, topic_id=TOPIC_ID)
        flush(store)
    assert values_from(store.partitions[NAME]) == []
    assert call > 5


def test_power_fails_at_every_call_of_a_creation_and_the_partition_is_there_or_not() -> None:
    for call in range(1, 40):
        files = FaultyFiles()
        store = open_store(files)
        append_at(store.create(NAME, topic_id=TOPIC_ID), batch("a"))
        files.fault_at(files.calls + call, fault=Fault.CUT)
        try:
            flush(store)
        except PowerCut:
            for seed in range(20):
                left = open_store(files.after_power_cut(seed=seed))
                assert not left.quarantined
                assert all(partition.topic_id == TOPIC_ID for partition in left.partitions.values())
        else:
            break
    else:
        pytest.fail("the creation never ended")
    assert call > 10


def test_a_deleted_partition_is_gone_and_its_name_free() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    append_at(partition, batch("a"))
    flush(store)
    append_at(partition, batch("b"))
    store.delete(NAME)
    again = store.create(NAME, topic_id=bytes(16))
    append_at(again, batch("c"))
    flush(store)
    assert values_from(again) == ["c"]
    store.close()
    store = open_store(files)
    assert store.partitions[NAME].topic_id == bytes(16)
    assert values_from(store.partitions[NAME]) == ["c"]


def test_a_partition_that_is_deleted_while_it_is_written_is_gone_after_the_next_round() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    append_at(partition, batch("a"))
    round_ = store.take_round()
    assert round_ is not None
    store.delete(NAME)
    round_.run()
    store.settle(round_)
    flush(store)
    assert files.names(ROOT) == ["durable-offsets"]
    assert store.take_round() is None


def test_a_partition_that_is_deleted_while_it_finds_no_room_is_deleted_once() -> None:
    files = FaultyFiles()
    store = open_store(files)
    store.create(NAME, topic_id=TOPIC_ID)
    files.fault_at(files.calls + 1, fault=Fault.FULL)
    round_ = store.take_round()
    assert round_ is not None
    round_.run()
    store.delete(NAME)
    again = store.create(NAME, topic_id=bytes(16))
    assert store.settle(round_).refused
    flush(store)
    assert dict(store.partitions) == {NAME: again}


def test_l5_power_fails_at_every_call_of_a_deletion_and_it_is_there_or_gone() -> None:
    for call in range(1, 60):
        files = FaultyFiles()
        store, partition = new_partition(files)
        for value in "ab":
            append_at(partition, batch(value))
            flush(store)
        store.delete(NAME)
        files.fault_at(files.calls + call, fault=Fault.CUT)
        try:
            flush(store)
        except PowerCut:
            for seed in range(4):
                left = files.after_power_cut(seed=seed)
                store = open_store(left)
                assert not store.quarantined
                assert not store.losses
                found = [values_from(one) for one in store.partitions.values()]
                assert found in ([["a", "b"]], [])
                assert {*left.names(ROOT)} <= {".lock", "durable-offsets", "usage-0"}
        else:
            break
    else:
        pytest.fail("the deletion never ended")
    assert call > 4


def test_a_quarantined_partition_can_be_deleted() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    append_at(partition, batch("a"))
    store.close()
    files.put(FOLDER / "00000000000000000000.log", content=b"?" * 100)
    store = open_store(files.after_kill())
    assert list(store.quarantined) == [NAME]
    store.delete(NAME)
    flush(store)
    store.close()
    store = open_store(files.after_kill())
    assert not store.quarantined
    assert not store.losses


def test_l1_a_round_is_durable_only_when_every_file_of_it_is() -> None:
    """Every sync of a round over three partitions fails once: nothing of it may then be settled as flushed."""
    for call in range(1, 40):
        files = FaultyFiles()
        store = open_store(files)
        partitions = [store.create(name, topic_id=TOPIC_ID) for name in THREE]
        flush(store)
        for partition in partitions:
            append_at(partition, batch("a"))
        files.fault_at(files.calls + call, fault=Fault.FAIL)
        try:
            flush(store)
        except CorruptError:
            assert [partition.high_watermark for partition in partitions] == [0, 0, 0]
        else:
            break
    assert call > 10


def test_a_disk_full_for_one_partition_leaves_the_others_flushed() -> None:
    files = FaultyFiles()
    store = open_store(files)
    partitions = [store.create(name, topic_id=TOPIC_ID) for name in THREE]
    flush(store)
    for partition in partitions:
        append_at(partition, batch("a"))
    # Each new segment takes four calls: open, write, sync, sync of the folder.
    files.fault_at(files.calls + 6, fault=Fault.FULL)
    settled = flush(store)
    assert settled.advanced == (partitions[0], partitions[2])
    assert [partition for partition, _ in settled.refused] == [partitions[1]]
    assert [partition.high_watermark for partition in partitions] == [1, 0, 1]


def test_what_waits_is_counted() -> None:
    store, partition = new_partition(FaultyFiles())
    append_at(partition, batch("a"))
    append_at(partition, batch("b"))
    assert store.waiting_bytes == 2 * len(batch("a"))
    flush(store)
    assert store.waiting_bytes == 0


def test_a_real_disk_and_real_threads_keep_every_partition(tmp_path: Path) -> None:
    limits = LogLimits(segment_bytes=10_000, tail_bytes=1_000, tails_bytes=2_000)
    folder = tmp_path / "not" / "there"
    store = Store.open(folder, files=RealFiles(), limits=limits)
    partitions = [store.create(name, topic_id=TOPIC_ID) for name in THREE]
    values = [str(number).ljust(500) for number in range(60)]
    for value in values:
        for partition in partitions:
            append_at(partition, batch(value))
        flush(store)
    for partition in partitions:
        assert values_from(partition) == values
    store.close()
    store = Store.open(folder, files=RealFiles(), limits=limits)
    assert store.was_clean
    assert [values_from(store.partitions[name]) for name in THREE] == [values] * 3
    assert append_at(store.partitions[THREE[1]], batch("next")) == Offset(60)
    store.close()


def test_a_clean_stop_writes_what_waits() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files, LIMITS)
    append_at(partition, batch("a"))
    store.close()
    store = open_store(files.after_power_cut(seed=3))
    assert store.was_clean
    assert values_from(store.partitions[NAME]) == ["a"]
