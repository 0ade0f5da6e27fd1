"""Check what clients saw of a log: every promise that was made to a producer against everything that readers read.

A history is a list of operations in the order in which they ended. The checker knows nothing of how the log works; its
anomalies have the names that are usual for Kafka:

    lost-write             an acknowledged value is read nowhere
    duplicate              one value is read at two offsets
    inconsistent-offsets   one offset held two values, or a value is not where its acknowledgement said
    nonmonotonic           one reader's offsets went back, or an end offset did

A write that failed or was never answered may be there once, or not. A history ends with a reader that read everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Value = bytes
Anomalies = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Written:
    """A producer sent the value; `offset` is what the acknowledgement named, None where there was none."""

    partition: int
    value: Value
    offset: int | None


@dataclass(frozen=True, slots=True)
class Read:
    """One poll of one reader: offsets and values in the order in which they came."""

    reader: str
    partition: int
    records: tuple[tuple[int, Value], ...]


@dataclass(frozen=True, slots=True)
class EndSeen:
    """Somebody was told that the partition ends here."""

    partition: int
    end: int


Operation = Written | Read | EndSeen


@dataclass(slots=True)
class _Seen:
    """What readers found in one partition: values by offset, and offsets by value."""

    values: dict[int, set[Value]] = field(default_factory=lambda: defaultdict(set))
    offsets: dict[Value, set[int]] = field(default_factory=lambda: defaultdict(set))


def find_anomalies(history: Iterable[Operation]) -> Anomalies:
    """Every anomaly by its name; empty if the log kept its promises.

    >>> find_anomalies([Written(0, b"a", 0), Read("r", 0, ((0, b"a"),))])
    {}
    """
    operations = list(history)
    seen: dict[int, _Seen] = defaultdict(_Seen)
    found: Anomalies = defaultdict(list)
    for operation in operations:
        if isinstance(operation, Read):
            for offset, value in operation.records:
                seen[operation.partition].values[offset].add(value)
                seen[operation.partition].offsets[value].add(offset)
    for partition, view in sorted(seen.items()):
        _check_places(partition, view, found)
    _check_writes([operation for operation in operations if isinstance(operation, Written)], seen, found)
    _check_order(operations, found)
    return dict(found)


def _check_places(partition: int, view: _Seen, found: Anomalies) -> None:
    for offset, values in sorted(view.values.items()):
        if len(values) > 1:
            found["inconsistent-offsets"].append(f"{partition}@{offset} held {sorted(values)}")
    for value, offsets in sorted(view.offsets.items()):
        if len(offsets) > 1:
            found["duplicate"].append(f"{value!r} is at {sorted(offsets)} of {partition}")


def _check_writes(writes: Sequence[Written], seen: dict[int, _Seen], found: Anomalies) -> None:
    for write in writes:
        if write.offset is None:
            continue
        places = seen[write.partition].offsets.get(write.value, set())
        if not places:
            found["lost-write"].append(f"{write.value!r} was acknowledged at {write.partition}@{write.offset}")
        elif write.offset not in places:
            found["inconsistent-offsets"].append(f"{write.value!r} was promised {write.offset}, is at {sorted(places)}")


def _check_order(operations: Sequence[Operation], found: Anomalies) -> None:
    last: dict[tuple[str, int], int] = {}
    ends: dict[int, int] = {}
    for operation in operations:
        if isinstance(operation, Read):
            for offset, _ in operation.records:
                reader = (operation.reader, operation.partition)
                if offset <= last.get(reader, -1):
                    found["nonmonotonic"].append(f"{operation.reader} read {offset} after {last[reader]}")
                last[reader] = offset
        elif isinstance(operation, EndSeen):
            if operation.end < ends.get(operation.partition, 0):
                found["nonmonotonic"].append(f"the end of {operation.partition} went back to {operation.end}")
            ends[operation.partition] = operation.end
