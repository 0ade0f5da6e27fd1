"""The requests that our client sends, built from plain values, and what it wants to know of the answers.

A request carries a topic's name and its id alike: which of them goes on the wire is the version's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.core.errors import DataLossError, RetryError, fail
from penstock.core.units import Offset, PartitionId
from penstock.core.values import TopicPartition
from penstock.protocol.apis import KafkaError
from penstock.protocol.batches import check_batch, iter_batches
from penstock.protocol.cluster import Topic
from penstock.protocol.codec import joined
from penstock.protocol.messages import NO_UUID
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic, TopicConfig
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
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
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from penstock.protocol.refusals import refusal

Where = Literal["earliest", "latest"] | int
"""A position to ask for: either end of the log, or the first record at or after a time in milliseconds."""

_WIRE_TIME = {"latest": -1, "earliest": -2}
_CONSUMER = -1
_BROKER_CHOOSES = -1
_NOT_FOUND = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch gave of one partition. The last batch may be cut short; `iter_batches` leaves that one out."""

    high_watermark: Offset
    log_start: Offset
    batches: memoryview


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a fetch may bring, and how long the broker waits for how little."""

    max_bytes: int
    max_wait_ms: int = 0
    min_bytes: int = 0


Positions = Sequence[tuple[Topic, Mapping[PartitionId, Offset]]]


def metadata_request(names: Sequence[str] | None) -> MetadataRequest:
    """Ask for these topics, or with None for all; asking never makes one."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def list_offsets_request(topic: str, *, wanted: Mapping[PartitionId, Where]) -> ListOffsetsRequest:
    partitions = [ListOffsetsRequestPartition(p, timestamp=_wire_time(where)) for p, where in wanted.items()]
    return ListOffsetsRequest(replica_id=_CONSUMER, topics=[ListOffsetsRequestTopic(topic, partitions=partitions)])


def _wire_time(where: Where) -> int:
    return where if isinstance(where, int) else _WIRE_TIME[where]


def listed_offsets(response: ListOffsetsResponse, *, topic: str) -> dict[PartitionId, Offset | None]:
    """The offsets of the answer; None where no record is as young as the time asked for."""
    found: dict[PartitionId, Offset | None] = {}
    for row in (row for answered in response.topics for row in answered.partitions):
        if row.error_code:
            raise refusal(row.error_code, subject=f"{topic}-{row.partition_index}")
        found[PartitionId(row.partition_index)] = None if row.offset == _NOT_FOUND else Offset(row.offset)
    return found


def fetch_request(positions: Positions, *, limits: Limits) -> FetchRequest:
    topics = [
        FetchRequestTopic(
            topic=topic.name,
            topic_id=topic.topic_id or NO_UUID,
            partitions=[
                FetchRequestPartition(partition, fetch_offset=offset, partition_max_bytes=limits.max_bytes)
                for partition, offset in offsets.items()
            ],
        )
        for topic, offsets in positions
    ]
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        topics=topics,
    )


def fetched(response: FetchResponse, *, positions: Positions) -> dict[TopicPartition, Fetched]:
    """What the answer has of each partition, or its first error raised."""
    names = {topic.topic_id: topic.name for topic, _ in positions}
    asked = {TopicPartition(topic.name, p): offset for topic, offsets in positions for p, offset in offsets.items()}
    found = {}
    for answered in response.responses:
        name = answered.topic or names.get(answered.topic_id, "")
        for row in answered.partitions:
            place = TopicPartition(name, PartitionId(row.partition_index))
            found[place] = _fetched(row, place=place, offset=asked.get(place))
    return found


def _fetched(row: FetchResponsePartition, *, place: TopicPartition, offset: Offset | None) -> Fetched:
    if row.error_code == KafkaError.OFFSET_OUT_OF_RANGE:
        raise fail(DataLossError, "offset-out-of-range", partition=place, offset=offset)
    if row.error_code:
        raise refusal(row.error_code, subject=str(place))
    return Fetched(Offset(row.high_watermark), Offset(row.log_start_offset), joined(row.records))


def covering(batches: memoryview, *, start: Offset, end: Offset) -> tuple[memoryview, Offset]:
    """The whole batches that hold offsets from `start` to `end`, and how far that reaches: the first offset not seen.

    L5   Each of them is checked by its CRC.
    """
    first, size, reached = 0, 0, start
    for header, batch in iter_batches(batches):
        if header.base_offset >= end:
            return batches[first : first + size], end
        if header.next_offset <= start:
            first += header.size
            continue
        check_batch(batch, from_client=False)
        size += header.size
        reached = header.next_offset
    return batches[first : first + size], reached


def produce_request(
    topic: Topic, *, partition: PartitionId, batch: bytes, timeout_ms: int, acks: int
) -> ProduceRequest:
    rows = [ProduceRequestPartition(partition, batch)]
    named = ProduceRequestTopic(topic.name, topic.topic_id or NO_UUID, rows)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[named])


def produced_row(response: ProduceResponse, *, subject: str) -> ProduceResponsePartition:
    rows = [row for answered in response.responses for row in answered.partition_responses]
    if len(rows) != 1:
        raise fail(RetryError, "produce-unconfirmed", partition=subject, reason=f"the answer has {len(rows)} rows")
    if rows[0].error_code:
        raise refusal(rows[0].error_code, subject=subject, message=rows[0].error_message)
    return rows[0]


def create_topics_request(
    name: str, *, partitions: int, configs: Mapping[str, str], timeout_ms: int
) -> CreateTopicsRequest:
    rows = [TopicConfig(key, value) for key, value in configs.items()]
    topic = CreateTopicsRequestTopic(name, partitions, _BROKER_CHOOSES, configs=rows)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def delete_topics_request(name: str, *, timeout_ms: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name)], topic_names=[name], timeout_ms=timeout_ms)


def raise_refused(code: int, *, subject: str, message: str | None = None) -> None:
    """Nothing where the code is that of success."""
    if code:
        raise refusal(code, subject=subject, message=message)
