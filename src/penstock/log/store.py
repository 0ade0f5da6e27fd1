"""The data directory: every partition, opened, written in rounds, closed.

    .lock                    held while a broker has the directory
    .kafka_cleanshutdown     there after a clean stop only; gone, durably, before anything is written
    durable-offsets          see `log.durable`
    TOPIC-PARTITION/         see `log.segment`, and: partition.metadata (the topic's id), leader-epoch-checkpoint (see
                             `log.epochs`), NNNNNNNNNNNNNNNNNNNN.snapshot (see `log.producers`)
    TOPIC-PARTITION~/        a partition that was being made      } a crash left these;
    TOPIC-PARTITION-delete/  a partition that was being removed   } both are removed at the next start

All state changes at once and in one thread; the disk is reached in rounds: `take_round` there, `Round.run` in any
thread, `settle` there again. One round at a time; appends meanwhile belong to the next one.

L1   A round is settled as flushed only when every file and every new name of it is on the disk.
L5   A damaged partition is in `quarantined` with the error that names the place; the others serve.
Limits: every round writes the durable offsets of all partitions, 50 bytes and about a microsecond for each.
Worst case: a full disk. The partition that met it takes back what it had not written; a failed sync ends the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from penstock.core.errors import CorruptError, DataLossError, PenstockError, fail
from penstock.core.files import Files, read_whole, write_synced
from penstock.core.invariant import invariant
from penstock.core.units import Offset, PartitionId
from penstock.core.values import TopicPartition
from penstock.log.durable import DurableRecord, Recorded, read_record, write_record
from penstock.log.epochs import FIRST_EPOCHS
from penstock.log.limits import LogLimits
from penstock.log.partition import Contents, Partition
from penstock.log.producers import Producers
from penstock.log.recovery import Recovery
from penstock.log.room import Room
from penstock.log.rounds import Round, Settled
from penstock.log.segment import Segment
from penstock.log.tail import TailMemory
from penstock.log.writing import (
    METADATA_NAME,
    NEW_SUFFIX,
    Setup,
    decode_metadata,
    encode_metadata,
    finish_removal,
    seal_files,
)

_LOCK_NAME = ".lock"
_CLEAN_NAME = ".kafka_cleanshutdown"
_CLEAN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
_FOLDER_NAME = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,10})")


def parse_folder_name(name: str) -> TopicPartition | None:
    """
    >>> parse_folder_name("usage.requests-12")
    TopicPartition(topic='usage.requests', partition=12)
    """
    match = _FOLDER_NAME.fullmatch(name)
    return TopicPartition(match[1], PartitionId(int(match[2]))) if match else None


class Store:
    """An open data directory. `Store.open` makes one."""

    def __init__(self, folder: Path, *, files: Files, limits: LogLimits) -> None:
        self.folder = folder
        self.quarantined: dict[TopicPartition, PenstockError] = {}
        self.losses: list[PenstockError] = []
        self.was_clean = True
        self._files = files
        self._limits = limits
        self._lock = files.lock(folder / _LOCK_NAME)
        self._room = Room(files, folder, reserve_bytes=limits.reserve_bytes)
        self._memory = TailMemory(bytes_max=limits.tails_bytes)
        self._pool = ThreadPoolExecutor(limits.sync_threads, "sync") if limits.sync_threads else None
        self._partitions: dict[TopicPartition, Partition] = {}
        self._dirty: dict[Partition, None] = {}
        self._removals: list[Path] = []
        self._unopened: dict[str, Recorded] = {}
        self._sequence = 0
        self._round: Round | None = None

    @classmethod
    def open(cls, folder: Path, *, files: Files, limits: LogLimits | None = None) -> Store:
        """Blocking: lock the directory, recover every partition. Raises `CallerError` where another broker has it."""
        files.make_folder(folder)
        store = cls(folder, files=files, limits=limits or LogLimits())
        with ExitStack() as undo:
            undo.callback(store._release)
            store._recover()
            undo.pop_all()
        return store

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        return self._partitions

    @property
    def waiting_bytes(self) -> int:
        """What is appended and not yet durable, over all partitions."""
        return sum(partition.waiting_bytes for partition in self._dirty)

    # Opening

    def _recover(self) -> None:
        names = self._files.names(self.folder)
        record = read_record(self._files, self.folder)
        self.was_clean = _CLEAN_NAME in names or not any(map(parse_folder_name, names))
        self._unmark_clean()
        self._sequence = record.sequence + 1 if record else 0
        self._unopened = dict(record.partitions) if record else {}
        for name in names:
            if name.endswith((NEW_SUFFIX, "-delete")):
                finish_removal(self._files, self.folder / name)
        for name in names:
            parsed = parse_folder_name(name)
            if parsed:
                self._open_partition(parsed, name, is_recorded=record is not None)
        self.losses += [loss for name, known in self._unopened.items() for loss in self._whole_loss(name, known)]
        self._write_record()

    def _unmark_clean(self) -> None:
        self._files.remove(self.folder / _CLEAN_NAME)
        self._files.sync_folder(self.folder)

    def _open_partition(self, name: TopicPartition, folder_name: str, *, is_recorded: bool) -> None:
        folder = self.folder / folder_name
        recorded = self._unopened.get(folder_name)
        topic_id = decode_metadata(read_whole(self._files, folder / METADATA_NAME) or b"")
        if topic_id is None and recorded:
            topic_id = recorded.topic_id
            write_synced(self._files, folder / METADATA_NAME, content=encode_metadata(topic_id))
        if topic_id is None:
            self.quarantined[name] = _unidentified(name, folder)
            return
        if recorded is None or recorded.topic_id != topic_id:
            recorded = Recorded(topic_id, Offset(0), Offset(0) if is_recorded else None)
        self._recover_partition(name, folder, recorded)

    def _recover_partition(self, name: TopicPartition, folder: Path, recorded: Recorded) -> None:
        recovery = Recovery(self._files, folder, name, recorded, self.was_clean, self._limits.producers_max)
        try:
            recovered = recovery.run()
        except CorruptError as error:
            if error.code != "log-damaged":
                raise
            self.quarantined[name] = error
            self._unopened[folder.name] = recorded
            return
        self._unopened.pop(folder.name, None)
        self.losses += recovered.losses
        self._adopt(name, recorded.topic_id, folder, recovered.contents)

    def _whole_loss(self, name: str, known: Recorded) -> list[PenstockError]:
        """The folder of a recorded partition is gone."""
        parsed = parse_folder_name(name)
        if parsed in self.quarantined or known.end is None or known.end <= known.start:
            return []
        return [fail(DataLossError, "records-lost", partition=name, start=known.start, end=known.end)]

    def _adopt(self, name: TopicPartition, topic_id: bytes, folder: Path, contents: Contents) -> Partition:
        partition = Partition(
            name,
            topic_id=topic_id,
            folder=folder,
            contents=contents,
            files=self._files,
            limits=self._limits,
            room=self._room,
            memory=self._memory,
            dirty=self._dirty,
        )
        self._partitions[name] = partition
        return partition

    # Partitions come and go

    def create(self, name: TopicPartition, *, topic_id: bytes) -> Partition:
        """A new partition, usable at once; its folder is on the disk when the next round is settled.

        Where the record knows a partition of this name and id whose folder is gone, offsets go on at the recorded end.
        """
        invariant(name not in self._partitions and name not in self.quarantined, "a partition is made once", name=name)
        known = self._unopened.pop(str(name), None)
        base = known.end if known and known.end and known.topic_id == topic_id else Offset(0)
        folder = self.folder / str(name)
        producers = Producers(str(name), producers_max=self._limits.producers_max)
        setup = Setup(encode_metadata(topic_id), FIRST_EPOCHS.to_bytes())
        contents = Contents((Segment(folder, base=base),), base, FIRST_EPOCHS, producers, setup)
        partition = self._adopt(name, topic_id, folder, contents)
        self._dirty[partition] = None
        return partition

    def delete(self, name: TopicPartition) -> None:
        """Forget the partition, a quarantined one too; its folder is gone when the next round is settled."""
        partition = self._partitions.pop(name, None)
        if partition:
            self._dirty.pop(partition, None)
            partition.release_memory()
        self.quarantined.pop(name, None)
        self._unopened.pop(str(name), None)
        self._removals.append(self.folder / str(name))

    # Rounds

    def take_round(self) -> Round | None:
        """All that waits to be written; None where nothing does, or while a round is running."""
        if self._round or not (self._dirty or self._removals):
            return None
        jobs = tuple((partition, partition.take_work()) for partition in self._dirty)
        self._round = Round(self._files, self.folder, jobs, tuple(self._removals), self._record(), self._pool)
        self._dirty.clear()
        self._removals.clear()
        return self._round

    def settle(self, round_: Round) -> Settled:
        """Make visible what the round brought to the disk; take back what found no room there."""
        invariant(self._round is round_, "the round that is settled is the one that ran")
        self._round = None
        self._sequence += round_.is_recorded
        advanced, refused = [], []
        for partition, work in round_.jobs:
            error = round_.failures.get(partition)
            if error is None:
                partition.flushed(work)
                advanced.append(partition)
            else:
                refused.append((partition, error))
                self._take_back(partition)
        return Settled(tuple(advanced), tuple(refused))

    def _take_back(self, partition: Partition) -> None:
        partition.take_back()
        self._dirty.pop(partition, None)
        if not partition.is_set_up and self._partitions.get(partition.name) is partition:
            self.delete(partition.name)

    def _record(self) -> DurableRecord:
        known = {
            str(name): Recorded(partition.topic_id, partition.log_start, partition.high_watermark)
            for name, partition in self._partitions.items()
        }
        return DurableRecord(self._sequence, self._unopened | known)

    def _write_record(self) -> None:
        write_record(self._files, self.folder, record=self._record())
        self._files.sync_folder(self.folder)
        self._sequence += 1

    # Closing

    def close(self) -> None:
        """Blocking: write what waits, leave indexes and snapshots, mark the stop as clean. Appends have ended."""
        try:
            while (round_ := self.take_round()) is not None:
                round_.run()
                self.settle(round_)
            self._write_record()
            for partition in self._partitions.values():
                self._seal(partition)
            write_synced(self._files, self.folder / _CLEAN_NAME, content=_CLEAN_CONTENT)
            self._files.sync_folder(self.folder)
        finally:
            self._release()

    def _seal(self, partition: Partition) -> None:
        """A partition that stopped clean before and has not grown since has its files already."""
        segment, seal = partition.closing_seal()
        if segment.size and not (self.was_clean and partition.is_untouched):
            seal_files(self._files, segment.path, seal=seal)

    def _release(self) -> None:
        if self._pool:
            self._pool.shutdown()
        self._lock.release()


def _unidentified(name: TopicPartition, folder: Path) -> PenstockError:
    path = folder / METADATA_NAME
    return fail(CorruptError, "log-damaged", partition=name, file=path, position=0, reason="the topic id is lost")
