"""Opening a partition after every kind of end: clean, killed, power cut, damaged, files missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import CorruptError
from penstock.core.units import Offset
from penstock.log.durable import FILE_NAME as RECORD_NAME
from penstock.log.partition import Appended, Duplicate
from penstock.testing.faulty_files import Fault, FaultyFiles, PowerCut
from tests.unit.log.partitions import (
    FIRST_LOG,
    FOLDER,
    NAME,
    ONE_SEGMENT,
    ROOT,
    append,
    append_at,
    batch,
    flush,
    logs,
    new_partition,
    only_error,
    open_store,
    reopened,
    rounds,
    values_from,
)

# Kills and power cuts


def test_l1_l2_acknowledged_records_survive_a_kill_and_a_power_cut() -> None:
    for seed in range(10):
        files = FaultyFiles()
        rounds(files, "a", "b", "c")
        store, partition = reopened(files.after_power_cut(seed=seed))
        assert not store.was_clean
        assert values_from(partition) == ["a", "b", "c"]
        assert append_at(partition, batch("d")) == 3


def test_the_power_cut_check_fails_where_syncs_do_nothing() -> None:
    """Were this green, the check above would prove nothing."""
    lost = 0
    for seed in range(10):
        files = FaultyFiles()
        files.drops_syncs = True
        rounds(files, "a", "b", "c")
        store = open_store(files.after_power_cut(seed=seed))
        lost += NAME not in store.partitions or values_from(store.partitions[NAME]) != ["a", "b", "c"]
    assert lost > 0


def test_l2_the_leader_epoch_goes_up_at_each_unclean_start_only() -> None:
    files = FaultyFiles()
    rounds(files, "a")
    store, partition = reopened(files)
    assert partition.leader_epoch == 1
    store.close()
    store, partition = reopened(files)
    assert (store.was_clean, partition.leader_epoch) == (True, 1)
    store, partition = reopened(files)
    assert (store.was_clean, partition.leader_epoch) == (False, 2)
    assert files.content(FOLDER / "leader-epoch-checkpoint") == b"0\n2\n0 0\n2 1\n"


def test_what_stands_past_the_record_is_copied_to_a_segment_of_its_own() -> None:
    files = FaultyFiles()
    rounds(files, "a", "b", "c")
    _, partition = reopened(files)
    assert logs(files) == [0, 2]
    assert files.content(FIRST_LOG) == files.content(FIRST_LOG)[: 2 * len(batch("a"))]
    assert values_from(partition) == ["a", "b", "c"]


def test_l1_the_power_may_fail_right_after_a_recovery() -> None:
    for seed in range(20):
        files = FaultyFiles()
        rounds(files, "a", "b", "c")
        reopened(files)
        store, partition = reopened(files.after_power_cut(seed=seed))
        assert not store.losses
        assert values_from(partition) == ["a", "b", "c"]


def test_l1_l5_a_recovery_whose_cut_could_not_be_synced_is_repeated_and_loses_nothing() -> None:
    """Each call of a recovery fails once; then a start succeeds, then a power cut brings back what was cut."""
    for call in range(1, 40):
        files = FaultyFiles()
        rounds(files, "a", "b", "c")
        files.fault_at(files.calls + call, fault=Fault.FAIL)
        try:
            open_store(files)
        except CorruptError:
            reopened(files)
            for seed in range(6):
                store, partition = reopened(files.after_power_cut(seed=seed))
                assert not store.losses
                assert values_from(partition) == ["a", "b", "c"]
        else:
            break
    assert call > 10


def test_l2_what_a_reader_saw_after_a_failed_sync_and_a_restart_survives_a_power_cut() -> None:
    """The failed sync left the batch in the page cache only; the copy is what brings it to the disk."""
    files = FaultyFiles()
    store, partition = new_partition(files)
    append_at(partition, batch("a"))
    flush(store)
    append_at(partition, batch("b"))
    files.fault_at(files.calls + 2, fault=Fault.FAIL)
    with pytest.raises(CorruptError, match="the disk did not take what was written"):
        flush(store)
    _, partition = reopened(files)
    assert values_from(partition) == ["a", "b"]
    for seed in range(10):
        _, partition = reopened(files.after_power_cut(seed=seed))
        assert values_from(partition) == ["a", "b"]


def test_l3_producers_are_known_after_a_kill_and_after_a_clean_stop() -> None:
    files = FaultyFiles()
    rounds(files, "a", "b", "c")
    store, partition = reopened(files)
    assert append(partition, batch("b", producer=5, sequence=1)) == Duplicate(Offset(1), Offset(2))
    store.close()
    _, partition = reopened(files)
    assert append(partition, batch("a", producer=5)) == Duplicate(Offset(0), Offset(1))
    assert append(partition, batch("d", producer=5, sequence=3)) == Appended(Offset(3), Offset(4))


def test_l1_power_fails_at_every_call_of_a_life_and_again_during_the_recovery() -> None:
    """Rolls, seals and snapshots included; whatever was flushed is there, whatever else is there is in order."""
    for call in range(1, 200):
        files = FaultyFiles()
        files.fault_at(call, fault=Fault.TEAR)
        flushed: list[str] = []
        try:
            _live(files, flushed)
        except PowerCut:
            for second in range(1, 24, 3):
                left = files.after_power_cut(seed=call)
                left.fault_at(left.calls + second, fault=Fault.TEAR)
                _check_survivors(left, flushed, seed=second)
        else:
            break
    else:
        pytest.fail("the life never ended")
    assert call > 40


def _live(files: FaultyFiles, flushed: list[str]) -> None:
    store, partition = new_partition(files)
    values = [f"{number}".ljust(2_500) for number in range(8)]
    for number, value in enumerate(values):
        append_at(partition, batch(value, producer=5, sequence=number))
        if number % 3 != 1:
            flush(store)
            flushed[:] = values[: number + 1]
    store.close()


def _check_survivors(files: FaultyFiles, flushed: list[str], *, seed: int) -> None:
    try:
        open_store(files)
    except PowerCut:
        files = files.after_power_cut(seed=seed)
    else:
        files.after_kill()
    store = open_store(files)
    assert not store.quarantined
    assert not store.losses
    found = values_from(store.partitions[NAME]) if NAME in store.partitions else []
    assert found[: len(flushed)] == flushed
    assert found == [f"{number}".ljust(2_500) for number in range(len(found))]


# Torn ends


def test_l5_a_last_batch_torn_at_any_byte_is_cut_and_its_offset_given_again() -> None:
    whole = len(batch("a"))
    for kept in range(whole, 2 * whole):
        files = FaultyFiles()
        rounds(files, "a", "b", limits=ONE_SEGMENT)
        files.put(FIRST_LOG, content=files.content(FIRST_LOG)[:kept])
        store, partition = reopened(files, ONE_SEGMENT)
        assert not store.losses
        assert values_from(partition) == ["a"], kept
        assert files.content(FIRST_LOG) == files.content(FIRST_LOG)[:whole]
        assert append(partition, batch("b", producer=5, sequence=1)) == Appended(Offset(1), Offset(2))


def test_l5_zeros_after_the_last_whole_batch_are_cut() -> None:
    files = FaultyFiles()
    rounds(files, "a", "b", limits=ONE_SEGMENT)
    files.put(FIRST_LOG, content=files.content(FIRST_LOG) + bytes(5_000))
    _, partition = reopened(files, ONE_SEGMENT)
    assert values_from(partition) == ["a", "b"]


def test_l5_a_bad_bit_past_the_record_with_nothing_after_it_counts_as_torn() -> None:
    size = len(batch("a"))
    for position in range(size, 2 * size):
        if position in range(size + 12, size + 16):
            continue  # the leader epoch lies outside the CRC
        files = FaultyFiles()
        rounds(files, "a", "b", limits=ONE_SEGMENT)
        _flip(files, FIRST_LOG, position)
        _, partition = reopened(files, ONE_SEGMENT)
        assert values_from(partition) == ["a"], position


def _flip(files: FaultyFiles, path: Path, position: int) -> None:
    content = bytearray(files.content(path))
    content[position] ^= 0x10
    files.put(path, content=bytes(content))


# Damage


def test_l5_a_bad_bit_that_a_valid_batch_follows_is_damage_and_nothing_is_changed() -> None:
    size = len(batch("a"))
    for position in (size, size + 8, size + 16, size + 20, size + 25, size + 60, 2 * size - 1):
        files = FaultyFiles()
        store, partition = new_partition(files, ONE_SEGMENT)
        for value in "abc":
            append_at(partition, batch(value))
        flush(store)
        _flip(files, FIRST_LOG, position)
        before = files.content(FIRST_LOG)
        error = only_error(open_store(files.after_kill(), ONE_SEGMENT))
        assert error.fields["position"] == size
        assert f"usage-0 is damaged in {FIRST_LOG} at byte {size}" in str(error)
        assert files.content(FIRST_LOG) == before


def test_l5_a_torn_segment_that_a_later_one_follows_is_damage() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    older = files.content(ROOT / RECORD_NAME)
    for number in range(5):
        append_at(partition, batch(f"{number}".ljust(3_000)))
        flush(store)
    assert logs(files) == [0, 3]
    files.put(FIRST_LOG, content=files.content(FIRST_LOG)[:-1])
    files.put(ROOT / RECORD_NAME, content=older)
    error = only_error(open_store(files.after_kill()))
    assert (error.fields["file"], error.fields["position"]) == (str(FIRST_LOG), 2 * len(batch("0".ljust(3_000))))


def test_l5_a_broken_header_before_the_record_is_damage_whatever_follows() -> None:
    files = FaultyFiles()
    rounds(files, "a", "b", "c", limits=ONE_SEGMENT)
    _flip(files, FIRST_LOG, len(batch("a")) + 16)
    error = only_error(open_store(files, ONE_SEGMENT))
    assert error.fields["position"] == len(batch("a"))
    again = open_store(files.after_kill(), ONE_SEGMENT)
    assert only_error(again).fields["position"] == len(batch("a")), "it stays so until it is repaired"


def test_l5_a_bad_bit_before_the_record_is_named_when_it_is_read_and_other_offsets_serve() -> None:
    size = len(batch("a"))
    for position in (size + 21, size + 30, size + 61, 2 * size - 1):
        files = FaultyFiles()
        rounds(files, "a", "b", "c", limits=ONE_SEGMENT)
        _flip(files, FIRST_LOG, position)
        _, partition = reopened(files, ONE_SEGMENT)
        with pytest.raises(CorruptError, match=rf"usage-0 is damaged in {FIRST_LOG} at byte {size}: the CRC"):
            values_from(partition, offset=1)
        assert values_from(partition, offset=2) == ["c"]


def test_l5_a_quarantined_partition_leaves_the_others_serving() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files, ONE_SEGMENT)
    other = store.create(type(NAME)("other", NAME.partition), topic_id=bytes(16))
    for value in "abc":
        append_at(partition, batch(value))
        append_at(other, batch(value))
        flush(store)
    _flip(files, FIRST_LOG, 16)
    store = open_store(files.after_kill(), ONE_SEGMENT)
    assert only_error(store).code == "log-damaged"
    assert values_from(store.partitions[other.name]) == ["a", "b", "c"]


def test_l5_after_a_clean_stop_a_torn_log_is_damage_too() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files, ONE_SEGMENT)
    append_at(partition, batch("a"))
    append_at(partition, batch("b"))
    store.close()
    files.put(FIRST_LOG, content=files.content(FIRST_LOG)[:-1])
    assert only_error(open_store(files.after_kill(), ONE_SEGMENT)).code == "log-damaged"
