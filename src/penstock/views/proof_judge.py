"""Judge every record of the log again: decode it, ask who claimed its identity first, and give it one outcome.

V1   Every record before the cut gets exactly one outcome here, counted per partition.
V2   Nothing of the pipeline's code takes part. Believed from the ledger are the order of batches and the positions that
     a raising function set aside; the identities that it recorded are computed here again.
Limit: accepted rows and their identities are kept in memory, about 0.6 kB per accepted record of six fields; all other
records pass through, and of each partition one fetch at a time is held.
Worst case: one thread, some 70,000 records of 250 bytes per second. A log that lost records since is not judged:
reading it fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from penstock.core.declared import Topic
from penstock.core.errors import CallerError, fail
from penstock.core.invariant import invariant
from penstock.core.units import Offset, PartitionId
from penstock.core.values import Cut, OffsetRange, TopicPartition
from penstock.views.proof_decode import Problem, Row, Value, decode


class LogRecord(Protocol):
    """What a proof needs of a record."""

    @property
    def offset(self) -> Offset: ...
    @property
    def value(self) -> bytes | None: ...


class Log(Protocol):
    """Where records come from, in offset order: the client of the protocol, or a list in memory.

    Several partitions are read in turns, so one reading must not disturb another.
    """

    def read_records(self, wanted: OffsetRange, /) -> Iterator[LogRecord]: ...

    def list_offsets(
        self, topic: str, at: Mapping[PartitionId, Literal["earliest"]], /
    ) -> Mapping[PartitionId, Offset]: ...


OutcomeName = Literal["applied", "duplicate", "conflict", "rejected", "late", "pending"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a record; only a rejected one has a reason."""

    name: OutcomeName
    reason: str | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name


APPLIED = Outcome("applied")
DUPLICATE = Outcome("duplicate")
CONFLICT = Outcome("conflict")
UNDECODABLE = Outcome("rejected", "undecodable")
NO_IDENTITY = Outcome("rejected", "no identity")
NO_EVENT_TIME = Outcome("rejected", "no event time")
FUNCTION_RAISED = Outcome("rejected", "function raised")

Position: TypeAlias = tuple[PartitionId, Offset]
Outcomes: TypeAlias = Mapping[TopicPartition, Mapping[Outcome, int]]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a pipeline recorded, all of it read at one cut; `batches` are the ranges of each batch, in commit order."""

    cut: Cut
    batches: Sequence[Sequence[OffsetRange]]
    winners: Mapping[str, Collection[Position]]
    set_aside: Mapping[str, Collection[Position]]
    read: Mapping[TopicPartition, int]
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class Event:
    """An accepted record: where it stands, and its declared values in schema order."""

    partition: PartitionId
    offset: Offset
    values: Row


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcomes of all records before the cut; accepted events per topic, in the order they were judged."""

    accepted: Mapping[str, Sequence[Event]]
    outcomes: Outcomes
    log_start: Mapping[TopicPartition, Offset]

    @property
    def read(self) -> dict[TopicPartition, int]:
        return {where: sum(counts.values()) for where, counts in self.outcomes.items()}


def judge(log: Log, *, topics: Sequence[Topic], ledger: Ledger) -> Judged:
    """Give every record before the cut its outcome, in the order in which batches took them.

    Within a batch the order is that of partition and offset: the first to claim an identity is its winner.
    """
    intakes = {topic.name: _Intake(topic, frozenset(ledger.set_aside.get(topic.name, ()))) for topic in topics}
    tapes = _tapes(log, ledger=ledger)
    for ranges in ledger.batches:
        for wanted in sorted(ranges):
            if wanted.topic not in intakes:
                raise fail(CallerError, "proof-topic-undeclared", topic=wanted.topic)
            for record in tapes[TopicPartition(wanted.topic, wanted.partition)].take(wanted):
                intakes[wanted.topic].judge(record, partition=wanted.partition)
    return Judged(
        accepted={name: intake.accepted for name, intake in intakes.items()},
        outcomes={where: counts for intake in intakes.values() for where, counts in intake.outcomes.items()},
        log_start=_log_start(log, ledger=ledger),
    )


def _log_start(log: Log, *, ledger: Ledger) -> dict[TopicPartition, Offset]:
    """Where the log begins, of every partition in the cut: what was skipped there shows in no plan."""
    starts: dict[TopicPartition, Offset] = {}
    for topic, ends in ledger.cut.items():
        found = log.list_offsets(topic, dict.fromkeys(ends, "earliest"))
        starts |= {TopicPartition(topic, partition): offset for partition, offset in found.items()}
    return starts


class _Tape:
    """The records of one partition, read once from start to end while batches take their ranges of it."""

    def __init__(self, records: Iterator[LogRecord]) -> None:
        self._records = records
        self._next = next(records, None)

    def take(self, wanted: OffsetRange) -> Iterator[LogRecord]:
        """The records of a range; what lies before it is passed over, and what was taken does not come again."""
        while (record := self._next) is not None and record.offset < wanted.end:
            self._next = next(self._records, None)
            ordered = self._next is None or record.offset < self._next.offset
            invariant(ordered, "offsets of a partition grow", partition=wanted, offset=record.offset)
            if record.offset >= wanted.start:
                yield record


def _tapes(log: Log, *, ledger: Ledger) -> dict[TopicPartition, _Tape]:
    whole: dict[TopicPartition, OffsetRange] = {}
    for each in (each for ranges in ledger.batches for each in ranges if each.start < each.end):
        where = TopicPartition(each.topic, each.partition)
        seen = whole.get(where, each)
        start, end = min(seen.start, each.start), max(seen.end, each.end)
        whole[where] = OffsetRange(each.topic, each.partition, start, end)
    planned = {TopicPartition(each.topic, each.partition) for ranges in ledger.batches for each in ranges}
    return {where: _Tape(log.read_records(whole[where]) if where in whole else iter(())) for where in planned}


@dataclass(slots=True)
class _Intake:
    """The records of one topic so far: who claimed which identity, and what became of each."""

    topic: Topic
    set_aside: frozenset[Position]
    accepted: list[Event] = field(default_factory=list)
    claimed: dict[Row, Row] = field(default_factory=dict)
    outcomes: dict[TopicPartition, Counter[Outcome]] = field(default_factory=dict)

    def judge(self, record: LogRecord, *, partition: PartitionId) -> None:
        where = TopicPartition(self.topic.name, partition)
        outcome = self._outcome(record, partition=partition)
        self.outcomes.setdefault(where, Counter())[outcome] += 1

    def _outcome(self, record: LogRecord, *, partition: PartitionId) -> Outcome:
        row = decode(record.value, self.topic.columns)
        if isinstance(row, Problem):
            return UNDECODABLE
        named: dict[str, Value] = dict(zip((column.name for column in self.topic.columns), row, strict=True))
        identity = tuple(named[name] for name in self.topic.identity)
        if None in identity:
            return NO_IDENTITY
        if named[self.topic.event_time] is None:
            return NO_EVENT_TIME
        if (partition, record.offset) in self.set_aside:
            return FUNCTION_RAISED
        return self._claim(identity, event=Event(partition, record.offset, row))

    def _claim(self, identity: Row, *, event: Event) -> Outcome:
        """The first under an identity is applied; a later one is its duplicate when all values are equal."""
        first = self.claimed.get(identity)
        if first is None:
            self.claimed[identity] = event.values
            self.accepted.append(event)
            return APPLIED
        return DUPLICATE if first == event.values else CONFLICT
