"""Fetches that wait for records: a flush of one of their partitions wakes them, or their time is over.

L1   They are woken by what became durable and by nothing else.
L7   One for each connection, because no request is taken behind a Fetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.broker.calls import Connection
from penstock.broker.deadlines import Deadline, Deadlines
from penstock.log.partition import Partition


class Retry(Protocol):
    def __call__(self, *, is_last_try: bool) -> bool:
        """Answer the Fetch if it can be answered, always on the last try; tells whether it was."""
        ...


@dataclass(slots=True, eq=False)
class Parked:
    """A Fetch that found too little."""

    connection: Connection
    partitions: list[Partition]
    retry: Retry
    deadline: Deadline | None = None


@dataclass(slots=True)
class Fetches:
    _by_partition: dict[Partition, dict[Parked, None]] = field(default_factory=dict)
    _by_connection: dict[Connection, Parked] = field(default_factory=dict)

    def park(self, parked: Parked, *, deadlines: Deadlines, until: float) -> None:
        self._by_connection[parked.connection] = parked
        for partition in parked.partitions:
            self._by_partition.setdefault(partition, {})[parked] = None
        parked.deadline = deadlines.add(until, lambda: self._give_up(parked))

    def wake(self, partitions: Iterable[Partition]) -> None:
        """These partitions have new records, or are gone."""
        woken = dict.fromkeys(parked for partition in partitions for parked in self._by_partition.get(partition, ()))
        for parked in woken:
            if parked.retry(is_last_try=False):
                self._remove(parked)

    def _give_up(self, parked: Parked) -> None:
        self._remove(parked)
        parked.retry(is_last_try=True)

    def forget(self, connection: Connection) -> None:
        parked = self._by_connection.get(connection)
        if parked:
            self._remove(parked)

    def _remove(self, parked: Parked) -> None:
        if parked.deadline:
            parked.deadline.cancel()
        self._by_connection.pop(parked.connection, None)
        for partition in parked.partitions:
            waiting = self._by_partition.get(partition, {})
            waiting.pop(parked, None)
            if not waiting:
                self._by_partition.pop(partition, None)
