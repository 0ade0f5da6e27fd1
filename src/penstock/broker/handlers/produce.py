"""Produce (0): append record batches.

    3    KIP-98: record format 2, the only one accepted; 0 to 2 are offered, because some clients compress only then
    4    as 3
    5    KIP-107: the log's start offset in the answer
    6    as 5
    7    KIP-110: zstd
    8    KIP-467: errors of single records, and their message
    9    KIP-482: compact encoding
    10   KIP-951: where the leader is
    11   KIP-890: as 10
    12   KIP-890: as 11
    13   KIP-516: topic ids

Behaviours
    - One flush serves `acks=1` and `acks=all`: the answer leaves when the records are durable (L1). With `acks=0` there
      is no answer; the request counts against its connection until it is durable all the same (L7).
    - One batch for each partition; each partition succeeds or fails for itself.
    - A batch that an idempotent producer repeats is answered with the offset of the first (L3).
    - A timestamp more than `AHEAD_MS_MAX` ahead of the broker's clock is refused.
"""

from __future__ import annotations

from penstock.broker.calls import Call
from penstock.broker.events import SMALL_FRAME_BYTES
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Need, Node
from penstock.broker.topics import Topic
from penstock.core.errors import CallerError, PenstockError, fail
from penstock.core.units import Offset, PartitionId
from penstock.log.partition import Partition, Refused
from penstock.protocol.apis import KafkaError
from penstock.protocol.batches import BatchHeader, check_batch, read_records
from penstock.protocol.codec import joined
from penstock.protocol.compression import Codec
from penstock.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
    RecordError,
)

AHEAD_MS_MAX = 3_600_000
_ACKS = (-1, 0, 1)
_ZSTD_FROM = 7
_TOPIC_IDS_FROM = 13


def answer(node: Node, call: Call, request: ProduceRequest) -> None:
    response, needs = ProduceResponse(), list[Need]()
    for asked in request.topic_data:
        topic = _find(node, call, asked)
        row = ProduceResponseTopic(asked.name, asked.topic_id)
        response.responses.append(row)
        for partition in asked.partition_data:
            row.partition_responses.append(_append(node, call, request, topic, partition, needs))
    node.when_durable(needs, lambda lost: _finish(node, call, request, response, lost))


def _finish(node: Node, call: Call, request: ProduceRequest, response: ProduceResponse, lost: KafkaError) -> None:
    rows = [row for topic in response.responses for row in topic.partition_responses]
    if lost:
        for row in rows:
            row.error_code = row.error_code or lost
    if request.acks:
        node.reply(call, response)
    elif any(row.error_code for row in rows):
        # The only way to tell a producer that awaits no answer.
        node.end(call, reason="a Produce without acknowledgement failed")
    else:
        node.reply_nothing(call)


def _find(node: Node, call: Call, asked: ProduceRequestTopic) -> Topic | None:
    return node.topics.with_id(asked.topic_id) if call.version >= _TOPIC_IDS_FROM else node.topics.named(asked.name)


def _append(
    node: Node,
    call: Call,
    request: ProduceRequest,
    topic: Topic | None,
    asked: ProduceRequestPartition,
    needs: list[Need],
) -> ProduceResponsePartition:
    if request.acks not in _ACKS:
        return _row(asked, KafkaError.INVALID_REQUIRED_ACKS)
    if topic is None:
        by_id = call.version >= _TOPIC_IDS_FROM
        return _row(asked, KafkaError.UNKNOWN_TOPIC_ID if by_id else KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    partition = node.partition(topic, PartitionId(asked.index))
    if isinstance(partition, KafkaError):
        return _row(asked, partition)
    try:
        batch = joined(asked.records)
        header = _check(node, call, topic, batch)
        return _stored(partition, asked, batch, header, needs)
    except PenstockError as error:
        row = _row(asked, node.wire_error(error), str(error.message))
        if error.code == "timestamp-ahead" and len(batch) <= SMALL_FRAME_BYTES:
            row.record_errors = _ahead(call, batch)
        return row


def _stored(
    partition: Partition, asked: ProduceRequestPartition, batch: memoryview, header: BatchHeader, needs: list[Need]
) -> ProduceResponsePartition:
    outcome = partition.append(batch, header=header)
    if isinstance(outcome, Refused):
        raise outcome.error
    needs.append(Need(partition, outcome.durable_at))
    return _row(asked, offset=outcome.base_offset, log_start=partition.log_start)


def _check(node: Node, call: Call, topic: Topic, batch: memoryview) -> BatchHeader:
    bytes_max = topic.size("max.message.bytes", default=node.config.max_message_bytes)
    if len(batch) > bytes_max:
        raise fail(CallerError, "batch-too-large", size=len(batch), bytes_max=bytes_max, topic=topic.name)
    header = check_batch(batch)
    if header.is_transactional:
        raise fail(CallerError, "batch-transactional", topic=topic.name)
    if header.codec_bits == Codec.ZSTD and call.version < _ZSTD_FROM:
        raise fail(CallerError, "batch-codec-unknown", codec=header.codec_bits)
    if header.max_timestamp_ms > call.now.wall_ms + AHEAD_MS_MAX:
        ahead = header.max_timestamp_ms - call.now.wall_ms
        raise fail(CallerError, "timestamp-ahead", topic=topic.name, ahead=ahead // 1000)
    return header


def _ahead(call: Call, batch: memoryview) -> list[RecordError]:
    """Which records of a small batch are to blame."""
    limit = call.now.wall_ms + AHEAD_MS_MAX
    try:
        records = read_records(batch)
    except PenstockError:
        return []
    return [RecordError(index, None) for index, record in enumerate(records) if record.timestamp_ms > limit]


def _row(
    asked: ProduceRequestPartition,
    error: KafkaError = KafkaError.NONE,
    message: str | None = None,
    *,
    offset: Offset = Offset(-1),
    log_start: Offset = Offset(-1),
) -> ProduceResponsePartition:
    return ProduceResponsePartition(asked.index, error, offset, log_start_offset=log_start, error_message=message)


HANDLER = Handler(ProduceRequest, answer)
