"""The compiled scan against the plain reader of records, and against damage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import CorruptError
from penstock.core.units import Offset, TimestampMs
from penstock.protocol.batches import HEADER_BYTES, Record, build_batch, iter_batches, read_records
from penstock.protocol.compression import Codec
from penstock.protocol.scan import RecordColumns, scan

_BYTES = st.none() | st.binary(max_size=20) | st.just(b"x" * 300)
_TIMES = st.integers(-1, 2**62).map(TimestampMs)
_RECORD = st.builds(Record, _BYTES, _BYTES, _TIMES, st.just((("h", b"v"), ("n", None))) | st.just(()))
_BATCH = st.tuples(
    st.lists(st.tuples(_RECORD, st.integers(1, 3)), min_size=1, max_size=8),
    st.sampled_from(list(Codec)),
    st.booleans(),
)
Row = tuple[int, int, bytes | None, bytes | None]


def built(batches: list[tuple[list[tuple[Record, int]], Codec, bool]]) -> list[bytes]:
    """Batches one behind the other, with gaps between records as compaction leaves them."""
    found, base = [], 0
    for rows, codec, control in batches:
        deltas = [sum(step for _, step in rows[:n]) for n in range(len(rows))]
        found.append(
            build_batch([r for r, _ in rows], codec=codec, base_offset=base, offset_deltas=deltas, control=control)
        )
        base += deltas[-1] + 1
    return found


def cut(columns: RecordColumns, start: int, length: int) -> bytes | None:
    return None if length < 0 else columns.payload[start : start + length].tobytes()


def rows_of(columns: RecordColumns) -> list[Row]:
    return [
        (
            int(columns.offsets[n]),
            int(columns.timestamps_ms[n]),
            cut(columns, int(columns.key_start[n]), int(columns.key_length[n])),
            cut(columns, int(columns.value_start[n]), int(columns.value_length[n])),
        )
        for n in range(len(columns.offsets))
    ]


@given(
    batches=st.lists(_BATCH, max_size=4),
    start=st.integers(0, 30),
    size=st.integers(0, 40),
    together=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_the_scan_finds_what_the_plain_reader_finds(
    batches: list[tuple[list[tuple[Record, int]], Codec, bool]], start: int, size: int, *, together: bool
) -> None:
    made = built(batches)
    buffers = [memoryview(b"".join(made))] if together else [memoryview(batch) for batch in made]
    expected = [
        (r.offset, r.timestamp_ms, r.key, r.value)
        for batch in made
        for header, _ in iter_batches(batch)
        if not header.is_control
        for r in read_records(batch)
        if start <= r.offset < start + size
    ]
    assert rows_of(scan(buffers, start=Offset(start), end=Offset(start + size))) == expected


def test_a_partial_batch_at_the_end_is_left_out() -> None:
    one = build_batch([Record(b"k", b"v", TimestampMs(3))])
    two = build_batch([Record(None, None, TimestampMs(4))], base_offset=1)
    columns = scan([memoryview(one + two[:-1])], start=Offset(0), end=Offset(9))
    assert rows_of(columns) == [(0, 3, b"k", b"v")]


def test_a_batch_with_the_brokers_time_gives_it_to_every_record() -> None:
    batch = bytearray(build_batch([Record(None, b"a", TimestampMs(5)), Record(None, b"b", TimestampMs(9))]))
    batch[22] |= 0x08
    assert [row[1] for row in rows_of(scan([memoryview(batch)], start=Offset(0), end=Offset(2)))] == [9, 9]


def test_l5_damaged_records_are_named_by_the_offset_of_their_batch() -> None:
    good = build_batch([Record(b"key", b"value", TimestampMs(3))] * 2)
    bad = bytearray(build_batch([Record(b"key", b"value", TimestampMs(3))] * 2, base_offset=2))
    bad[HEADER_BYTES + 4] = 0x7E  # the key's length, now past the end of its record
    with pytest.raises(CorruptError, match="offset 2 cannot be read: a key or value passes"):
        scan([memoryview(good + bad)], start=Offset(0), end=Offset(9))


@given(at=st.integers(0, 40), noise=st.binary(min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
def test_l7_records_of_any_bytes_are_scanned_or_refused(at: int, noise: bytes) -> None:
    batch = bytearray(build_batch([Record(b"key", b"value", TimestampMs(3))] * 3))
    position = HEADER_BYTES + min(at, len(batch) - HEADER_BYTES - len(noise))
    batch[position : position + len(noise)] = noise
    try:
        columns = scan([memoryview(batch)], start=Offset(-(2**62)), end=Offset(2**62))
    except CorruptError:
        return
    for start, length in ((columns.key_start, columns.key_length), (columns.value_start, columns.value_length)):
        assert ((length >= -1) & (start + length <= len(columns.payload)) & (start >= 0)).all()


@pytest.mark.parametrize("length", [b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 9 + b"\x01", b"\xff" * 11])
def test_l7_lengths_near_the_greatest_number_are_refused(length: bytes) -> None:
    for at in (0, 4, 8):
        batch = bytearray(build_batch([Record(b"key", b"v" * 40, TimestampMs(3))]))
        batch[HEADER_BYTES + at : HEADER_BYTES + at + len(length)] = length
        with pytest.raises(CorruptError, match="cannot be read"):
            scan([memoryview(batch)], start=Offset(0), end=Offset(9))
