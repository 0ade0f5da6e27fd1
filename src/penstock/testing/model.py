"""What every view must hold: the proof's own judgement and fold over records in memory, with functions in plain Python.

V2   A pipeline on Spark and this loop over dicts must agree to the last row, whatever way its batches were cut.
Limit: row-by-row functions only; all in memory.
Worst case: a function that raises on n records of one identity makes the intake run n + 1 times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.core.declared import Definition, Topic
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange, TopicPartition
from penstock.testing.streams import Sent
from penstock.views.proof_fold import Folded, fold
from penstock.views.proof_judge import Event, Judged, Ledger, Position, judge

ModelRow: TypeAlias = Mapping[str, object]
RowFunction: TypeAlias = Callable[[str, ModelRow], Iterable[ModelRow]]
"""Called with the name of the topic or stream that a row comes from, and the row; gives the rows of its own stream."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    offset: Offset
    value: bytes | None


class MemoryLog:
    """Records of several partitions, offsets from 0, read as the protocol's client reads them.

    >>> log = MemoryLog({TopicPartition("t", PartitionId(0)): [b"a", b"b"]})
    >>> [record.value for record in log.read_records(OffsetRange("t", PartitionId(0), Offset(1), Offset(9)))]
    [b'b']
    """

    def __init__(self, values: Mapping[TopicPartition, Sequence[bytes | None]]) -> None:
        self._values = values

    @classmethod
    def of(cls, topics: Mapping[str, Iterable[Sent]]) -> MemoryLog:
        """Every record appended to its partition in sending order."""
        values: dict[TopicPartition, list[bytes | None]] = {}
        for topic, records in topics.items():
            for sent in records:
                values.setdefault(TopicPartition(topic, sent.partition), []).append(sent.value)
        return cls(values)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {where: len(values) for where, values in self._values.items()}

    def read_records(self, wanted: OffsetRange, /) -> Iterator[StoredRecord]:
        values = self._values[TopicPartition(wanted.topic, wanted.partition)]
        for offset, value in enumerate(values[wanted.start : wanted.end], start=wanted.start):
            yield StoredRecord(Offset(offset), value)

    def list_offsets(self, topic: str, at: Mapping[PartitionId, str], /) -> dict[PartitionId, Offset]:
        return {partition: Offset(0) for partition in at if TopicPartition(topic, partition) in self._values}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a pipeline must have recorded, and what its views must hold."""

    judged: Judged
    views: Mapping[str, Folded]
    set_aside: Mapping[str, frozenset[Position]]


def expect(
    log: MemoryLog,
    *,
    definition: Definition,
    functions: Mapping[str, RowFunction],
    batches: Sequence[Sequence[OffsetRange]],
) -> Expected:
    """Judge, run the functions, and judge again without the records that a function raised on, until none raises."""
    ledger = Ledger({}, batches, winners={}, set_aside={}, read={}, outcomes={})
    while True:
        judged = judge(log, topics=definition.topics, ledger=ledger)
        rows, raised = _run(judged, definition=definition, functions=functions)
        if not any(raised.values()):
            views = {view.name: fold(rows[view.stream], view=view) for view in definition.views}
            return Expected(judged, views, {name: frozenset(found) for name, found in ledger.set_aside.items()})
        ledger = replace(ledger, set_aside={name: {*ledger.set_aside.get(name, ()), *raised[name]} for name in raised})


def _run(
    judged: Judged, *, definition: Definition, functions: Mapping[str, RowFunction]
) -> tuple[dict[str, list[ModelRow]], dict[str, list[Position]]]:
    rows: dict[str, list[ModelRow]] = {stream.name: [] for stream in definition.streams}
    raised: dict[str, list[Position]] = {topic.name: [] for topic in definition.topics}
    for topic in definition.topics:
        for event in judged.accepted[topic.name]:
            try:
                made = _through(as_row(event, topic=topic), topic=topic, definition=definition, functions=functions)
            except Exception:  # noqa: BLE001  # whatever a user's function raises sets its record aside
                raised[topic.name].append((event.partition, event.offset))
            else:
                for name, found in made.items():
                    rows[name].extend(found)
    return rows, raised


def _through(
    row: ModelRow, *, topic: Topic, definition: Definition, functions: Mapping[str, RowFunction]
) -> dict[str, list[ModelRow]]:
    """One row through every stream that reads its topic, directly or through other streams, in declared order."""
    made: dict[str, list[ModelRow]] = {}
    for stream in definition.streams:
        sources = {name: [row] if name == topic.name else made.get(name, []) for name in stream.reads}
        made[stream.name] = [
            out for name, rows in sources.items() for each in rows for out in functions[stream.name](name, each)
        ]
    return made


def as_row(event: Event, *, topic: Topic) -> dict[str, object]:
    """An accepted event as a stream's function sees it."""
    mark = {"topic": topic.name, "partition": event.partition, "offset": event.offset, "weight": 1, "cause": None}
    names = (column.name for column in topic.columns)
    return dict(zip(names, event.values, strict=True)) | {"_penstock": mark}
