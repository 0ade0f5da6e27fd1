"""Fetch (1): read record batches, and wait for them.

    4    KIP-98: isolation level, aborted transactions
    5    KIP-107: the log's start offset
    6    as 5
    7    KIP-227: sessions
    8    KIP-219: as 7
    9    KIP-320: leader epochs
    10   KIP-110: zstd
    11   KIP-392: the client's rack
    12   KIP-482, KIP-595: compact encoding, diverging epochs
    13   KIP-516: topic ids
    14   KIP-405: as 13
    15   KIP-903: as 14
    16   KIP-951: where the leader is
    17   KIP-853: as 16
    18   KIP-1166: as 17

Behaviours
    - Nothing at or past the high watermark is ever read, and that is the durable end (L1).
    - The answer starts with the batch that holds the offset, and has at least one batch, however large.
    - With less than `min_bytes` it waits until `max_wait_ms` is over; flushes wake it.
    - No session is kept: every answer says so with session id 0, and clients go on asking in full.
    - No records are empty bytes and never null, which some clients take for a broken frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.broker.calls import Call
from penstock.broker.fetches import Parked
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.broker.topics import Topic
from penstock.core.errors import PenstockError
from penstock.core.units import Offset, PartitionId
from penstock.log.partition import Partition
from penstock.log.reading import ColdRead
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages import Buffer
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)

_TOPIC_IDS_FROM = 13
_READ_COMMITTED = 1
_WAIT_MS_MAX = 5 * 60_000

_Cold = tuple[ColdRead, FetchResponsePartition]


def answer(node: Node, call: Call, request: FetchRequest) -> None:
    if request.session_id:
        node.reply(call, FetchResponse(error_code=KafkaError.FETCH_SESSION_ID_NOT_FOUND))
        return
    if _try(node, call, request, is_last_try=request.max_wait_ms <= 0):
        return
    wait_s = min(request.max_wait_ms, _WAIT_MS_MAX) / 1000
    node.fetches.park(
        Parked(
            call.connection,
            [found for _, found, _ in _partitions(node, call, request) if not isinstance(found, KafkaError)],
            retry=lambda is_last_try: _try(node, call, request, is_last_try=is_last_try),
        ),
        deadlines=node.deadlines,
        until=call.now.monotonic + wait_s,
    )


def _partitions(
    node: Node, call: Call, request: FetchRequest
) -> Iterator[tuple[FetchRequestTopic, Partition | KafkaError, FetchRequestPartition]]:
    for asked in request.topics:
        topic = _find(node, call, asked)
        for wanted in asked.partitions:
            yield asked, node.partition(topic, PartitionId(wanted.partition)) if topic else _unknown(call), wanted


def _unknown(call: Call) -> KafkaError:
    return KafkaError.UNKNOWN_TOPIC_ID if call.version >= _TOPIC_IDS_FROM else KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def _find(node: Node, call: Call, asked: FetchRequestTopic) -> Topic | None:
    return node.topics.with_id(asked.topic_id) if call.version >= _TOPIC_IDS_FROM else node.topics.named(asked.topic)


def _try(node: Node, call: Call, request: FetchRequest, *, is_last_try: bool) -> bool:
    """Answer, if there is enough, an error, or no more time."""
    room = node.reply_room(request.max_bytes)
    response, cold = FetchResponse(), list[_Cold]()
    taken, is_failed = 0, False
    topics: dict[int, FetchResponseTopic] = {}
    for asked, partition, wanted in _partitions(node, call, request):
        row = _row(request, partition, wanted)
        topics.setdefault(id(asked), FetchResponseTopic(asked.topic, asked.topic_id)).partitions.append(row)
        taken += _fill(node, row, partition, wanted, room - taken, cold)
        is_failed = is_failed or row.error_code != 0
    response.responses.extend(topics.values())
    if cold:
        node.work(_run_all(cold), lambda results: _finish(node, call, response, cold, results))
    elif taken >= request.min_bytes or is_failed or is_last_try:
        node.reply(call, response)
    else:
        return False
    return True


def _row(
    request: FetchRequest, partition: Partition | KafkaError, wanted: FetchRequestPartition
) -> FetchResponsePartition:
    aborted: list[AbortedTransaction] | None = [] if request.isolation_level == _READ_COMMITTED else None
    row = FetchResponsePartition(wanted.partition, high_watermark=-1, aborted_transactions=aborted)
    if isinstance(partition, KafkaError):
        row.error_code = partition
    else:
        row.high_watermark = row.last_stable_offset = partition.high_watermark
        row.log_start_offset = partition.log_start
    return row


def _fill(
    node: Node,
    row: FetchResponsePartition,
    partition: Partition | KafkaError,
    wanted: FetchRequestPartition,
    room: int,
    cold: list[_Cold],
) -> int:
    """Put the records into the row; gives their bytes, as far as they are known yet."""
    if isinstance(partition, KafkaError) or room <= 0:
        return 0
    row.error_code = node.epoch_error(partition, wanted.current_leader_epoch)
    if row.error_code:
        return 0
    bytes_max = max(1, min(wanted.partition_max_bytes, room))
    try:
        found = partition.read(Offset(wanted.fetch_offset), max_bytes=bytes_max)
    except PenstockError as error:
        row.error_code = node.wire_error(error)
        return 0
    if isinstance(found, ColdRead):
        cold.append((found, row))
        return bytes_max
    row.records = found
    return sum(map(len, found))


def _run_all(cold: list[_Cold]) -> Callable[[], list[list[Buffer] | PenstockError]]:
    return lambda: [_run(read) for read, _ in cold]


def _run(read: ColdRead) -> list[Buffer] | PenstockError:
    try:
        return read.run()
    except PenstockError as error:
        return error


def _finish(
    node: Node,
    call: Call,
    response: FetchResponse,
    cold: list[_Cold],
    results: list[list[Buffer] | PenstockError],
) -> None:
    for (_, row), result in zip(cold, results, strict=True):
        if isinstance(result, PenstockError):
            row.error_code = node.wire_error(result)
        else:
            row.records = result
    node.reply(call, response)


HANDLER = Handler(FetchRequest, answer)
