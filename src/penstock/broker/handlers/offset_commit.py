"""OffsetCommit (8): keep a group's positions.

    2    the first that is accepted
    3    KIP-219: throttle time
    4    as 3
    5    KIP-211: no retention time of its own
    6    KIP-320: the leader epoch of what was read
    7    KIP-345: static members
    8    KIP-482: compact encoding
    9    KIP-848: as 8
    10   KIP-848: topic ids

Behaviours
    - The answer waits until the commit is durable (L8); the text beside a position comes back as it was given.
    - Groups have no members yet: a commit that claims one is refused, so that it cannot pass for a checked one.
    - Each partition succeeds or fails for itself.
"""

from __future__ import annotations

from penstock.broker.calls import Call
from penstock.broker.groups import METADATA_BYTES_MAX, Committed, Place, check_commit, offset_committed
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.broker.topics import OFFSETS, Topic
from penstock.core.units import LeaderEpoch, Offset, PartitionId, TimestampMs
from penstock.protocol.apis import KafkaError
from penstock.protocol.batches import Record
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_TOPIC_IDS_FROM = 10


def answer(node: Node, call: Call, request: OffsetCommitRequest) -> None:
    refused = check_commit(request.group_id, member=request.member_id, generation=request.generation_id_or_member_epoch)
    records: list[Record] = []
    response = OffsetCommitResponse()
    for asked in request.topics:
        topic = _find(node, call, asked)
        row = OffsetCommitResponseTopic(asked.name, asked.topic_id)
        response.topics.append(row)
        for partition in asked.partitions:
            error = refused or _check(call, topic, partition)
            row.partitions.append(OffsetCommitResponsePartition(partition.partition_index, error))
            if topic and not error:
                records.append(_record(request.group_id, topic, partition, now_ms=call.now.wall_ms))
    if records:
        node.append_internal(OFFSETS, records, then=lambda late: _finish(node, call, response, late))
    else:
        node.reply(call, response)


def _finish(node: Node, call: Call, response: OffsetCommitResponse, error: KafkaError) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = partition.error_code or error
    node.reply(call, response)


def _find(node: Node, call: Call, asked: OffsetCommitRequestTopic) -> Topic | None:
    by_id = call.version >= _TOPIC_IDS_FROM
    return node.topics.with_id(asked.topic_id) if by_id else node.topics.named(asked.name)


def _check(call: Call, topic: Topic | None, asked: OffsetCommitRequestPartition) -> KafkaError:
    if topic is None and call.version >= _TOPIC_IDS_FROM:
        return KafkaError.UNKNOWN_TOPIC_ID
    if topic is None or not 0 <= asked.partition_index < topic.partitions:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    if len((asked.committed_metadata or "").encode()) > METADATA_BYTES_MAX:
        return KafkaError.OFFSET_METADATA_TOO_LARGE
    return KafkaError.NONE


def _record(group: str, topic: Topic, asked: OffsetCommitRequestPartition, *, now_ms: TimestampMs) -> Record:
    committed = Committed(
        Offset(asked.committed_offset), LeaderEpoch(asked.committed_leader_epoch), asked.committed_metadata or ""
    )
    place = Place(topic.id, PartitionId(asked.partition_index))
    return offset_committed(group, place, committed, now_ms=now_ms)


HANDLER = Handler(OffsetCommitRequest, answer)
