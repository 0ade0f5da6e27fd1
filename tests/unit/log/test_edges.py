"""Names as long as they may be, and reading where records were lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import DataLossError
from penstock.core.files import RealFiles
from penstock.core.units import PartitionId
from penstock.core.values import TopicPartition
from penstock.log.store import Store
from penstock.testing.faulty_files import FaultyFiles
from tests.unit.log.partitions import FIRST_LOG, TOPIC_ID, append_at, batch, fetch, flush, reopened, rounds, values_from


def test_a_partition_with_the_longest_name_is_made_and_removed(tmp_path: Path) -> None:
    """249 characters, a dash and four digits; a file system takes 255."""
    name = TopicPartition("t" * 249, PartitionId(9_999))
    store = Store.open(tmp_path, files=RealFiles())
    append_at(store.create(name, topic_id=TOPIC_ID), batch("a"))
    flush(store)
    store.close()
    store = Store.open(tmp_path, files=RealFiles())
    assert store.partitions[name].end == 1
    store.delete(name)
    store.close()
    assert not [found for found in tmp_path.iterdir() if found.is_dir()]


@pytest.mark.parametrize("is_clean", [True, False])
def test_l5_who_reads_where_the_end_was_lost_is_told_so(*, is_clean: bool) -> None:
    files = FaultyFiles()
    store = rounds(files, "a", "b", "c", "d")
    if is_clean:
        store.close()
    files.put(FIRST_LOG, content=files.content(FIRST_LOG)[: len(batch("a"))])
    store, partition = reopened(files)
    end = partition.end
    with pytest.raises(DataLossError, match=rf"usage-0 has lost the records 2 to {end} \(exclusive\)"):
        fetch(partition, 2)
    append_at(partition, batch("e"))
    flush(store)
    assert values_from(partition, offset=end) == ["e"]
