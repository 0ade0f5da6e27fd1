"""The one blocking Kafka client of Penstock: find positions, read ranges, wait at the tail, produce, make topics.

    with Client("127.0.0.1:9092", clock=RealClock()) as client:
        for record in client.read_records(OffsetRange("usage", PartitionId(0), Offset(0), Offset(10))):
            ...

It talks to Penstock and Apache Kafka alike; a question about a partition goes to its leader. Where the answer is "not
now" or "not here", or nobody answers, it is asked again after a growing pause, until `patience_s` is over and a typed
error says what was the matter.

L1   Nothing past the high watermark is read, so what was read once is there for ever.
L3   A batch without a producer id is never sent twice: a lost answer is the error "produce-unconfirmed".
L5   Every batch of a range is checked by its CRC, and a range of which records are gone raises `DataLossError`.
Limits: threads that share a client wait for each other. Transactions are not looked at: their records are read as they
stand in the log. With several brokers `wait_for_data` asks them in turn, for a tenth of a second each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

from penstock.core.clock import Clock
from penstock.core.errors import CallerError, DataLossError, PenstockError, RetryError, fail
from penstock.core.units import Offset, PartitionId, ProducerEpoch, ProducerId
from penstock.core.values import Cut, OffsetRange, TopicPartition
from penstock.protocol import questions
from penstock.protocol.batches import Record, iter_batches, parse_header, read_records
from penstock.protocol.cluster import Address, Cluster, Topic, cluster_of, parse_bootstrap
from penstock.protocol.connection import ANY_VERSION, AnyAnswer, Connections, Question
from penstock.protocol.messages.create_topics import CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicsResponse
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_offsets import ListOffsetsResponse
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.messages.produce import ProduceResponse
from penstock.protocol.questions import Fetched, Limits, Where, raise_refused

FETCH_BYTES = 16 * 1024 * 1024

_TURN_MS = 100
_PAUSE_S_MIN = 0.05
_PAUSE_S_MAX = 1.0
_STALLS_MAX = 4
_STALL_WAIT_MS = 500
_LAST_VERSION_BY_NAME = 12
"""The last version of Fetch and Produce that names topics instead of giving their ids."""
_ASK_AGAIN = frozenset({"broker-unreachable", "broker-not-ready", "partition-leaderless"})

_Result = TypeVar("_Result")
_Value = TypeVar("_Value")


class Client:
    """Nothing is sent before the first question. Closing it, or leaving its `with` block, closes its connections."""

    def __init__(
        self,
        bootstrap: str,
        *,
        clock: Clock,
        client_id: str = "penstock",
        timeout_s: float = 30.0,
        patience_s: float = 3.0,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._clock = clock
        self._timeout_ms = int(timeout_s * 1_000)
        self._patience_s = patience_s
        self._connections = Connections(client_id=client_id, timeout_s=timeout_s)
        self._topics: dict[str, Topic] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connections.close()

    def topics(self) -> dict[str, Topic]:
        """All topics of the cluster, by name."""
        return self._patiently(lambda: self._look_up(None).topics)

    def topic(self, name: str) -> Topic:
        """One topic, looked up now."""
        return self._patiently(lambda: self._look_up([name]).topic(name))

    def partitions(self, topic: str) -> list[PartitionId]:
        return self.topic(topic).partitions

    def topic_id(self, topic: str) -> bytes | None:
        return self.topic(topic).topic_id

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic, and wait until all of its partitions can be used."""
        request = questions.create_topics_request(
            name, partitions=partitions, configs=configs or {}, timeout_ms=self._timeout_ms
        )

        def create() -> None:
            for row in self._ask_controller(Question(request, CreateTopicsResponse)).topics:
                raise_refused(row.error_code, subject=name, message=row.error_message)

        self._patiently(create)
        self._patiently(lambda: self._check_usable(name))

    def _check_usable(self, name: str) -> None:
        topic = self._look_up([name]).topics.get(name)
        if topic is None:
            raise fail(RetryError, "broker-not-ready", subject=name, error="it is not to be seen yet", detail="")
        for partition in topic.partitions:
            topic.leader(partition)

    def delete_topic(self, name: str) -> None:
        request = questions.delete_topics_request(name, timeout_ms=self._timeout_ms)

        def delete() -> None:
            for row in self._ask_controller(Question(request, DeleteTopicsResponse)).responses:
                raise_refused(row.error_code, subject=name, message=row.error_message)

        self._patiently(delete)
        self._topics.pop(name, None)

    def list_offsets(self, topic: str, wanted: Mapping[PartitionId, Where]) -> dict[PartitionId, Offset]:
        """The offset of each position asked for; of a time later than every record, the end of the log."""
        found = self._patiently(lambda: self._list_offsets(topic, wanted), topic=topic)
        beyond: dict[PartitionId, Where] = {p: "latest" for p, offset in found.items() if offset is None}
        if beyond:
            found |= self._patiently(lambda: self._list_offsets(topic, beyond), topic=topic)
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def _list_offsets(self, topic: str, wanted: Mapping[PartitionId, Where]) -> dict[PartitionId, Offset | None]:
        found: dict[PartitionId, Offset | None] = {}
        for leader, mine in _by_leader(self._known(topic), wanted).items():
            request = questions.list_offsets_request(topic, wanted=mine)
            answer = self._connections.ask(leader, Question(request, ListOffsetsResponse))
            found |= questions.listed_offsets(answer, topic=topic)
        return found

    def fetch(
        self,
        topic: str,
        positions: Mapping[PartitionId, Offset],
        *,
        max_bytes: int = FETCH_BYTES,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
    ) -> dict[PartitionId, Fetched]:
        """What the leaders have from these offsets on: at least one batch where there is one, however large."""
        limits = Limits(max_bytes, max_wait_ms, min_bytes)

        def fetch_all() -> dict[PartitionId, Fetched]:
            found: dict[TopicPartition, Fetched] = {}
            for leader, mine in self._positions_by_leader({topic: positions}).items():
                found |= self._fetch(leader, mine, limits)
            return {place.partition: fetched for place, fetched in found.items()}

        return self._patiently(fetch_all, topic=topic)

    def read_range(self, wanted: OffsetRange, *, max_bytes: int = FETCH_BYTES) -> Iterator[memoryview]:
        """Every batch that holds offsets of the range, one or more whole batches at a time, in order."""
        position, stalls = wanted.start, 0
        while position < wanted.end:
            wait_ms = _STALL_WAIT_MS if stalls else 0
            found = self.fetch(
                wanted.topic, {wanted.partition: position}, max_bytes=max_bytes, max_wait_ms=wait_ms, min_bytes=1
            )[wanted.partition]
            batches, reached = questions.covering(found.batches, start=position, end=wanted.end)
            if len(batches) > 0:
                yield batches
            stalls = stalls + 1 if reached == position else 0
            if stalls > _STALLS_MAX:
                raise _stalled(wanted, position=position, high_watermark=found.high_watermark)
            position = reached

    def read_records(self, wanted: OffsetRange) -> Iterator[Record]:
        """The records of the range, one by one, in plain Python."""
        for batches in self.read_range(wanted):
            for header, batch in iter_batches(batches):
                if not header.is_control:
                    yield from (r for r in read_records(batch) if wanted.start <= r.offset < wanted.end)

    def wait_for_data(self, positions: Cut, max_wait_ms: int) -> None:
        """Come back when one of the partitions has a record at its offset or past it, or after the time given."""
        deadline = self._clock.monotonic() + max_wait_ms / 1_000

        def wait() -> None:
            by_leader = self._positions_by_leader(positions)
            while by_leader and (left_ms := int(1_000 * (deadline - self._clock.monotonic()))) > 0:
                turn_ms = left_ms if len(by_leader) == 1 else min(_TURN_MS, left_ms)
                for leader, mine in by_leader.items():
                    found = self._fetch(leader, mine, Limits(max_bytes=1, max_wait_ms=turn_ms, min_bytes=1))
                    if any(len(fetched.batches) > 0 for fetched in found.values()):
                        return

        self._patiently(wait)

    def _positions_by_leader(self, positions: Cut) -> dict[Address, list[tuple[Topic, dict[PartitionId, Offset]]]]:
        by_leader: dict[Address, list[tuple[Topic, dict[PartitionId, Offset]]]] = {}
        for name, offsets in positions.items():
            known = self._known(name)
            for leader, mine in _by_leader(known, offsets).items():
                by_leader.setdefault(leader, []).append((known, mine))
        return by_leader

    def _fetch(self, leader: Address, positions: questions.Positions, limits: Limits) -> dict[TopicPartition, Fetched]:
        question = Question(
            questions.fetch_request(positions, limits=limits),
            FetchResponse,
            wait_s=limits.max_wait_ms / 1_000,
            version_max=_version_max(topic for topic, _ in positions),
        )
        answer = self._connections.ask(leader, question)
        raise_refused(answer.error_code, subject=str(leader))
        return questions.fetched(answer, positions=positions)

    def produce(self, topic: str, partition: PartitionId, batch: bytes, acks: int = -1) -> Offset:
        """Append one batch, and give its base offset once it is acknowledged."""
        subject = f"{topic}-{partition}"
        is_numbered = parse_header(batch).producer_id >= 0
        if acks not in (-1, 1):
            raise fail(CallerError, "broker-refused", subject=subject, error=f"acks {acks} has no answer", detail="")

        def send() -> Offset:
            known = self._known(topic)
            question = Question(
                questions.produce_request(
                    known, partition=partition, batch=batch, timeout_ms=self._timeout_ms, acks=acks
                ),
                ProduceResponse,
                version_max=_version_max([known]),
                once_for=None if is_numbered else subject,
            )
            answer = self._connections.ask(known.leader(partition), question)
            return Offset(questions.produced_row(answer, subject=subject).base_offset)

        return self._patiently(send, topic=topic)

    def init_producer_id(self) -> tuple[ProducerId, ProducerEpoch]:
        """An id for a producer that numbers its batches, and its epoch."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=self._timeout_ms)

        def init() -> tuple[ProducerId, ProducerEpoch]:
            answer = self._ask_anyone(Question(request, InitProducerIdResponse))
            raise_refused(answer.error_code, subject="a producer id")
            return ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)

        return self._patiently(init)

    def _known(self, name: str) -> Topic:
        return self._topics.get(name) or self._look_up([name]).topic(name)

    def _look_up(self, names: Sequence[str] | None) -> Cluster:
        question = Question(questions.metadata_request(names), MetadataResponse)
        cluster = cluster_of(self._ask_anyone(question))
        self._topics.update(cluster.topics)
        return cluster

    def _ask_controller(self, question: Question[AnyAnswer]) -> AnyAnswer:
        controller = self._look_up([]).controller
        if controller is None:
            raise fail(RetryError, "broker-not-ready", subject="the cluster", error="it has no controller", detail="")
        return self._connections.ask(controller, question)

    def _ask_anyone(self, question: Question[AnyAnswer]) -> AnyAnswer:
        """The first broker of the bootstrap list that answers."""
        for address in self._bootstrap[:-1]:
            try:
                return self._connections.ask(address, question)
            except RetryError:
                continue
        return self._connections.ask(self._bootstrap[-1], question)

    def _patiently(self, ask: Callable[[], _Result], *, topic: str | None = None) -> _Result:
        """Ask until there is an answer, or an error that asking again would not change, or patience is over."""
        deadline = self._clock.monotonic() + self._patience_s
        pause_s = _PAUSE_S_MIN
        while True:
            was_known = topic in self._topics
            try:
                return ask()
            except PenstockError as error:
                # A topic that is gone may have come back under another id or another leader: look it up once more.
                is_stale = was_known and error.code == "topic-unknown"
                self._topics.clear()
                if not is_stale and (error.code not in _ASK_AGAIN or self._clock.monotonic() + pause_s > deadline):
                    raise
            self._clock.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)


def _by_leader(topic: Topic, values: Mapping[PartitionId, _Value]) -> dict[Address, dict[PartitionId, _Value]]:
    by_leader: dict[Address, dict[PartitionId, _Value]] = {}
    for partition, value in values.items():
        by_leader.setdefault(topic.leader(partition), {})[partition] = value
    return by_leader


def _version_max(topics: Iterable[Topic]) -> int:
    return ANY_VERSION if all(topic.topic_id for topic in topics) else _LAST_VERSION_BY_NAME


def _stalled(wanted: OffsetRange, *, position: Offset, high_watermark: Offset) -> PenstockError:
    """The end of a range was seen once. Where the log ends before it now, records are lost; else the broker is slow."""
    if high_watermark <= position:
        return fail(DataLossError, "range-beyond-log", range=wanted, high_watermark=high_watermark)
    return fail(RetryError, "fetch-stalled", range=wanted, position=position)
