"""CreateTopics (19): make topics.

    2    KIP-219: throttle time
    3    as 2
    4    KIP-464: -1 for the broker's own number of partitions and replicas
    5    KIP-482, KIP-525: compact encoding; the answer tells partitions and settings
    6    KIP-599: as 5
    7    KIP-516: topic ids

Behaviours
    - Each topic succeeds or fails for itself; a name that comes twice fails both times.
    - The answer waits until the topics are durable, and they can be written at once.
    - With `validate_only` everything is checked and nothing made.
    - Replicas can only be on this one broker.
"""

from __future__ import annotations

from collections import Counter

from penstock.broker.calls import Call
from penstock.broker.config import NODE_ID
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.broker.topics import Refusal, Topic
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages.create_topics import (
    CreatedTopicConfig,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
    ReplicaAssignment,
)

_SET_ON_TOPIC = 1
"""Where a setting comes from, as Kafka numbers it: the topic itself."""


def answer(node: Node, call: Call, request: CreateTopicsRequest) -> None:
    times = Counter(topic.name for topic in request.topics)
    outcomes = {topic.name: _check(node, topic, times=times[topic.name]) for topic in request.topics}
    made = [topic for topic in outcomes.values() if isinstance(topic, Topic)]
    response = CreateTopicsResponse(topics=[_row(name, outcome) for name, outcome in outcomes.items()])
    if request.validate_only or not made:
        node.reply(call, response)
    else:
        node.make_topics(made, now=call.now, then=lambda error: _finish(node, call, response, error))


def _finish(node: Node, call: Call, response: CreateTopicsResponse, error: KafkaError) -> None:
    for row in response.topics:
        row.error_code = row.error_code or error
    node.reply(call, response)


def _check(node: Node, asked: CreateTopicsRequestTopic, *, times: int) -> Topic | Refusal:
    if times > 1:
        return Refusal(KafkaError.INVALID_REQUEST, f"{asked.name} stands in the request {times} times")
    if asked.assignments and not _is_here(asked.assignments):
        return Refusal(KafkaError.INVALID_REPLICA_ASSIGNMENT, f"partitions 0 and up, each on broker {NODE_ID} alone")
    partitions = len(asked.assignments) or asked.num_partitions
    partitions = node.config.default_partitions if partitions == -1 else partitions
    configs = {config.name: config.value for config in asked.configs}
    refusal = node.check_topic(
        asked.name, partitions=partitions, replication=asked.replication_factor or 0, configs=configs
    )
    return refusal or node.new_topic(asked.name, partitions=partitions, configs=configs)


def _is_here(assignments: list[ReplicaAssignment]) -> bool:
    indexes = sorted(assignment.partition_index for assignment in assignments)
    alone = all(assignment.broker_ids == [NODE_ID] for assignment in assignments)
    return alone and indexes == list(range(len(assignments)))


def _row(name: str, outcome: Topic | Refusal) -> CreateTopicsResponseTopic:
    if isinstance(outcome, Refusal):
        return CreateTopicsResponseTopic(name, error_code=outcome.error, error_message=outcome.message, configs=None)
    return CreateTopicsResponseTopic(
        name,
        topic_id=outcome.id,
        error_message=None,
        num_partitions=outcome.partitions,
        replication_factor=1,
        configs=[CreatedTopicConfig(key, value, config_source=_SET_ON_TOPIC) for key, value in outcome.configs.items()],
    )


HANDLER = Handler(CreateTopicsRequest, answer)
