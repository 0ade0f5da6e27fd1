"""Produce, Fetch and ListOffsets: what each answers, in words of the wire."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from penstock.broker.handlers.produce import AHEAD_MS_MAX
from penstock.core.units import TimestampMs
from penstock.protocol.apis import KafkaError
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.compression import Codec
from penstock.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from penstock.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from tests.unit.broker.machine import Machine, batch, fetch_request, produce_request

NOW_MS = 1_700_000_000_000


def damaged(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


def with_attributes(records: bytes, bits: int) -> bytes:
    """The batch with other attributes and a CRC that matches them."""
    changed = bytearray(records)
    changed[22] |= bits
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


# Produce


def test_l3_a_retried_batch_is_stored_once(machine: Machine) -> None:
    machine.make_topic()
    sent = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    assert machine.produce(produce_request(sent)).base_offset == 0
    assert machine.produce(produce_request(sent)).base_offset == 0
    following = batch(b"b", producer_id=5, producer_epoch=0, base_sequence=1)
    assert machine.produce(produce_request(following)).base_offset == 1


def test_l3_a_retry_after_a_restart_is_told_from_a_fresh_batch(machine: Machine) -> None:
    machine.make_topic()
    sent = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    machine.produce(produce_request(sent))
    later = machine.reopen()
    assert later.produce(produce_request(sent)).base_offset == 0
    assert later.produce(produce_request(batch(b"b"))).base_offset == 1


def test_l3_a_batch_out_of_turn_is_refused(machine: Machine) -> None:
    machine.make_topic()
    machine.produce(produce_request(batch(b"a", producer_id=5, producer_epoch=1, base_sequence=0)))
    gap = machine.produce(produce_request(batch(b"b", producer_id=5, producer_epoch=1, base_sequence=7)))
    old = machine.produce(produce_request(batch(b"c", producer_id=5, producer_epoch=0, base_sequence=1)))
    assert gap.error_code == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert old.error_code == KafkaError.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (produce_request(batch(b"a"), topic="missing"), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (produce_request(batch(b"a"), partition=1), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (produce_request(batch(b"a"), partition=-1), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (produce_request(batch(b"a"), topic="__penstock_topics"), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (produce_request(batch(b"a"), acks=2), KafkaError.INVALID_REQUIRED_ACKS),
        (produce_request(damaged(batch(b"a"))), KafkaError.CORRUPT_MESSAGE),
        (produce_request(batch(b"a")[:-1]), KafkaError.CORRUPT_MESSAGE),
        (produce_request(batch(b"a") * 2), KafkaError.CORRUPT_MESSAGE),
        (produce_request(b""), KafkaError.CORRUPT_MESSAGE),
        (produce_request(batch(b"a" * 2_000_000)), KafkaError.MESSAGE_TOO_LARGE),
        (produce_request(batch(b"a", at_ms=NOW_MS + AHEAD_MS_MAX + 1)), KafkaError.INVALID_TIMESTAMP),
        (produce_request(with_attributes(batch(b"a"), 0x20)), KafkaError.INVALID_RECORD),
        (produce_request(with_attributes(batch(b"a"), 0x08)), KafkaError.INVALID_TIMESTAMP),
        (produce_request(with_attributes(batch(b"a"), 0x07)), KafkaError.UNSUPPORTED_COMPRESSION_TYPE),
        (
            produce_request(batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)),
            KafkaError.INVALID_REQUEST,
        ),
    ],
)
def test_a_batch_that_cannot_be_stored_is_refused_with_its_reason(
    machine: Machine, request_: ProduceRequest, error: KafkaError
) -> None:
    machine.make_topic()
    row = machine.produce(request_)
    assert (KafkaError(row.error_code), row.base_offset) == (error, -1)
    assert machine.produce(produce_request(batch(b"fine"))).base_offset == 0


def test_the_records_with_an_impossible_time_are_named(machine: Machine) -> None:
    machine.make_topic()
    times = [NOW_MS, NOW_MS + AHEAD_MS_MAX + 5000, NOW_MS + AHEAD_MS_MAX]
    row = machine.produce(produce_request(build_batch([Record(None, b"x", TimestampMs(time)) for time in times])))
    assert [error.batch_index for error in row.record_errors] == [1]
    assert row.error_message == "a record for topic t is 3605 s ahead of the broker's clock"


def test_zstd_needs_a_version_that_knows_it(machine: Machine) -> None:
    machine.make_topic()
    sent = build_batch([Record(None, b"x", TimestampMs(NOW_MS))], codec=Codec.ZSTD)
    old = machine.produce(produce_request(sent), version=6)
    assert old.error_code == KafkaError.UNSUPPORTED_COMPRESSION_TYPE
    assert machine.produce(produce_request(sent), version=7).error_code == 0


def test_a_topic_may_take_larger_or_only_smaller_batches(machine: Machine) -> None:
    machine.make_topic("small", max_message_bytes="1024")
    row = machine.produce(produce_request(batch(b"x" * 1024), topic="small"))
    assert row.error_code == KafkaError.MESSAGE_TOO_LARGE


def test_one_bad_partition_does_not_harm_the_others(machine: Machine) -> None:
    machine.make_topic(partitions=2)
    parts = [ProduceRequestPartition(0, damaged(batch(b"a"))), ProduceRequestPartition(1, batch(b"b"))]
    request = ProduceRequest(None, -1, 1000, [ProduceRequestTopic("t", partition_data=parts)])
    rows = machine.ask(request, ProduceResponse, version=9).responses[0].partition_responses
    assert [(row.index, row.error_code, row.base_offset) for row in rows] == [(0, 2, -1), (1, 0, 0)]


def test_a_topic_may_be_named_by_its_id(machine: Machine) -> None:
    topic_id = machine.make_topic().topics[0].topic_id
    for wanted, error in ((topic_id, 0), (bytes(16), KafkaError.UNKNOWN_TOPIC_ID)):
        data = ProduceRequestTopic(topic_id=wanted, partition_data=[ProduceRequestPartition(0, batch(b"a"))])
        assert machine.produce(ProduceRequest(None, -1, 1000, [data]), version=13).error_code == error


# Fetch


def fetch(machine: Machine, request: FetchRequest, *, version: int = 11) -> FetchResponsePartition:
    return machine.ask(request, FetchResponse, version=version).responses[0].partitions[0]


def test_fetch_starts_with_the_batch_that_holds_the_offset(machine: Machine) -> None:
    machine.make_topic()
    first, second = batch(b"a", b"b", b"c"), batch(b"d")
    machine.produce(produce_request(first))
    machine.produce(produce_request(second))
    row = fetch(machine, fetch_request(2))
    assert (row.high_watermark, row.log_start_offset, row.last_stable_offset) == (4, 0, 4)
    assert len(row.records or b"") == len(first) + len(second)
    assert len(fetch(machine, fetch_request(3)).records or b"") == len(second)


def test_fetch_gives_one_batch_even_if_it_is_larger_than_allowed(machine: Machine) -> None:
    machine.make_topic()
    sent = batch(b"x" * 5000)
    machine.produce(produce_request(sent))
    machine.produce(produce_request(sent))
    request = fetch_request(0)
    request.max_bytes = request.topics[0].partitions[0].partition_max_bytes = 100
    assert len(fetch(machine, request).records or b"") == len(sent)


def test_fetch_reads_what_is_no_longer_in_memory(machine: Machine) -> None:
    machine.make_topic()
    machine.produce(produce_request(batch(b"cold")))
    later = machine.reopen()
    assert len(fetch(later, fetch_request(0)).records or b"") == len(batch(b"cold"))


def test_fetch_by_name_and_id_tells_unknown_partitions(machine: Machine) -> None:
    machine.make_topic()
    assert fetch(machine, fetch_request(0, topic="missing")).error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(machine, fetch_request(0, partition=9)).error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    by_id = FetchRequest(topics=[FetchRequestTopic(topic_id=bytes(16), partitions=[FetchRequestPartition(0)])])
    assert fetch(machine, by_id, version=13).error_code == KafkaError.UNKNOWN_TOPIC_ID


def test_fetch_outside_the_log_is_told(machine: Machine) -> None:
    machine.make_topic()
    assert fetch(machine, fetch_request(1)).error_code == KafkaError.OFFSET_OUT_OF_RANGE
    assert fetch(machine, fetch_request(-5)).error_code == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("claimed", "error"), [(-1, 0), (0, 0), (1, KafkaError.UNKNOWN_LEADER_EPOCH), (-7, KafkaError.FENCED_LEADER_EPOCH)]
)
def test_fetch_with_another_leader_epoch_is_told(machine: Machine, claimed: int, error: int) -> None:
    machine.make_topic()
    request = fetch_request(0, max_wait_ms=0)
    request.topics[0].partitions[0].current_leader_epoch = claimed
    assert fetch(machine, request).error_code == error


def test_a_session_is_refused_so_that_the_client_asks_in_full(machine: Machine) -> None:
    told = machine.ask(FetchRequest(session_id=4, session_epoch=1), FetchResponse, version=11)
    assert told.error_code == KafkaError.FETCH_SESSION_ID_NOT_FOUND
    assert machine.ask(FetchRequest(), FetchResponse, version=11).session_id == 0


# ListOffsets


def listed(machine: Machine, timestamp: int, *, partition: int = 0, epoch: int = -1) -> tuple[int, int, int]:
    wanted = ListOffsetsRequestPartition(partition, epoch, timestamp)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsRequestTopic("t", [wanted])])
    row = machine.ask(request, ListOffsetsResponse, version=11).topics[0].partitions[0]
    return row.error_code, row.offset, row.timestamp


def test_list_offsets_finds_ends_and_times(machine: Machine) -> None:
    machine.make_topic()
    for value, time in ((b"a", 1000), (b"b", 3000), (b"c", 2000)):
        machine.produce(produce_request(batch(value, at_ms=time)))
    assert listed(machine, -2) == (0, 0, -1)
    assert listed(machine, -1) == (0, 3, -1)
    assert listed(machine, -3) == (0, 1, 3000)
    assert listed(machine, -4) == (0, 0, -1)
    assert listed(machine, -5) == (0, -1, -1)
    assert listed(machine, 1500) == (0, 1, 3000)
    assert listed(machine, 3001) == (0, -1, -1)
    assert listed(machine, -1, partition=4)[0] == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert listed(machine, -1, epoch=9)[0] == KafkaError.UNKNOWN_LEADER_EPOCH


def test_l1_latest_is_the_durable_end(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"a")), version=9)
    wanted = ListOffsetsRequest(-1, topics=[ListOffsetsRequestTopic("t", [ListOffsetsRequestPartition(0, -1, -1)])])
    before = machine.ask(wanted, ListOffsetsResponse, version=7, connection=2)
    assert before.topics[0].partitions[0].offset == 0
    machine.finish_flush()
    assert listed(machine, -1)[1] == 1
