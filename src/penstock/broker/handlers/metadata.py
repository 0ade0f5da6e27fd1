"""Metadata (3): which brokers, topics and partitions there are.

    0    brokers and topics
    1    the controller, internal topics; a null list asks for all topics, an empty one for none
    2    the cluster's id
    3    KIP-219: throttle time
    4    KIP-204: the client says whether a missing topic may be made
    5    offline replicas
    6    as 5
    7    leader epochs
    8    KIP-430: authorized operations
    9    KIP-482: compact encoding
    10   KIP-516: topic ids
    11   KIP-700: no authorized operations of the cluster
    12   KIP-516: a topic may be asked for by its id
    13   KIP-1102: an error for the whole answer

Behaviours
    - A missing topic is made, if both the client and the setting `auto_create_topics` allow it; the answer waits until
      the topic is durable, so that a client never needs to ask twice.
    - A damaged partition is listed like the others; those who use it are told.
    - Internal partitions are not listed: they are read through their own APIs.
"""

from __future__ import annotations

from penstock.broker.calls import Call
from penstock.broker.config import NODE_ID
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.broker.topics import Topic
from penstock.core.units import PartitionId
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages import NO_UUID
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_COMPACT_FROM = 9
_ONE_OPERATIONS_FROM = 11
_NO_NAME_FROM = 12
_ALL_TOPICS_BYTES = 4
_GAP_BYTES = 3


def answer(node: Node, call: Call, request: MetadataRequest) -> None:
    wanted = _wanted(call, request)
    missing = _to_make(node, request, wanted or [])
    if not missing:
        node.reply(call, _answer(node, call, wanted))
        return
    config = node.config
    topics = [node.new_topic(name, partitions=config.default_partitions, configs={}) for name in missing]
    node.make_topics(topics, now=call.now, then=lambda _: node.reply(call, _answer(node, call, wanted)))


def _wanted(call: Call, request: MetadataRequest) -> list[MetadataRequestTopic] | None:
    """The topics asked for; None asks for all. Version 0 knows no null, so there an empty list means all."""
    if request.topics is None or (call.version == 0 and not request.topics):
        return None
    return request.topics


def _to_make(node: Node, request: MetadataRequest, wanted: list[MetadataRequestTopic]) -> list[str]:
    if not (node.config.auto_create_topics and request.allow_auto_topic_creation):
        return []
    names = dict.fromkeys(topic.name for topic in wanted if topic.name and topic.topic_id == NO_UUID)
    return [name for name in names if node.may_make(name)]


def _answer(node: Node, call: Call, wanted: list[MetadataRequestTopic] | None) -> MetadataResponse:
    topics = (
        [_described(node, topic) for topic in node.topics]
        if wanted is None
        else [_found(node, call, w) for w in wanted]
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(NODE_ID, node.config.host, node.config.port)],
        cluster_id=node.topics.cluster_id,
        controller_id=NODE_ID,
        topics=topics,
    )


def _found(node: Node, call: Call, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    by_id = wanted.topic_id != NO_UUID
    topic = node.topics.with_id(wanted.topic_id) if by_id else node.topics.named(wanted.name)
    if topic:
        return _described(node, topic)
    if by_id:
        nameless = None if call.version >= _NO_NAME_FROM else ""
        return MetadataResponseTopic(KafkaError.UNKNOWN_TOPIC_ID, name=nameless, topic_id=wanted.topic_id)
    return MetadataResponseTopic(node.why_unknown(wanted.name or ""), name=wanted.name or "")


def _described(node: Node, topic: Topic) -> MetadataResponseTopic:
    partitions = [_partition(node, topic, PartitionId(index)) for index in range(topic.partitions)]
    return MetadataResponseTopic(name=topic.name, topic_id=topic.id, partitions=partitions)


def _partition(node: Node, topic: Topic, index: PartitionId) -> MetadataResponsePartition:
    found = node.partition(topic, index)
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=NODE_ID,
        leader_epoch=-1 if isinstance(found, KafkaError) else found.leader_epoch,
        replica_nodes=[NODE_ID],
        isr_nodes=[NODE_ID],
    )


HANDLER = Handler(MetadataRequest, answer)


def run(node: Node, call: Call, body: memoryview) -> None:
    HANDLER.run(node, call, without_gap(body, version=call.version))


def without_gap(body: memoryview, *, version: int) -> memoryview:
    """librdkafka asks for all topics with a null list of four bytes, where the compact encoding has one.

    Read as it stands, the request would forbid what it allows, and three bytes would be left over.
    """
    exact = _ALL_TOPICS_BYTES if version >= _ONE_OPERATIONS_FROM else _ALL_TOPICS_BYTES + 1
    has_gap = version >= _COMPACT_FROM and len(body) == exact + _GAP_BYTES and body[0] == 0
    return body[_GAP_BYTES:] if has_gap else body
