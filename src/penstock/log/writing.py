"""What one flush round does to the files of one partition: plain blocking work, made on the loop and run in a thread.

L1   `perform` returns only when every byte and every new name is on the disk.
L5   A segment is synced and sealed before the first byte of the next one is written, so a torn end is always the
     log's end.
Worst case: no room. Everything of this round is taken back from the files and the error is raised; the partition then
takes back what it holds in memory. If that fails too, the error ends the process.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import RetryError
from penstock.core.files import Buffer, Files, opened, replace_whole, write_synced
from penstock.core.units import Offset
from penstock.log import epochs

METADATA_NAME = "partition.metadata"
NEW_SUFFIX = "~"
"""One character: with it the longest name of a partition is as long as a file system allows."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a segment gets beside its log when the next one starts."""

    offset_index: bytes
    time_index: bytes
    snapshot_path: Path
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class Extent:
    """What one segment gets in one round."""

    path: Path
    position: int
    buffers: tuple[Buffer, ...]
    seal: Seal | None

    @property
    def is_new(self) -> bool:
        return self.position == 0


@dataclass(frozen=True, slots=True)
class Setup:
    """The files of a partition that is not on the disk yet."""

    metadata: bytes
    epochs: bytes


@dataclass(frozen=True, slots=True)
class Work:
    """One partition's part of a round; `end` is what is durable once it is done."""

    folder: Path
    setup: Setup | None
    extents: tuple[Extent, ...]
    end: Offset


def perform(files: Files, work: Work) -> None:
    """Bring the work to the disk."""
    if work.setup:
        _set_up(files, work.folder, work.setup)
    try:
        for extent in work.extents:
            _write(files, extent)
    except RetryError:
        _take_back(files, work)
        raise
    if any(extent.is_new for extent in work.extents):
        files.sync_folder(work.folder)


def _write(files: Files, extent: Extent) -> None:
    with opened(files, extent.path, create=extent.is_new) as file:
        file.write_at(extent.position, buffers=extent.buffers)
        file.sync()
    if extent.seal:
        seal_files(files, extent.path, seal=extent.seal)


def seal_files(files: Files, path: Path, *, seal: Seal) -> None:
    """Write the indexes and the snapshot that go with a finished segment."""
    write_synced(files, path.with_suffix(".index"), content=seal.offset_index)
    write_synced(files, path.with_suffix(".timeindex"), content=seal.time_index)
    replace_whole(files, seal.snapshot_path, content=seal.snapshot)


def _take_back(files: Files, work: Work) -> None:
    """Leave the files as they were, durably: later segments first, so that a crash here looks like one before.

    Without the cut a shorter write at the same place would be followed by this one's rest; without the syncs a power
    cut could bring back what the partition has given other offsets since.
    """
    for extent in work.extents:
        for path in _made_with(extent):
            files.remove(path)
    files.sync_folder(work.folder)
    for extent in work.extents:
        if not extent.is_new:
            with opened(files, extent.path) as file:
                file.truncate(extent.position)
                file.sync()


def _made_with(extent: Extent) -> tuple[Path, ...]:
    log = (extent.path,) if extent.is_new else ()
    if extent.seal is None:
        return log
    return (*log, extent.path.with_suffix(".index"), extent.path.with_suffix(".timeindex"), extent.seal.snapshot_path)


def _set_up(files: Files, folder: Path, setup: Setup) -> None:
    """Make the partition's folder aside, then give it its name: a crash leaves all of it or nothing."""
    if METADATA_NAME in files.names(folder):
        return
    aside = folder.with_name(folder.name + NEW_SUFFIX)
    files.make_folder(aside)
    write_synced(files, aside / METADATA_NAME, content=setup.metadata)
    write_synced(files, aside / epochs.FILE_NAME, content=setup.epochs)
    files.sync_folder(aside)
    files.rename(aside, target=folder)
    files.sync_folder(folder.parent)


def encode_metadata(topic_id: bytes) -> bytes:
    """`partition.metadata` as Kafka writes it.

    >>> encode_metadata(bytes(16))
    b'version: 0\\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA'
    """
    return b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(topic_id).rstrip(b"=")


def decode_metadata(data: bytes) -> bytes | None:
    """The topic id, or None if this is no such file."""
    head, _, text = data.strip().partition(b"topic_id: ")
    try:
        topic_id = base64.urlsafe_b64decode(text + b"==")
    except ValueError:
        return None
    return topic_id if head == b"version: 0\n" and len(topic_id) == 16 else None


def remove_partition(files: Files, folder: Path) -> None:
    """Remove a partition's folder: first its name, durably, then what is in it."""
    doomed = folder.with_name(folder.name[:200] + "-delete")
    finish_removal(files, doomed)
    if files.names(folder):
        files.rename(folder, target=doomed)
        files.sync_folder(folder.parent)
        finish_removal(files, doomed)


def finish_removal(files: Files, doomed: Path) -> None:
    """Remove what a crash left of a folder that had lost its name."""
    for name in files.names(doomed):
        files.remove(doomed / name)
    files.remove_folder(doomed)
