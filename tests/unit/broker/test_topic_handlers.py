"""Topics, groups and producer ids: what each API answers, in words of the wire."""

from __future__ import annotations

import pytest

from penstock.broker.config import PARTITIONS_IN_ALL_MAX
from penstock.broker.events import Reply
from penstock.broker.handlers.metadata import without_gap
from penstock.broker.producers import BLOCK
from penstock.broker.topics import topic_deleted, topic_made
from penstock.core.units import Offset
from penstock.log.durable import SLOT_BYTES, DurableRecord, Recorded, encode_slot
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic, CreateTopicsResponse
from penstock.protocol.messages.create_topics import ReplicaAssignment as Assignment
from penstock.protocol.messages.create_topics import TopicConfig as Config
from penstock.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)
from penstock.protocol.messages.fetch import (
    FetchResponse,
)
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from penstock.protocol.messages.produce import (
    ProduceResponse,
)
from tests.unit.broker.machine import Machine, answer, answers, batch, fetch_request, produce_request

# Topics


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreateTopicsRequestTopic("t", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (CreateTopicsRequestTopic("", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreateTopicsRequestTopic("..", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreateTopicsRequestTopic("a/b", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreateTopicsRequestTopic("x" * 250, 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreateTopicsRequestTopic("__penstock_x", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreateTopicsRequestTopic("d_t", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreateTopicsRequestTopic("n", 0, 1), KafkaError.INVALID_PARTITIONS),
        (CreateTopicsRequestTopic("n", -2, 1), KafkaError.INVALID_PARTITIONS),
        (CreateTopicsRequestTopic("n", 10_001, 1), KafkaError.INVALID_PARTITIONS),
        (CreateTopicsRequestTopic("n", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (CreateTopicsRequestTopic("n", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR),
        (CreateTopicsRequestTopic("n", -1, -1, [Assignment(0, [2])]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopicsRequestTopic("n", -1, -1, [Assignment(1, [1])]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopicsRequestTopic("n", 1, 1, configs=[Config("no.such", "1")]), KafkaError.INVALID_CONFIG),
        (CreateTopicsRequestTopic("n", 1, 1, configs=[Config("retention.ms", "1000")]), KafkaError.INVALID_CONFIG),
        (CreateTopicsRequestTopic("n", 1, 1, configs=[Config("cleanup.policy", "compact")]), KafkaError.INVALID_CONFIG),
        (CreateTopicsRequestTopic("n", 1, 1, configs=[Config("segment.bytes", "1")]), KafkaError.INVALID_CONFIG),
        (CreateTopicsRequestTopic("n", 1, 1, configs=[Config("segment.bytes", None)]), KafkaError.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_made_is_refused_with_its_reason(
    machine: Machine, topic: CreateTopicsRequestTopic, error: KafkaError
) -> None:
    machine.make_topic()
    machine.make_topic("d.t")
    row = machine.ask(CreateTopicsRequest([topic]), CreateTopicsResponse, version=7).topics[0]
    assert KafkaError(row.error_code) == error
    assert row.error_message


def test_a_topic_is_made_with_its_settings_and_there_after_a_restart(machine: Machine) -> None:
    row = machine.make_topic("made", partitions=3, segment_bytes="65536", retention_ms="-1").topics[0]
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 3, 1)
    later = machine.reopen()
    topic = later.node.topics.named("made")
    assert topic is not None
    assert (topic.id, topic.partitions) == (row.topic_id, 3)
    assert topic.configs == {"segment.bytes": "65536", "retention.ms": "-1"}
    assert later.node.topics.cluster_id == machine.node.topics.cluster_id


def test_an_assignment_to_this_broker_gives_the_number_of_partitions(machine: Machine) -> None:
    topic = CreateTopicsRequestTopic("n", -1, -1, [Assignment(0, [1]), Assignment(1, [1])])
    assert machine.ask(CreateTopicsRequest([topic]), CreateTopicsResponse, version=7).topics[0].num_partitions == 2


def test_a_trial_makes_nothing_and_a_name_twice_fails_twice(machine: Machine) -> None:
    trial = CreateTopicsRequest([CreateTopicsRequestTopic("n", 1, 1)], validate_only=True)
    assert machine.ask(trial, CreateTopicsResponse, version=7).topics[0].error_code == 0
    assert machine.node.topics.named("n") is None
    twice = CreateTopicsRequest([CreateTopicsRequestTopic("n", 1, 1), CreateTopicsRequestTopic("n", 2, 1)])
    rows = machine.ask(twice, CreateTopicsResponse, version=7).topics
    assert [row.error_code for row in rows] == [KafkaError.INVALID_REQUEST]


def test_l1_a_topic_is_there_when_its_record_is_durable(machine: Machine) -> None:
    request = CreateTopicsRequest([CreateTopicsRequestTopic("n", 1, 1)])
    machine.send(request, version=7)
    assert machine.node.topics.named("n") is None
    again = machine.ask(request, CreateTopicsResponse, version=7, connection=2).topics[0]
    assert again.error_code == KafkaError.TOPIC_ALREADY_EXISTS


def test_a_deleted_topic_is_gone_and_a_waiting_reader_is_told(machine: Machine) -> None:
    machine.make_topic()
    machine.produce(produce_request(batch(b"a")))
    machine.send(fetch_request(1), version=11, connection=2)
    request = DeleteTopicsRequest([DeleteTopicsRequestTopic("t"), DeleteTopicsRequestTopic("missing")])
    machine.send(request, version=6)
    effects = machine.finish_flush()
    replies = {effect.connection: effect for effect in effects if isinstance(effect, Reply)}
    woken = answer(replies[2], FetchResponse, version=11).responses[0].partitions[0]
    assert woken.error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    rows = answer(replies[1], DeleteTopicsResponse, version=6).responses
    assert [row.error_code for row in rows] == [0, KafkaError.UNKNOWN_TOPIC_OR_PARTITION]
    machine.finish_flush()
    assert not (machine.config.data / "t-0").exists()


def test_a_produce_that_is_on_its_way_when_its_topic_goes_is_told(machine: Machine) -> None:
    machine.make_topic()
    machine.send(DeleteTopicsRequest([DeleteTopicsRequestTopic("t")]), version=6)
    assert machine.send(produce_request(batch(b"a")), version=9, connection=2) == []
    replies = {effect.connection: effect for effect in machine.finish_flush() if isinstance(effect, Reply)}
    row = answer(replies[2], ProduceResponse, version=9).responses[0].partition_responses[0]
    assert row.error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_can_be_deleted_by_its_id(machine: Machine) -> None:
    topic_id = machine.make_topic().topics[0].topic_id
    wanted = [DeleteTopicsRequestTopic(topic_id=topic_id), DeleteTopicsRequestTopic(topic_id=bytes(15) + b"1")]
    rows = machine.ask(DeleteTopicsRequest(wanted), DeleteTopicsResponse, version=6).responses
    assert [(row.name, row.error_code) for row in rows] == [("t", 0), (None, KafkaError.UNKNOWN_TOPIC_ID)]


# Metadata


def test_a_missing_topic_is_made_where_client_and_setting_allow_it(machine: Machine) -> None:
    asked = MetadataRequest([MetadataRequestTopic(name="auto")])
    row = machine.ask(asked, MetadataResponse, version=12).topics[0]
    assert (row.error_code, row.name, len(row.partitions)) == (0, "auto", 1)
    assert (row.partitions[0].leader_id, row.partitions[0].leader_epoch) == (1, 0)
    forbidden = MetadataRequest([MetadataRequestTopic(name="other")], allow_auto_topic_creation=False)
    row = machine.ask(forbidden, MetadataResponse, version=12).topics[0]
    assert row.error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    bad = MetadataRequest([MetadataRequestTopic(name="a/b")])
    assert machine.ask(bad, MetadataResponse, version=12).topics[0].error_code == KafkaError.INVALID_TOPIC_EXCEPTION


def test_metadata_lists_all_topics_but_internal_ones(machine: Machine) -> None:
    machine.make_topic("b")
    machine.make_topic("a")
    told = machine.ask(MetadataRequest(None), MetadataResponse, version=12)
    assert [topic.name for topic in told.topics] == ["a", "b"]
    assert (told.controller_id, told.cluster_id) == (1, machine.node.topics.cluster_id)
    assert machine.ask(MetadataRequest([]), MetadataResponse, version=1).topics == []
    assert len(machine.ask(MetadataRequest([]), MetadataResponse, version=0).topics) == 2


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_answered_where_names_cannot_be_null(machine: Machine, version: int) -> None:
    wanted = [MetadataRequestTopic(b"1" * 16, None), MetadataRequestTopic(name=None)]
    rows = machine.ask(MetadataRequest(wanted), MetadataResponse, version=version).topics
    assert [row.error_code for row in rows] == [KafkaError.UNKNOWN_TOPIC_ID, KafkaError.INVALID_TOPIC_EXCEPTION]


def test_all_topics_asked_for_as_librdkafka_does_are_all_topics() -> None:
    """A null list of four bytes instead of one, then: make missing topics, no operations, no tags."""
    assert bytes(without_gap(memoryview(b"\0\0\0\0\1\0\0"), version=13)) == b"\0\1\0\0"
    assert bytes(without_gap(memoryview(b"\0\0\0\0\1\0\0\0"), version=9)) == b"\0\1\0\0\0"
    assert bytes(without_gap(memoryview(b"\0\1\0\0"), version=13)) == b"\0\1\0\0"


def test_metadata_finds_a_topic_by_its_id(machine: Machine) -> None:
    topic_id = machine.make_topic().topics[0].topic_id
    wanted = [MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"1" * 16, None)]
    rows = machine.ask(MetadataRequest(wanted), MetadataResponse, version=12).topics
    assert [(row.name, row.error_code) for row in rows] == [("t", 0), (None, KafkaError.UNKNOWN_TOPIC_ID)]


# Groups and producers


def commit(machine: Machine, *, topic: str = "t", partition: int = 0, group: str = "g", **fields: object) -> int:
    row = OffsetCommitRequestPartition(partition, 7, 0, str(fields.get("metadata", "note")))
    request = OffsetCommitRequest(
        group,
        int(str(fields.get("generation", -1))),
        str(fields.get("member", "")),
        topics=[OffsetCommitRequestTopic(topic, partitions=[row])],
    )
    return machine.ask(request, OffsetCommitResponse, version=8).topics[0].partitions[0].error_code


def committed(machine: Machine, *, group: str = "g") -> list[tuple[int, int, str | None]]:
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic("t", [0, 1])])
    rows = machine.ask(request, OffsetFetchResponse, version=7).topics[0].partitions
    return [(row.partition_index, row.committed_offset, row.metadata) for row in rows]


def test_l8_a_commit_comes_back_with_its_metadata_and_after_a_restart(machine: Machine) -> None:
    machine.make_topic(partitions=2)
    assert commit(machine) == 0
    assert committed(machine) == [(0, 7, "note"), (1, -1, "")]
    assert committed(machine, group="other") == [(0, -1, ""), (1, -1, "")]
    assert committed(machine.reopen()) == [(0, 7, "note"), (1, -1, "")]


def test_l8_a_commit_does_not_show_before_it_is_durable(machine: Machine) -> None:
    machine.make_topic()
    row = OffsetCommitRequestPartition(0, 7, 0, "")
    machine.send(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[row])]), version=8)
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])])
    told = machine.ask(request, OffsetFetchResponse, version=7, connection=2)
    assert told.topics[0].partitions[0].committed_offset == -1


def test_l8_a_commit_that_claims_a_membership_is_refused(machine: Machine) -> None:
    machine.make_topic()
    assert commit(machine, generation=3) == KafkaError.ILLEGAL_GENERATION
    assert commit(machine, member="somebody") == KafkaError.UNKNOWN_MEMBER_ID
    assert commit(machine, group="") == KafkaError.INVALID_GROUP_ID
    assert committed(machine) == [(0, -1, ""), (1, -1, "")]


def test_a_commit_for_an_unknown_partition_or_with_a_long_text_is_refused(machine: Machine) -> None:
    machine.make_topic()
    assert commit(machine, topic="missing") == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(machine, partition=5) == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(machine, metadata="x" * 4097) == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_offsets_of_several_groups_and_of_all_partitions(machine: Machine) -> None:
    topic_id = machine.make_topic(partitions=2).topics[0].topic_id
    commit(machine, partition=1)
    wanted = [
        OffsetFetchRequestGroup("g", topics=None),
        OffsetFetchRequestGroup("h", topics=[OffsetFetchRequestGroupTopic("t", topic_id, [0])]),
    ]
    for version in (8, 10):
        groups = machine.ask(OffsetFetchRequest(groups=wanted), OffsetFetchResponse, version=version).groups
        found = [
            [(row.partition_index, row.committed_offset) for row in group.topics[0].partitions] for group in groups
        ]
        assert found == [[(1, 7)], [(0, -1)]]


def test_the_coordinator_of_a_group_is_this_broker(machine: Machine) -> None:
    one = machine.ask(FindCoordinatorRequest("g"), FindCoordinatorResponse, version=2)
    assert (one.error_code, one.node_id, one.port) == (0, 1, machine.config.port)
    many = machine.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), FindCoordinatorResponse, version=4)
    assert [(row.key, row.node_id) for row in many.coordinators] == [("g", 1), ("h", 1)]
    other = machine.ask(FindCoordinatorRequest("x", key_type=1), FindCoordinatorResponse, version=2)
    assert other.error_code == KafkaError.INVALID_REQUEST


