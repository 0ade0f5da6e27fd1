"""Walking over batches: where a walk stops and why, and what may follow a bad byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.units import LeaderEpoch, Offset
from penstock.log.walk import Walk, find_later_batch
from penstock.protocol.batches import patch_offsets
from penstock.testing.faulty_files import FaultyFile, FaultyFiles
from tests.unit.log.partitions import batch

SIZE = len(batch("a"))


def placed(offset: int, value: str = "a") -> bytes:
    data = bytearray(batch(value))
    patch_offsets(data, Offset(offset), LeaderEpoch(0))
    return bytes(data)


def log(*parts: bytes) -> FaultyFile:
    file = FaultyFiles().open(Path("/x.log"), create=True)
    file.write_at(0, buffers=parts)
    return file


def walk(file: FaultyFile, *, check_crc: bool = True, chunk: int = 100) -> tuple[list[int], int, str | None]:
    walked = Walk(file, position=0, end=file.size(), expected=Offset(5), check_crc=check_crc, chunk=chunk)
    return [start for start, _ in walked], walked.position, walked.flaw


@pytest.mark.parametrize("chunk", [1, 61, 75, 100, 1_000])
def test_a_walk_gives_every_batch_whatever_it_reads_at_once(chunk: int) -> None:
    file = log(placed(5), placed(6), placed(7, "b" * 500), placed(8))
    starts = [0, SIZE, 2 * SIZE, 2 * SIZE + len(placed(7, "b" * 500))]
    assert walk(file, chunk=chunk) == (starts, file.size(), None)


@pytest.mark.parametrize(
    ("rest", "flaw"),
    [
        (placed(6)[:60], "60 bytes hold no batch header"),
        (placed(6)[:-1], "the batch ends 1 bytes after its file"),
        (bytes(100), "length 0 is shorter than a header"),
        (placed(7), "offset 7 stands where 6 belongs"),
        (placed(6)[:-1] + b"?", "the CRC of the batch does not match"),
        (placed(6)[:16] + b"\1" + placed(6)[17:], "these bytes are no batch"),
    ],
)
def test_a_walk_stops_at_what_is_no_batch_and_says_why(rest: bytes, flaw: str) -> None:
    assert walk(log(placed(5), rest)) == ([0], SIZE, flaw)


def test_a_walk_that_checks_no_crc_passes_a_changed_record() -> None:
    assert walk(log(placed(5)[:-1] + b"?"), check_crc=False) == ([0], SIZE, None)


@pytest.mark.parametrize(("offset", "position"), [(5, 0), (6, 1), (7, 2), (8, 3), (9, 3)])
def test_a_walk_goes_to_the_batch_that_holds_an_offset(offset: int, position: int) -> None:
    walked = Walk(log(placed(5), placed(6), placed(7)), position=0, end=3 * SIZE, expected=Offset(5), check_crc=False)
    walked.go_to(Offset(offset))
    assert walked.position == position * SIZE


@pytest.mark.parametrize("gap", [0, 1, 13, (1 << 20) - SIZE - 5, (1 << 20) + 7])
def test_l5_a_valid_batch_is_found_wherever_it_stands_after_a_bad_byte(gap: int) -> None:
    file = log(placed(5), b"\2" * gap, placed(9))
    assert find_later_batch(file, position=SIZE, end=file.size(), expected=Offset(6)) == SIZE + gap


@pytest.mark.parametrize("rest", [b"", bytes(5_000), b"\2" * 5_000, placed(6)[:-1], placed(3), placed(9)[:-1] + b"?"])
def test_what_cannot_be_a_later_batch_is_not_taken_for_one(rest: bytes) -> None:
    file = log(placed(5), b"??", rest)
    assert find_later_batch(file, position=SIZE, end=file.size(), expected=Offset(6)) is None


def test_l5_a_later_batch_is_found_across_every_byte_of_the_offset() -> None:
    for expected in (0, 200, 70_000, 2**31 - 1, 2**32 - 1, 2**40 - 2, 2**62):
        file = log(b"?", placed(expected + 1))
        assert find_later_batch(file, position=0, end=file.size(), expected=Offset(expected)) == 1
