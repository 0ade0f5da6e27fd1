"""The recorded durable offsets, the leader epochs, the partition's metadata: bytes, validity, replacement."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from penstock.core.units import LeaderEpoch, Offset
from penstock.log.durable import (
    FILE_NAME,
    SLOT_BYTES,
    DurableRecord,
    Recorded,
    decode_slot,
    encode_slot,
    read_record,
    write_record,
)
from penstock.log.epochs import FIRST_EPOCHS, Epochs
from penstock.log.writing import decode_metadata, encode_metadata
from penstock.testing.faulty_files import Fault, FaultyFiles, PowerCut
from tests.unit.log.partitions import ROOT, TOPIC_ID

ONE = {"usage-0": Recorded(TOPIC_ID, Offset(3), Offset(258))}


def record(sequence: int) -> DurableRecord:
    return DurableRecord(sequence, {"usage-0": Recorded(TOPIC_ID, Offset(0), Offset(sequence))})


def disk() -> FaultyFiles:
    files = FaultyFiles()
    files.make_folder(ROOT)
    return files


def test_a_slot_has_the_bytes_of_its_format() -> None:
    body = b"\x00\x07usage-0" + TOPIC_ID + bytes.fromhex("0000000000000003 0000000000000102")
    covered = bytes.fromhex("0000000000000009") + len(body).to_bytes(4, "big")
    expected = b"PSDURABL" + covered + crc32c(covered + body).to_bytes(4, "big") + body
    assert encode_slot(DurableRecord(9, ONE)) == expected
    assert decode_slot(expected) == DurableRecord(9, ONE)


def test_an_offset_that_is_not_known_survives_its_bytes() -> None:
    unknown = DurableRecord(1, {"a-0": Recorded(TOPIC_ID, Offset(0), None)})
    assert decode_slot(encode_slot(unknown)) == unknown


def test_l5_a_slot_with_any_bit_changed_is_no_slot() -> None:
    data = encode_slot(DurableRecord(9, ONE))
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        assert decode_slot(bytes(changed)) is None, position


def test_the_slots_are_written_in_turn_and_the_newest_counts() -> None:
    files = disk()
    for sequence in (1, 2, 3):
        write_record(files, ROOT, record=record(sequence))
        assert read_record(files, ROOT) == record(sequence)
    content = files.content(ROOT / FILE_NAME)
    assert decode_slot(content) == record(2)
    assert decode_slot(content[SLOT_BYTES:]) == record(3)


def test_l5_a_torn_slot_leaves_the_one_before() -> None:
    for seed in range(20):
        files = disk()
        write_record(files, ROOT, record=record(1))
        write_record(files, ROOT, record=record(2))
        files.sync_folder(ROOT)
        files.fault_at(files.calls + 1, fault=Fault.TEAR)
        with pytest.raises(PowerCut):
            write_record(files, ROOT, record=record(3))
        assert read_record(files.after_power_cut(seed=seed), ROOT) == record(2)


@pytest.mark.parametrize("content", [b"", bytes(100), b"PSDURABL" + bytes(1_000)])
def test_a_file_without_a_valid_slot_tells_nothing(content: bytes) -> None:
    files = disk()
    files.open(ROOT / FILE_NAME, create=True).write_at(0, buffers=[content])
    assert read_record(files, ROOT) is None
    files.remove(ROOT / FILE_NAME)
    assert read_record(files, ROOT) is None


def test_epochs_have_kafkas_text() -> None:
    epochs = Epochs(((LeaderEpoch(0), Offset(0)), (LeaderEpoch(3), Offset(41))))
    assert epochs.to_bytes() == b"0\n2\n0 0\n3 41\n"
    assert Epochs.from_bytes(b"0\n2\n0 0\n3 41\n") == epochs


@pytest.mark.parametrize(
    "data",
    [b"", b"0\n", b"0\n0\n", b"1\n1\n0 0\n", b"0\n2\n0 0\n", b"0\n2\n1 0\n1 5\n", b"0\n2\n0 5\n1 5\n", b"0\n1\nx y\n"],
)
def test_text_that_is_no_list_of_epochs_is_told(data: bytes) -> None:
    assert Epochs.from_bytes(data) is None


def test_an_epoch_that_wrote_nothing_gives_way_to_the_next() -> None:
    twice = FIRST_EPOCHS.advanced(Offset(5)).advanced(Offset(5))
    assert twice.to_bytes() == b"0\n2\n0 0\n2 5\n"
    assert FIRST_EPOCHS.advanced(Offset(0)).to_bytes() == b"0\n1\n1 0\n"


def test_metadata_spells_the_topic_id_as_kafka_does() -> None:
    text = encode_metadata(bytes.fromhex("00112233445566778899aabbccddeeff"))
    assert text == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert decode_metadata(text) == bytes.fromhex("00112233445566778899aabbccddeeff")


@pytest.mark.parametrize("data", [b"", b"version: 0\ntopic_id: AAAA", b"version: 1\ntopic_id: ABEiM0RVZneImaq7zN3u_w"])
def test_other_metadata_is_refused(data: bytes) -> None:
    assert decode_metadata(data) is None
