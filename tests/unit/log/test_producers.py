"""Idempotent producers: repeats, gaps, fencing, and the snapshot file."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from penstock.core.errors import CallerError, FencedError
from penstock.core.units import Offset, ProducerId
from penstock.log.producers import Producers
from penstock.protocol.batches import BatchHeader, check_batch
from tests.unit.log.partitions import batch

P = 7


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = P) -> BatchHeader:
    return check_batch(batch(*["v"] * count, producer=producer, epoch=epoch, sequence=sequence))


def stored(*starts: tuple[int, int]) -> Producers:
    """A producer that stored batches of (sequence, count), offsets from 100."""
    producers = Producers("usage-0")
    offset = 100
    for sequence, count in starts:
        producers.store(header(sequence, count), base_offset=Offset(offset))
        offset += count
    return producers


def refusal_code(producers: Producers, asked: BatchHeader) -> str | None:
    error = producers.find_refusal(asked)
    return error.code if error else None


def test_l3_each_of_the_last_five_batches_is_told_from_a_fresh_one() -> None:
    producers = stored((0, 2), (2, 1), (3, 1), (4, 3), (7, 1), (8, 1))
    found = [producers.find_original(header(sequence, count)) for sequence, count in [(2, 1), (4, 3), (8, 1)]]
    assert [original and original.base_offset for original in found] == [102, 104, 108]
    assert producers.find_original(header(0, 2)) is None
    assert producers.find_original(header(4, 2)) is None
    assert producers.find_original(header(9)) is None


@pytest.mark.parametrize(
    ("sequence", "epoch", "expected"),
    [(3, 0, None), (4, 0, "sequence-gap"), (1, 0, "sequence-gap"), (0, 1, None), (3, 1, "sequence-gap")],
)
def test_l3_only_the_next_sequence_or_a_later_epoch_from_zero_is_taken(
    sequence: int, epoch: int, expected: str | None
) -> None:
    assert refusal_code(stored((0, 3)), header(sequence, epoch=epoch)) == expected


def test_an_earlier_epoch_is_fenced() -> None:
    producers = stored((0, 1))
    producers.store(header(0, epoch=3), base_offset=Offset(101))
    error = producers.find_refusal(header(1, epoch=2))
    assert isinstance(error, FencedError)
    assert error.row.wire_code == 47
    assert "epoch 2, and 3 is in use" in str(error)


def test_a_gap_names_what_comes_next() -> None:
    error = stored((0, 3)).find_refusal(header(5))
    assert isinstance(error, CallerError)
    assert error.row.wire_code == 45
    assert "sent sequence 5 to usage-0, and 3 comes next" in str(error)


def test_sequences_wrap_after_the_greatest_32_bit_number() -> None:
    producers = stored((2**31 - 2, 3))
    assert refusal_code(producers, header(1)) is None
    original = producers.find_original(header(2**31 - 2, 3))
    assert original is not None
    assert (original.first_sequence, original.last_sequence) == (2**31 - 2, 0)


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert refusal_code(Producers("usage-0"), header(41)) is None


def test_l3_after_a_first_batch_was_refused_a_later_one_does_not_overtake_it() -> None:
    producers = Producers("usage-0")
    producers.await_repeat(header(0, 2))
    producers.await_repeat(header(2))
    assert refusal_code(producers, header(2)) == "sequence-gap"
    assert refusal_code(producers, header(0, 2)) is None
    producers.store(header(0, 2), base_offset=Offset(0))
    assert refusal_code(producers, header(2)) is None


def test_taking_back_leaves_what_was_known_before() -> None:
    producers = stored((0, 1))
    before = producers.get(ProducerId(P))
    undo = producers.store(header(1), base_offset=Offset(101))
    producers.restore(header(1), before=undo)
    assert producers.get(ProducerId(P)) == before


def test_l7_the_producer_unused_for_longest_is_forgotten_first() -> None:
    producers = Producers("usage-0", producers_max=2)
    for producer in (1, 2, 1, 3):
        known = producers.get(ProducerId(producer))
        producers.store(header(known.next_sequence if known else 0, producer=producer), base_offset=Offset(0))
    assert [producers.get(ProducerId(producer)) is not None for producer in (1, 2, 3)] == [True, False, True]


def test_a_snapshot_has_kafkas_bytes() -> None:
    """One producer with one batch of three records at offsets 100 to 102."""
    data = stored((0, 3)).to_snapshot()
    entry = bytes.fromhex(
        "000000000000000700000000000200000000000000660000000200000000000003eaffffffffffffffffffffffff"
    )
    body = bytes.fromhex("00000001") + entry
    assert data == bytes.fromhex("0001") + crc32c(body).to_bytes(4, "big") + body


def test_l3_a_snapshot_keeps_all_five_batches() -> None:
    producers = stored((0, 2), (2, 1), (3, 1), (4, 3), (7, 1), (8, 1))
    loaded = Producers("usage-0")
    assert loaded.load_snapshot(producers.to_snapshot())
    assert loaded.get(ProducerId(P)) == producers.get(ProducerId(P))


@pytest.mark.parametrize("cut", [0, 5, 9, 12, 47])
def test_a_short_snapshot_is_refused(cut: int) -> None:
    assert not Producers("usage-0").load_snapshot(stored((0, 3)).to_snapshot()[:cut])


def test_a_snapshot_with_any_bit_changed_is_refused() -> None:
    data = stored((0, 3)).to_snapshot()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        assert not Producers("usage-0").load_snapshot(bytes(changed)), position
