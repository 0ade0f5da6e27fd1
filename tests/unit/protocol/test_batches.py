"""Record batches: what producers of three kinds send, what damaged and dishonest ones send, and the log's patches."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from penstock.core.errors import CallerError, CorruptError
from penstock.core.units import LeaderEpoch, Offset, TimestampMs
from penstock.protocol.batches import (
    HEADER_BYTES,
    Record,
    build_batch,
    check_batch,
    iter_batches,
    parse_header,
    patch_offsets,
    read_records,
)
from penstock.protocol.compression import Codec

_BYTES = st.none() | st.binary(max_size=40) | st.just(b"x" * 200)
_HEADERS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), _BYTES), max_size=3)
_TIMES = st.integers(1_600_000_000_000, 1_900_000_000_000).map(TimestampMs)
RECORDS = st.lists(st.builds(Record, _BYTES, _BYTES, _TIMES, _HEADERS.map(tuple)), min_size=1, max_size=20)

THREE = [Record(b"k%d" % n, b"value %d" % n, TimestampMs(1_000 + n), (("h", b"1"), ("n", None))) for n in range(3)]


def contents(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [(r.key, r.value, r.timestamp_ms, r.headers) for r in records]


def resealed(batch: bytes, *, at: int, code: str, value: int) -> bytes:
    """The batch with one field of its header replaced and its CRC made right again."""
    changed = bytearray(batch)
    struct.pack_into(code, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


@pytest.mark.parametrize("reader", [KafkaPythonBatch, AiokafkaBatch])
@pytest.mark.parametrize("codec", list(Codec))
@given(records=RECORDS)
@settings(max_examples=15, deadline=None)
def test_other_clients_read_the_batches_that_we_build(reader: Any, codec: Codec, records: list[Record]) -> None:
    batch = build_batch(records, codec=codec, base_offset=7, producer_id=3, producer_epoch=2, base_sequence=9)
    theirs = reader(bytearray(batch))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.producer_id, theirs.producer_epoch) == (7, 3, 2)
    read = [(r.key, r.value, r.timestamp, tuple(r.headers), r.offset) for r in theirs]
    assert read == [(*row, 7 + n) for n, row in enumerate(contents(records))]


@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder])
@pytest.mark.parametrize("codec", list(Codec))
@given(records=RECORDS)
@settings(max_examples=15, deadline=None)
def test_we_read_the_batches_that_other_clients_build(builder: Any, codec: Codec, records: list[Record]) -> None:
    made = builder(
        magic=2, compression_type=int(codec), is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    for number, record in enumerate(records):
        made.append(number, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(made.build())
    assert check_batch(batch).record_count == len(records)
    assert contents(read_records(batch)) == contents(records)


def test_the_header_is_read_field_by_field_as_the_format_says() -> None:
    fields = (5, 49, 3, 2, 77, 0x15, 4, 1_000, 2_000, 9, 8, 6, 5)
    header = parse_header(b"--" + struct.pack(">qiibIhiqqqhii", *fields), 2)
    assert tuple(header) == fields
    assert (header.size, header.last_offset, header.next_offset, header.last_sequence) == (61, 9, 10, 10)
    assert (header.codec_bits, header.is_transactional, header.is_control, header.is_log_append_time) == (
        5,
        True,
        False,
        False,
    )


def test_l3_sequences_wrap_after_the_greatest_number() -> None:
    batch = build_batch(THREE, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert check_batch(batch).last_sequence == 0


def test_l5_one_flipped_bit_anywhere_behind_the_crc_is_told() -> None:
    batch = build_batch(THREE)
    for position in range(21, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptError, match="CRC"):
            check_batch(damaged)


def test_a_batch_that_is_cut_or_followed_by_anything_is_refused() -> None:
    batch = build_batch(THREE)
    for wrong in (batch[:-1], batch + b"\0", batch + batch, batch[:40], b""):
        with pytest.raises(CorruptError, match="batch-corrupt"):
            check_batch(wrong)


@pytest.mark.parametrize(
    ("at", "code", "value", "kind", "wire_code"),
    [
        (16, ">b", 1, CallerError, 43),
        (21, ">h", 5, CallerError, 76),
        (21, ">h", 0x20, CallerError, 87),
        (21, ">h", 0x08, CallerError, 32),
        (21, ">h", 0x10, CallerError, 87),
        (23, ">i", 3, CallerError, 87),
        (57, ">i", 0, CallerError, 87),
        (57, ">i", -1, CallerError, 87),
        (43, ">q", 5, CallerError, 87),
        (8, ">i", 48, CorruptError, 2),
        (8, ">i", -1, CorruptError, 2),
    ],
)
def test_what_no_producer_may_claim_is_refused_with_kafkas_code(
    at: int, code: str, value: int, kind: type[Exception], wire_code: int
) -> None:
    with pytest.raises(kind) as caught:
        check_batch(resealed(build_batch(THREE), at=at, code=code, value=value))
    assert caught.value.row.wire_code == wire_code  # type: ignore[attr-defined]


def test_the_broker_itself_may_write_control_batches_and_gaps() -> None:
    batch = build_batch(THREE, offset_deltas=[0, 5, 9], control=True)
    header = check_batch(batch, from_client=False)
    assert (header.is_control, header.last_offset) == (True, 9)
    assert [r.offset for r in read_records(batch)] == [0, 5, 9]


def test_offset_and_epoch_are_patched_without_a_new_crc() -> None:
    batch = bytearray(build_batch(THREE))
    patch_offsets(batch, Offset(2**40), LeaderEpoch(7))
    header = check_batch(batch)
    assert (header.base_offset, header.leader_epoch) == (2**40, 7)
    assert [r.offset for r in read_records(batch)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_a_batch_with_the_brokers_time_gives_it_to_every_record() -> None:
    batch = resealed(build_batch(THREE), at=21, code=">h", value=0x08)
    assert {r.timestamp_ms for r in read_records(batch)} == {1_002}


def test_whole_batches_are_walked_and_a_partial_one_at_the_end_is_left_out() -> None:
    one, two = build_batch(THREE[:1]), build_batch(THREE, base_offset=1)
    for cut in range(len(two)):
        found = [(header.base_offset, bytes(batch)) for header, batch in iter_batches(one + two[:cut])]
        assert found == [(0, one)]
    assert [bytes(batch) for _, batch in iter_batches(one + two)] == [one, two]


def test_a_walk_over_a_length_that_leads_nowhere_ends_with_an_error() -> None:
    with pytest.raises(CorruptError, match="shorter than a header"):
        list(iter_batches(bytes(HEADER_BYTES)))


@given(at=st.integers(HEADER_BYTES, HEADER_BYTES + 60), noise=st.binary(min_size=1, max_size=8))
@settings(deadline=None)
def test_l7_records_of_any_bytes_are_read_or_refused_by_offset(at: int, noise: bytes) -> None:
    batch = bytearray(build_batch(THREE, base_offset=42))
    batch[at : at + len(noise)] = noise[: len(batch) - at]
    try:
        assert len(read_records(batch)) == 3
    except CorruptError as error:
        assert error.fields["offset"] == 42  # noqa: PT017


def test_l7_a_claim_of_two_thousand_million_records_costs_nothing() -> None:
    batch = resealed(build_batch(THREE), at=57, code=">i", value=2**31 - 1)
    with pytest.raises(CorruptError, match="cannot hold 2147483647 records"):
        read_records(batch)


def test_a_header_name_that_is_not_text_does_not_hide_its_record() -> None:
    batch = build_batch([Record(None, b"v", TimestampMs(1), (("ab", None),))])
    changed = resealed(batch.replace(b"ab", b"\xff\xfe"), at=43, code=">q", value=-1)
    assert read_records(changed)[0].headers == (("\ufffd\ufffd", None),)


def test_a_batch_of_no_records_cannot_be_built() -> None:
    with pytest.raises(CallerError, match="no records"):
        build_batch([])
