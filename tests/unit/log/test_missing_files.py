"""Opening a partition some of whose files are missing, empty, older, or not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import CallerError, DataLossError
from penstock.core.units import Offset, TimestampMs
from penstock.log.durable import FILE_NAME as RECORD_NAME
from penstock.log.partition import Duplicate
from penstock.log.reading import TimeHit
from penstock.testing.faulty_files import FaultyFiles
from tests.unit.log.partitions import (
    FIRST_LOG,
    FOLDER,
    NAME,
    ONE_SEGMENT,
    ROOT,
    TOPIC_ID,
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

# Files missing, empty, older


@pytest.mark.parametrize("content", [None, b"", bytes(300)])
def test_l5_without_a_readable_record_nothing_is_cut(content: bytes | None) -> None:
    files = FaultyFiles()
    rounds(files, "a", "b", limits=ONE_SEGMENT)
    if content is None:
        files.remove(ROOT / RECORD_NAME)
    else:
        files.put(ROOT / RECORD_NAME, content=content)
    torn = files.content(FIRST_LOG)[:-1]
    files.put(FIRST_LOG, content=torn)
    for _ in range(2):
        assert only_error(open_store(files.after_kill(), ONE_SEGMENT)).code == "log-damaged"
        assert files.content(FIRST_LOG) == torn


def test_without_a_record_a_whole_log_opens_in_full() -> None:
    files = FaultyFiles()
    rounds(files, "a", "b")
    files.remove(ROOT / RECORD_NAME)
    _, partition = reopened(files)
    assert values_from(partition) == ["a", "b"]


def test_an_older_record_is_only_a_lower_bound() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    older = files.content(ROOT / RECORD_NAME)
    for value in "abc":
        append_at(partition, batch(value))
        flush(store)
    files.put(ROOT / RECORD_NAME, content=older)
    _, partition = reopened(files)
    assert values_from(partition) == ["a", "b", "c"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_l2_l5_a_log_shorter_than_its_record_is_reported_and_offsets_go_on_after_it(*, is_clean: bool) -> None:
    files = FaultyFiles()
    store = rounds(files, "a", "b", "c", "d")
    if is_clean:
        store.close()
    files.put(FIRST_LOG, content=files.content(FIRST_LOG)[: len(batch("a"))])
    end = 4 if is_clean else 3
    store, partition = reopened(files)
    (loss,) = store.losses
    assert isinstance(loss, DataLossError)
    assert f"usage-0 has lost the records 1 to {end} (exclusive)" in str(loss)
    assert append_at(partition, batch("e")) == end
    flush(store)
    assert values_from(partition, offset=end) == ["e"]
    store, partition = reopened(files)
    assert [error.code for error in store.losses] == ["records-lost"]
    assert partition.end == end + 1


def test_l5_a_log_without_its_folder_is_reported_and_its_offsets_are_not_given_again() -> None:
    files = FaultyFiles()
    rounds(files, "a", "b", "c").close()
    for name in files.names(FOLDER):
        files.remove(FOLDER / name)
    files.remove_folder(FOLDER)
    store = open_store(files.after_kill())
    assert [str(loss.fields["end"]) for loss in store.losses] == ["3"]
    assert append_at(store.create(NAME, topic_id=TOPIC_ID), batch("d")) == 3


def test_l5_a_missing_segment_is_reported_and_the_others_are_read() -> None:
    files = FaultyFiles()
    values = [f"{number}".ljust(3_000) for number in range(10)]
    rounds(files, *values).close()
    assert logs(files) == [0, 3, 6, 9]
    files.remove(FOLDER / f"{3:020}.log")
    store, partition = reopened(files)
    assert [(loss.fields["start"], loss.fields["end"]) for loss in store.losses] == [(3, 6)]
    assert values_from(partition, offset=6) == values[6:]
    assert partition.end == 10


def test_another_partition_of_the_same_name_is_not_held_against_the_record() -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    append_at(partition, batch("a"))
    flush(store)
    older = files.content(ROOT / RECORD_NAME)
    store.delete(NAME)
    partition = store.create(NAME, topic_id=bytes(16))
    append_at(partition, batch("b"))
    flush(store)
    files.put(ROOT / RECORD_NAME, content=older)
    store, partition = reopened(files)
    assert not store.losses
    assert values_from(partition) == ["b"]


INDEXES = [f"{base:020}{suffix}" for base in (0, 27) for suffix in (".index", ".timeindex")]
OTHERS = [f"{54:020}.index", f"{54:020}.timeindex", f"{60:020}.snapshot", f"{54:020}.snapshot"]
STATE = ["leader-epoch-checkpoint", "partition.metadata"]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("change", ["missing", "empty", "zeros", "odd", "older"])
@pytest.mark.parametrize("name", [*INDEXES, *OTHERS, *STATE])
def test_l1_l3_every_file_but_the_log_may_be_lost(name: str, change: str, *, is_clean: bool) -> None:
    files = FaultyFiles()
    store, partition = new_partition(files)
    for number in range(60):
        append_at(partition, batch(f"v{number}".ljust(300), at=1_000 * number, producer=5, sequence=number))
        flush(store)
    store.close()
    _change(files, FOLDER / name, change)
    if not is_clean:
        files.remove(ROOT / ".kafka_cleanshutdown")
    store, partition = reopened(files)
    assert not store.losses
    assert partition.topic_id == TOPIC_ID
    assert [value.strip() for value in values_from(partition)] == [f"v{number}" for number in range(60)]
    for number in range(60):
        search = partition.find_by_time(TimestampMs(1_000 * number))
        assert search is not None
        assert search.run() == TimeHit(Offset(number), TimestampMs(1_000 * number))
    repeat = batch("v58".ljust(300), at=58_000, producer=5, sequence=58)
    assert append(partition, repeat) == Duplicate(Offset(58), Offset(59))


def _change(files: FaultyFiles, path: Path, change: str) -> None:
    content = files.content(path)
    changed = {"empty": b"", "zeros": bytes(len(content)), "odd": content + b"?", "older": content[: len(content) // 2]}
    if change == "missing":
        files.remove(path)
    else:
        entry = 12 if path.suffix == ".timeindex" else 8
        older = content[: len(content) // 2 // entry * entry]
        files.put(path, content=older if change == "older" and "index" in path.suffix else changed[change])


@pytest.mark.parametrize("change", ["missing", "empty", "zeros", "odd", "older"])
def test_the_indexes_of_a_sealed_segment_are_made_anew_from_its_log(change: str) -> None:
    files = FaultyFiles()
    rounds(files, *[f"v{number}".ljust(300) for number in range(60)]).close()
    for name in INDEXES:
        before = files.content(FOLDER / name)
        _change(files, FOLDER / name, change)
        store, _ = reopened(files)
        assert files.content(FOLDER / name) == before, name
        store.close()


def test_l3_a_snapshot_beyond_the_recovered_end_is_dropped() -> None:
    """Else it would be believed once the log has grown past it, and other batches stand there."""
    files = FaultyFiles()
    rounds(files, "a", "b", "c").close()
    assert f"{3:020}.snapshot" in files.names(FOLDER)
    files.put(FIRST_LOG, content=files.content(FIRST_LOG)[: len(batch("a", producer=5))])
    files.remove(ROOT / RECORD_NAME)
    store, partition = reopened(files)
    assert partition.end == 1
    assert f"{3:020}.snapshot" not in files.names(FOLDER)
    append_at(partition, batch("x"))
    append_at(partition, batch("y", "z", producer=5, sequence=1))
    flush(store)
    _, partition = reopened(files)
    again = append(partition, batch("y", "z", producer=5, sequence=1))
    assert again == Duplicate(Offset(2), Offset(4))


def test_an_empty_segment_that_nobody_wrote_to_takes_no_offsets() -> None:
    """A round that found no room took its new segment back, and the power failed before the removal was on the disk."""
    files = FaultyFiles()
    rounds(files, "a", "b")
    files.open(FOLDER / f"{7:020}.log", create=True)
    store, partition = reopened(files)
    assert not store.losses
    assert append_at(partition, batch("c", producer=5, sequence=2)) == 2
    assert f"{7:020}.log" not in files.names(FOLDER)


def test_l5_two_segments_that_hold_the_same_offsets_are_damage() -> None:
    files = FaultyFiles()
    rounds(files, "a", "b", "c").close()
    files.open(FOLDER / f"{2:020}.log", create=True)
    assert "the segment before ends at 3" in str(only_error(open_store(files.after_kill())))


def test_a_second_broker_is_refused() -> None:
    files = FaultyFiles()
    new_partition(files)
    with pytest.raises(CallerError, match="/data is in use by process"):
        open_store(files)


def test_a_partition_whose_topic_id_nobody_knows_is_quarantined() -> None:
    files = FaultyFiles()
    rounds(files, "a").close()
    files.remove(FOLDER / "partition.metadata")
    files.remove(ROOT / RECORD_NAME)
    assert "the topic id is lost" in str(only_error(open_store(files.after_kill())))