def take_id(machine: Machine) -> int:
    return machine.ask(InitProducerIdRequest(None), InitProducerIdResponse, version=4).producer_id


def test_l3_a_producer_id_is_given_out_once_across_restarts(machine: Machine) -> None:
    first = [take_id(machine) for _ in range(3)]
    assert first == [0, 1, 2]
    assert take_id(machine.reopen()) == BLOCK


def test_l3_all_who_ask_while_a_block_is_reserved_get_ids_of_their_own(machine: Machine) -> None:
    for connection in range(3):
        machine.send(InitProducerIdRequest(None), version=4, connection=connection)
    told = answers(machine.finish_flush(), InitProducerIdResponse, version=4)
    assert [row.producer_id for row in told] == [0, 1, 2]


def test_a_transactional_producer_is_refused(machine: Machine) -> None:
    told = machine.ask(InitProducerIdRequest("x"), InitProducerIdResponse, version=4)
    assert told.error_code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_no_more_partitions_are_made_than_the_record_of_their_ends_holds(machine: Machine) -> None:
    """A record that does not fit would end the broker, and every start of it from then on."""
    for name in ("a", "b"):
        topic = machine.node.new_topic(name, partitions=PARTITIONS_IN_ALL_MAX // 2, configs={})
        machine.node.topics.apply(topic_made(topic, now_ms=machine.clock.now_ms()))
    told = machine.ask(CreateTopicsRequest([CreateTopicsRequestTopic("c", 1, 1)]), CreateTopicsResponse, version=7)
    assert told.topics[0].error_code == KafkaError.INVALID_PARTITIONS
    names = [f"{'t' * 249}-{index}" for index in range(PARTITIONS_IN_ALL_MAX + 2)]
    known = Recorded(bytes(16), Offset(0), Offset(0))
    assert len(encode_slot(DurableRecord(0, dict.fromkeys(names, known)))) <= SLOT_BYTES


def test_l2_a_folder_of_another_topic_is_not_taken_for_a_topic_of_its_name(machine: Machine) -> None:
    """The record of topics lost one, so nobody knows whose records these are."""
    machine.make_topic()
    machine.produce(produce_request(batch(b"a")))
    machine.node.topics.apply(topic_deleted("t", now_ms=machine.clock.now_ms()))
    machine.make_topic()
    row = machine.produce(produce_request(batch(b"b")))
    assert row.error_code == KafkaError.KAFKA_STORAGE_ERROR
