"""The index files: their bytes, what is looked up, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY, Entry, Index, floor_in_file, last_in_file
from penstock.testing.faulty_files import FaultyFiles

THREE = bytes.fromhex("00000002 0000000000000005 000000c800000009 00000190")


def make(*entries: tuple[int, int]) -> Index:
    index = Index(OFFSET_ENTRY)
    for key, value in entries:
        index.add(key, value=value)
    return index


def test_an_offset_index_has_eight_bytes_for_each_entry() -> None:
    assert make((2, 0), (5, 200), (9, 400)).to_bytes() == THREE


def test_a_time_index_has_twelve_bytes_for_each_entry() -> None:
    index = Index(TIME_ENTRY)
    index.add(1_700_000_000_000, value=7)
    assert index.to_bytes() == bytes.fromhex("0000018bcfe56800 00000007")


def test_a_key_that_does_not_grow_is_left_out() -> None:
    assert len(make((5, 0), (5, 200), (4, 300))) == 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [(1, None), (2, Entry(2, 0)), (4, Entry(2, 0)), (5, Entry(5, 200)), (8, Entry(5, 200)), (100, Entry(9, 400))],
)
def test_memory_and_file_give_the_last_entry_at_or_below_a_key(key: int, expected: Entry | None) -> None:
    files = FaultyFiles()
    with_file = files.open(Path("/x.index"), create=True)
    with_file.write_at(0, buffers=[THREE])
    assert make((2, 0), (5, 200), (9, 400)).floor(key) == expected
    assert floor_in_file(with_file, key, layout=OFFSET_ENTRY) == expected


@pytest.mark.parametrize(
    "data", [THREE[:-1], THREE + THREE, THREE[8:16] + THREE[:8], bytes(16), bytes.fromhex("00000001 ffffffff")]
)
def test_bytes_that_are_no_index_are_told(data: bytes) -> None:
    assert Index.from_bytes(data, layout=OFFSET_ENTRY) is None


def test_an_index_survives_its_bytes() -> None:
    index = Index.from_bytes(THREE, layout=OFFSET_ENTRY)
    assert index is not None
    assert index.to_bytes() == THREE
    assert index.last() == Entry(9, 400)


def test_the_last_entry_is_read_alone() -> None:
    file = FaultyFiles().open(Path("/x.index"), create=True)
    assert last_in_file(file, layout=OFFSET_ENTRY) is not None
    file.write_at(0, buffers=[THREE])
    last = last_in_file(file, layout=OFFSET_ENTRY)
    assert last is not None
    assert last.last() == Entry(9, 400)
    file.write_at(24, buffers=[b"?"])
    assert last_in_file(file, layout=OFFSET_ENTRY) is None
