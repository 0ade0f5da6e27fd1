"""DeleteTopics (20): remove topics with all their records.

    1    KIP-219: throttle time
    2    as 1
    3    as 1
    4    KIP-482: compact encoding
    5    KIP-599: error messages
    6    KIP-516: topics by id

Behaviours
    - A topic is gone for everybody once its deletion is durable; its files are removed after that.
    - A topic that is made again under the name is another one: it has another id, and no committed offsets.
"""

from __future__ import annotations

from penstock.broker.calls import Call
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.broker.topics import Topic
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages import NO_UUID
from penstock.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)


def answer(node: Node, call: Call, request: DeleteTopicsRequest) -> None:
    asked = [*request.topics, *(DeleteTopicsRequestTopic(name) for name in request.topic_names)]
    found = [(wanted, _find(node, wanted)) for wanted in asked]
    response = DeleteTopicsResponse(responses=[_row(wanted, topic) for wanted, topic in found])
    topics = {topic.name: topic for _, topic in found if topic}
    if topics:
        node.drop_topics(list(topics.values()), now=call.now, then=lambda error: _finish(node, call, response, error))
    else:
        node.reply(call, response)


def _finish(node: Node, call: Call, response: DeleteTopicsResponse, error: KafkaError) -> None:
    for row in response.responses:
        row.error_code = row.error_code or error
    node.reply(call, response)


def _find(node: Node, wanted: DeleteTopicsRequestTopic) -> Topic | None:
    return node.topics.with_id(wanted.topic_id) if wanted.topic_id != NO_UUID else node.topics.named(wanted.name)


def _row(wanted: DeleteTopicsRequestTopic, topic: Topic | None) -> DeleteTopicsResponseTopic:
    if topic:
        return DeleteTopicsResponseTopic(topic.name, topic_id=topic.id)
    if wanted.topic_id != NO_UUID:
        return DeleteTopicsResponseTopic(None, topic_id=wanted.topic_id, error_code=KafkaError.UNKNOWN_TOPIC_ID)
    return DeleteTopicsResponseTopic(wanted.name, error_code=KafkaError.UNKNOWN_TOPIC_OR_PARTITION)


HANDLER = Handler(DeleteTopicsRequest, answer)
