"""OffsetFetch (9): read back a group's positions.

    1    the first that is accepted
    2    a null list asks for all partitions; an error for the whole answer
    3    KIP-219: throttle time
    4    as 3
    5    KIP-320: leader epochs
    6    KIP-482: compact encoding
    7    KIP-447: only stable offsets, which all of ours are
    8    KIP-709: several groups at once
    9    KIP-848: as 8
    10   KIP-848: topic ids

Behaviours
    - A partition without a commit answers -1, and so does one whose topic was made again since.
    - Only durable commits show (L8).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.calls import Call
from penstock.broker.groups import Committed, Place
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.broker.topics import Topic
from penstock.core.units import LeaderEpoch, Offset, PartitionId
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_GROUPS_FROM = 8
_TOPIC_IDS_FROM = 10
_NOTHING = Committed(Offset(-1), LeaderEpoch(-1), "")


def answer(node: Node, call: Call, request: OffsetFetchRequest) -> None:
    if call.version >= _GROUPS_FROM:
        node.reply(call, OffsetFetchResponse(groups=[_group(node, call, group) for group in request.groups]))
        return
    asked: list[OffsetFetchRequestGroupTopic] | None = None
    if request.topics is not None:
        asked = [OffsetFetchRequestGroupTopic(t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    found = _group(node, call, OffsetFetchRequestGroup(request.group_id, topics=asked))
    node.reply(call, OffsetFetchResponse(topics=[_as_of_one_group(topic) for topic in found.topics]))


def _as_of_one_group(topic: OffsetFetchResponseGroupTopic) -> OffsetFetchResponseTopic:
    rows = [
        OffsetFetchResponsePartition(
            row.partition_index, row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code
        )
        for row in topic.partitions
    ]
    return OffsetFetchResponseTopic(topic.name, rows)


def _group(node: Node, call: Call, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    wanted = _all_of(node, asked.group_id) if asked.topics is None else asked.topics
    by_id = call.version >= _TOPIC_IDS_FROM and asked.topics is not None
    rows = [_topic(node, asked.group_id, topic, by_id=by_id) for topic in wanted]
    return OffsetFetchResponseGroup(asked.group_id, rows)


def _all_of(node: Node, group: str) -> Iterable[OffsetFetchRequestGroupTopic]:
    """Every partition that the group has committed, of topics that there still are."""
    partitions: dict[bytes, list[int]] = {}
    for place in node.groups.places(group):
        partitions.setdefault(place.topic_id, []).append(place.partition)
    for topic in node.topics:
        if topic.id in partitions:
            yield OffsetFetchRequestGroupTopic(topic.name, topic.id, sorted(partitions[topic.id]))


def _topic(
    node: Node, group: str, asked: OffsetFetchRequestGroupTopic, *, by_id: bool
) -> OffsetFetchResponseGroupTopic:
    topic = node.topics.with_id(asked.topic_id) if by_id else node.topics.named(asked.name)
    error = KafkaError.UNKNOWN_TOPIC_ID if by_id and topic is None else KafkaError.NONE
    rows = [_partition(node, group, topic, PartitionId(index), error=error) for index in asked.partition_indexes]
    return OffsetFetchResponseGroupTopic(asked.name, topic.id if topic else asked.topic_id, rows)


def _partition(
    node: Node, group: str, topic: Topic | None, index: PartitionId, *, error: KafkaError
) -> OffsetFetchResponseGroupPartition:
    found = node.groups.committed(group, Place(topic.id, index)) if topic else None
    committed = found or _NOTHING
    return OffsetFetchResponseGroupPartition(index, committed.offset, committed.leader_epoch, committed.metadata, error)


HANDLER = Handler(OffsetFetchRequest, answer)
