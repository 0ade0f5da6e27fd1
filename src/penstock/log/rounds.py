"""One flush round: what several partitions write, synced several at a time, with the durable offsets of the round
before.

L1   `run` returns only when all of it is on the disk, but for what `failures` names.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.errors import RetryError
from penstock.core.files import Files
from penstock.log.durable import DurableRecord, write_record
from penstock.log.partition import Partition
from penstock.log.writing import Work, perform, remove_partition


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a round: high watermarks that moved, and partitions that took back what found no room."""

    advanced: tuple[Partition, ...]
    refused: tuple[tuple[Partition, RetryError], ...]


@dataclass(slots=True)
class Round:
    """Made by `Store.take_round`; `run` it in a thread, then hand it to `Store.settle`."""

    files: Files
    folder: Path
    jobs: tuple[tuple[Partition, Work], ...]
    removals: tuple[Path, ...]
    record: DurableRecord
    pool: Executor | None
    failures: dict[Partition, RetryError] = field(default_factory=dict)
    is_recorded: bool = False

    def run(self) -> None:
        """Blocking. Anything raised here must end the process: what the disk holds is not known any more."""
        if self.removals:
            # A crash in the middle must not find a record of what is gone: that would look like lost records.
            self._write_record()
            for folder in self.removals:
                remove_partition(self.files, folder)
        if self.pool is None:
            self._run_here()
        else:
            self._run_in(self.pool)

    def _run_here(self) -> None:
        for partition, work in self.jobs:
            self._perform(partition, work)
        self._write_record()

    def _run_in(self, pool: Executor) -> None:
        """All but one in the pool: with a single partition its sync runs beside the record's."""
        pending = [pool.submit(self._perform, partition, work) for partition, work in self.jobs[1:]]
        pending.append(pool.submit(self._write_record))
        try:
            for partition, work in self.jobs[:1]:
                self._perform(partition, work)
        finally:
            errors = [error for future in pending if (error := future.exception())]
        if errors:
            raise errors[0]

    def _perform(self, partition: Partition, work: Work) -> None:
        try:
            perform(self.files, work)
        except RetryError as error:
            self.failures[partition] = error

    def _write_record(self) -> None:
        """The record is a lower bound, so where there is no room for it the one before stands."""
        if self.is_recorded:
            return
        try:
            write_record(self.files, self.folder, record=self.record)
            self.is_recorded = True
        except RetryError:
            self.is_recorded = False
