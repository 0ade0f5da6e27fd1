"""What one broker knows and what waits in it: the part that handlers work with.

L1   `when_durable` is the one way in which anything that was appended comes to be answered for or shown.
L2   Topics, committed offsets and blocks of producer ids are records of internal partitions of the same log.
L7   Replies that slow readers have not taken yet are counted; the more there is of them, the less a Fetch may take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from penstock.broker.calls import Call, Connection
from penstock.broker.config import PARTITIONS_IN_ALL_MAX, BrokerConfig
from penstock.broker.deadlines import Deadlines
from penstock.broker.events import Close, Effect, Flush, Moment, Timer, Work
from penstock.broker.fetches import Fetches
from penstock.broker.groups import Groups
from penstock.broker.producers import Answer, ProducerIds
from penstock.broker.topics import (
    INTERNAL,
    TOPICS,
    Refusal,
    Topic,
    Topics,
    check_name,
    producer_ids_reserved,
    topic_deleted,
    topic_made,
)
from penstock.core.clock import random_bytes
from penstock.core.errors import PenstockError
from penstock.core.units import Offset, PartitionId
from penstock.core.values import TopicPartition
from penstock.log.partition import Partition, Refused
from penstock.log.rounds import Round
from penstock.log.store import Store
from penstock.protocol.apis import KafkaError
from penstock.protocol.batches import Record, build_batch, check_batch
from penstock.protocol.frames import response_frame
from penstock.protocol.messages import Response

UNDRAINED_BYTES_MAX = 256 * 1024**2
FETCH_BYTES_MIN = 64 * 1024
TOPIC_ID_BYTES = 16

Outcome = Callable[[KafkaError], None]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Need:
    """This partition is to be durable up to this offset."""

    partition: Partition
    durable_at: Offset

    @property
    def is_met(self) -> bool:
        return self.partition.high_watermark >= self.durable_at


@dataclass(frozen=True, slots=True)
class _Wait:
    needs: tuple[Need, ...]
    then: Outcome


class Node:
    """The state of one broker. Everything in here belongs to the event loop: nothing is locked."""

    def __init__(self, config: BrokerConfig, *, store: Store, topics: Topics, groups: Groups) -> None:
        self.config = config
        self.topics = topics
        self.groups = groups
        self.deadlines = Deadlines()
        self.fetches = Fetches()
        self._store = store
        self._producer_ids = ProducerIds()
        self._producer_ids.resume(reserved_end=topics.producer_ids_end)
        self._effects: list[Effect] = []
        self._answered: dict[Connection, None] = {}
        self._waits: list[_Wait] = []
        self._round: Round | None = None
        self._works: dict[int, Callable[[object], None]] = {}
        self._tickets = 0
        self._undrained = 0
        self._in_making: dict[str, Topic] = {}
        self.problems: list[PenstockError] = [*store.losses, *store.quarantined.values()]

    # Effects and answers

    def do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """All effects since the last time; a round of flushing starts where something waits for one."""
        self._begin_round()
        at = self.deadlines.to_arm()
        if at is not None:
            self.do(Timer(at))
        effects, self._effects = self._effects, []
        return effects

    def reply(self, call: Call, response: Response) -> None:
        call.reply = tuple(response_frame(response, version=call.version, correlation_id=call.correlation_id))
        self._answered[call.connection] = None

    def reply_nothing(self, call: Call) -> None:
        """The request is done and its client awaits no answer."""
        call.reply = ()
        self._answered[call.connection] = None

    def end(self, call: Call, *, reason: str) -> None:
        self.reply_nothing(call)
        if not call.connection.is_closed:
            call.connection.is_closed = True
            self.do(Close(call.connection.number, reason))

    def take_answered(self) -> list[Connection]:
        answered, self._answered = list(self._answered), {}
        return answered

    def sent(self, connection: Connection, *, size: int) -> None:
        """A reply is on its way until `drained` says that all of them have left."""
        connection.undrained += size
        self._undrained += size

    def drained(self, connection: Connection) -> None:
        self._undrained -= connection.undrained
        connection.undrained = 0

    def left(self, connection: Connection) -> None:
        self.drained(connection)
        self.fetches.forget(connection)

    def reply_room(self, wanted: int) -> int:
        """How much a Fetch may take now (L7); less of what is wanted the more is still on its way to slow readers."""
        return max(FETCH_BYTES_MIN, min(wanted, UNDRAINED_BYTES_MAX - self._undrained))

    # Durability

    @property
    def is_idle(self) -> bool:
        return self._round is None and not self._waits and not self._works

    def when_durable(self, needs: Iterable[Need], then: Outcome) -> None:
        """Call `then` once all of this is durable, at once if it is; with an error if it cannot be."""
        open_needs = tuple(need for need in needs if not need.is_met)
        if open_needs:
            self._waits.append(_Wait(open_needs, then))
        else:
            then(KafkaError.NONE)

    def _begin_round(self) -> None:
        if self._round is None:
            self._round = self._store.take_round()
            if self._round:
                self.do(Flush(self._round.run))

    def flushed(self) -> None:
        """A round is over: show what it made durable, and answer those who waited for that."""
        finished, self._round = self._round, None
        if finished:
            settled = self._store.settle(finished)
            self._settle_waits()
            self.fetches.wake(settled.advanced)

    def _settle_waits(self) -> None:
        """Answer those whose records are durable, and those whose records were taken back."""
        waits, self._waits = self._waits, []
        outcomes = [(wait, self._outcome(wait)) for wait in waits]
        self._waits = [wait for wait, outcome in outcomes if outcome is None]
        for wait, outcome in outcomes:
            if outcome is not None:
                wait.then(outcome)

    def _outcome(self, wait: _Wait) -> KafkaError | None:
        is_open = False
        for need in wait.needs:
            if self._store.partitions.get(need.partition.name) is not need.partition:
                return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            if need.partition.end < need.durable_at:
                return KafkaError.KAFKA_STORAGE_ERROR
            is_open = is_open or not need.is_met
        return None if is_open else KafkaError.NONE

    def append_internal(self, name: str, records: list[Record], *, then: Outcome) -> None:
        """Append the broker's own records; once they are durable the tables take them, then `then` is called."""
        partition = self._store.partitions[INTERNAL[name]]
        batch = build_batch(records, leader_epoch=partition.leader_epoch)
        outcome = partition.append(batch, header=check_batch(batch), into_reserve=True)
        if isinstance(outcome, Refused):
            then(self.wire_error(outcome.error))
        else:
            table = self.topics if name == TOPICS else self.groups
            self.when_durable([Need(partition, outcome.durable_at)], partial(_apply, table, records, then))

    # Work aside

    def work(self, run: Callable[[], Result], then: Callable[[Result], None]) -> None:
        """Run something that blocks in a thread, then `then` with its result."""
        self._tickets += 1
        self._works[self._tickets] = then  # type: ignore[assignment]  # the result of one is handed to the other
        self.do(Work(self._tickets, run))

    def worked(self, ticket: int, result: object) -> None:
        self._works.pop(ticket)(result)

    def close(self) -> None:
        """Blocking: a clean stop."""
        self._store.close()

    # Topics and partitions

    def partition(self, topic: Topic, index: PartitionId) -> Partition | KafkaError:
        """The partition, or why it cannot be used: there is none, or it is damaged (L5)."""
        if not 0 <= index < topic.partitions:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        name = TopicPartition(topic.name, index)
        found = self._store.partitions.get(name)
        is_foreign = found is not None and found.topic_id != topic.id
        if is_foreign or name in self._store.quarantined:
            return KafkaError.KAFKA_STORAGE_ERROR
        return found or create_partition(self._store, topic, index, config=self.config)

    def epoch_error(self, partition: Partition, claimed: int) -> KafkaError:
        """What stands against a client that believes this leader epoch; -1 claims none."""
        if claimed == -1 or claimed == partition.leader_epoch:
            return KafkaError.NONE
        is_old = claimed < partition.leader_epoch
        return KafkaError.FENCED_LEADER_EPOCH if is_old else KafkaError.UNKNOWN_LEADER_EPOCH

    def wire_error(self, error: PenstockError) -> KafkaError:
        code = error.row.wire_code
        return KafkaError.UNKNOWN_SERVER_ERROR if code is None else KafkaError(code)

    def new_topic(self, name: str, *, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        kept = {key: value for key, value in configs.items() if value is not None}
        return Topic(name, random_bytes(TOPIC_ID_BYTES), partitions, kept)

    def check_topic(
        self, name: str, *, partitions: int, replication: int, configs: Mapping[str, str | None]
    ) -> Refusal | None:
        if name in self._in_making:
            return Refusal(KafkaError.TOPIC_ALREADY_EXISTS, f"topic {name} is being made")
        return self.topics.check_create(name, partitions=partitions, replication=replication, configs=configs)

    def may_make(self, name: str) -> bool:
        return self.check_topic(name, partitions=self.config.default_partitions, replication=1, configs={}) is None

    def why_unknown(self, name: str) -> KafkaError:
        """What to tell a client about a topic that is not there."""
        refusal = check_name(name)
        if refusal:
            return refusal.error
        return KafkaError.LEADER_NOT_AVAILABLE if name in self._in_making else KafkaError.UNKNOWN_TOPIC_OR_PARTITION

    def make_topics(self, topics: list[Topic], *, now: Moment, then: Outcome) -> None:
        """Record the topics; once that is durable they are there for everybody."""
        known = (*self.topics, *self._in_making.values(), *topics)
        if sum(topic.partitions for topic in known) > PARTITIONS_IN_ALL_MAX:
            then(KafkaError.INVALID_PARTITIONS)
            return
        self._in_making |= {topic.name: topic for topic in topics}

        def made(error: KafkaError) -> None:
            for topic in topics:
                del self._in_making[topic.name]
            for topic in topics if not error else ():
                for index in range(topic.partitions):
                    self.partition(topic, PartitionId(index))
            then(error)

        records = [topic_made(topic, now_ms=now.wall_ms) for topic in topics]
        self.append_internal(TOPICS, records, then=made)

    def drop_topics(self, topics: list[Topic], *, now: Moment, then: Outcome) -> None:
        """Record that the topics are gone; then nobody finds them, then their files are removed."""

        def dropped(error: KafkaError) -> None:
            if not error:
                self._remove_partitions(topics)
            then(error)
            self._settle_waits()

        records = [topic_deleted(topic.name, now_ms=now.wall_ms) for topic in topics]
        self.append_internal(TOPICS, records, then=dropped)

    def _remove_partitions(self, topics: list[Topic]) -> None:
        names = [TopicPartition(topic.name, PartitionId(p)) for topic in topics for p in range(topic.partitions)]
        gone = [self._store.partitions[name] for name in names if name in self._store.partitions]
        for name in names:
            self._store.delete(name)
        self.fetches.wake(gone)

    def take_producer_id(self, answer: Answer, *, now: Moment) -> None:
        self._reserve(self._producer_ids.take(answer), now=now)

    def _reserve(self, end: int | None, *, now: Moment) -> None:
        """Make a block of producer ids durable before its first is given out."""
        if end is None:
            return

        def reserved(error: KafkaError) -> None:
            if error:
                self._producer_ids.refused(error)
            else:
                self._reserve(self._producer_ids.reserved(end=end), now=now)

        record = producer_ids_reserved(end, now_ms=now.wall_ms)
        self.append_internal(TOPICS, [record], then=reserved)


def create_partition(store: Store, topic: Topic, index: PartitionId, *, config: BrokerConfig) -> Partition:
    """A partition that is usable at once and on the disk after the next round."""
    partition = store.create(TopicPartition(topic.name, index), topic_id=topic.id)
    partition.segment_bytes = topic.size("segment.bytes", default=config.segment_bytes)
    return partition


def _apply(table: Topics | Groups, records: list[Record], then: Outcome, error: KafkaError) -> None:
    for record in records if not error else ():
        table.apply(record)
    then(error)
