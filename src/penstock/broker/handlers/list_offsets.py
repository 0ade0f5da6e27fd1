"""ListOffsets (2): the offset at a time, or at an end.

    1    the first that is accepted: one offset for each partition
    2    KIP-98: isolation level
    3    KIP-219: throttle time
    4    KIP-320: leader epochs
    5    as 4
    6    KIP-482: compact encoding
    7    KIP-734: -3, the record with the greatest timestamp
    8    KIP-405: -4, the first offset on local disk
    9    KIP-1005: -5, the last offset in tiered storage, of which there is none
    10   KIP-1075: how long the client waits
    11   KIP-1023: -6, the first offset that is not tiered yet

Behaviours
    - -1 is the high watermark, which is the durable end: no client learns of an offset that a crash takes back (L1).
    - A time finds the first record at or after it, exactly; -1 where there is none. That is read from the disk, aside.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.calls import Call
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.core.errors import PenstockError
from penstock.core.units import PartitionId, TimestampMs
from penstock.log.partition import Partition
from penstock.log.reading import TimeHit, TimeSearch
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)

LATEST, EARLIEST, GREATEST_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4

_Search = tuple[TimeSearch, ListOffsetsResponsePartition, Partition]


def answer(node: Node, call: Call, request: ListOffsetsRequest) -> None:
    searches: list[_Search] = []
    topics = [_topic(node, asked, searches) for asked in request.topics]
    response = ListOffsetsResponse(topics=topics)
    if searches:
        node.work(_run_all(searches), lambda hits: _finish(node, call, response, searches, hits))
    else:
        node.reply(call, response)


def _topic(node: Node, asked: ListOffsetsRequestTopic, searches: list[_Search]) -> ListOffsetsResponseTopic:
    topic = node.topics.named(asked.name)
    rows = []
    for partition in asked.partitions:
        unknown = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        found = node.partition(topic, PartitionId(partition.partition_index)) if topic else unknown
        rows.append(_partition(node, found, partition, searches))
    return ListOffsetsResponseTopic(asked.name, rows)


def _partition(
    node: Node, partition: Partition | KafkaError, asked: ListOffsetsRequestPartition, searches: list[_Search]
) -> ListOffsetsResponsePartition:
    row = ListOffsetsResponsePartition(asked.partition_index)
    if isinstance(partition, KafkaError):
        row.error_code = partition
        return row
    row.error_code = node.epoch_error(partition, asked.current_leader_epoch)
    if not row.error_code:
        row.leader_epoch = partition.leader_epoch
        _look_up(partition, asked.timestamp, row, searches)
    return row


def _look_up(partition: Partition, timestamp: int, row: ListOffsetsResponsePartition, searches: list[_Search]) -> None:
    if timestamp == LATEST:
        row.offset = partition.high_watermark
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        row.offset = partition.log_start
    elif timestamp == GREATEST_TIMESTAMP or timestamp >= 0:
        at_greatest = timestamp == GREATEST_TIMESTAMP
        search = partition.find_max_timestamp() if at_greatest else partition.find_by_time(TimestampMs(timestamp))
        if search:
            searches.append((search, row, partition))


def _run_all(searches: list[_Search]) -> Callable[[], list[TimeHit | PenstockError | None]]:
    return lambda: [_run(search) for search, _, _ in searches]


def _run(search: TimeSearch) -> TimeHit | PenstockError | None:
    try:
        return search.run()
    except PenstockError as error:
        return error


def _finish(
    node: Node,
    call: Call,
    response: ListOffsetsResponse,
    searches: list[_Search],
    hits: list[TimeHit | PenstockError | None],
) -> None:
    for (_, row, _), hit in zip(searches, hits, strict=True):
        if isinstance(hit, PenstockError):
            row.error_code = node.wire_error(hit)
        elif hit:
            row.offset, row.timestamp = hit.offset, hit.timestamp_ms
    node.reply(call, response)


HANDLER = Handler(ListOffsetsRequest, answer)
