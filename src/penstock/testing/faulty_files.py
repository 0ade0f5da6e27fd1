"""A disk in memory that fails, tears or forgets exactly the call a test names, and that can lose its power.

Every call that changes something has a number, from 1 on; `fault_at` names the one that goes wrong. So a test can
make call N fail, then N + 1, until a run gets through.

What a power cut leaves: of each file the bytes that were synced, and of the later writes a seeded number of whole
ones, the next in part, and perhaps zeros where the rest would be; of each folder the names that were synced, or a
later state. A failed sync leaves the bytes readable until the power is cut, and no later sync brings them to the disk.
Limit: later writes to one file survive in order only, a real disk may do worse.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from penstock.core.errors import CallerError, fail
from penstock.core.files import Buffer, storage_error


class Fault(Enum):
    FAIL = "the call does nothing and fails with an input-output error"
    FULL = "the disk is full: half of a write is done, then it fails"
    CUT = "the process ends before the call"
    TEAR = "the process ends in the middle of the call: half of a write is done"
    DROP = "the call does nothing and says it did"


class PowerCut(BaseException):
    """The process ends here. Not an `Exception`, so that nothing in the process handles it."""


@dataclass(frozen=True, slots=True)
class _Write:
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Resize:
    size: int


def _apply(data: bytearray, change: _Write | _Resize) -> None:
    if isinstance(change, _Resize):
        del data[change.size :]
        data.extend(bytes(change.size - len(data)))
        return
    data.extend(bytes(max(change.position - len(data), 0)))
    data[change.position : change.position + len(change.data)] = change.data


@dataclass(slots=True)
class _Node:
    """A file: what a process reads, what the disk holds, and the changes in between."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    unsynced: list[_Write | _Resize] = field(default_factory=list)

    def change(self, change: _Write | _Resize) -> None:
        _apply(self.data, change)
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            _apply(self.synced, change)
        self.unsynced.clear()

    def after_power_cut(self, random: Random) -> _Node:
        left = bytearray(self.synced)
        whole = random.randint(0, len(self.unsynced))
        for change in self.unsynced[:whole]:
            _apply(left, change)
        for change in self.unsynced[whole : whole + 1]:
            _apply(left, _part_of(change, random))
        return _Node(left, bytearray(left))


def _part_of(change: _Write | _Resize, random: Random) -> _Write:
    if isinstance(change, _Resize):
        return _Write(0, b"")
    kept = random.randint(0, len(change.data))
    zeros = random.choice((0, 0, len(change.data) - kept))
    return _Write(change.position, change.data[:kept] + bytes(zeros))


@dataclass(slots=True)
class _Folder:
    """Names; `states` are those since the last sync, the synced one first."""

    names: dict[str, _Node | _Folder] = field(default_factory=dict)
    states: list[dict[str, _Node | _Folder]] = field(default_factory=lambda: [{}])

    def set(self, name: str, entry: _Node | _Folder | None) -> None:
        if entry is None:
            self.names.pop(name, None)
        else:
            self.names[name] = entry
        self.states.append(dict(self.names))

    def sync(self) -> None:
        self.states = [dict(self.names)]

    def after_power_cut(self, random: Random) -> _Folder:
        state = random.choice(self.states)
        left = {name: entry.after_power_cut(random) for name, entry in state.items()}
        return _Folder(left, [dict(left)])


class FaultyFiles:
    """The `Files` of a test. `calls` counts, `log` names the calls that change something."""

    def __init__(self) -> None:
        self.calls = 0
        self.log: list[str] = []
        self.free = 1 << 40
        self.drops_syncs = False
        self._faults: dict[int, Fault] = {}
        self._root = _Folder()
        self._locked: set[Path] = set()

    def fault_at(self, call: int, *, fault: Fault) -> None:
        self._faults[call] = fault

    def clear_faults(self) -> None:
        self._faults.clear()

    def after_kill(self) -> FaultyFiles:
        """The same machine once the process is gone: everything it wrote is readable, its locks are free."""
        self._locked.clear()
        self._faults.clear()
        return self

    def after_power_cut(self, *, seed: int) -> FaultyFiles:
        """Another machine with what the disk may hold now."""
        left = FaultyFiles()
        left.drops_syncs = self.drops_syncs
        left._root = self._root.after_power_cut(Random(seed))
        return left

    def content(self, path: Path) -> bytes:
        return bytes(self._node(path).data)

    def put(self, path: Path, *, content: bytes) -> None:
        """Change a file behind everybody's back, durably."""
        node = self._node(path)
        node.data, node.synced, node.unsynced = bytearray(content), bytearray(content), []

    # Files

    def open(self, path: Path, *, create: bool = False) -> FaultyFile:
        folder = self._folder(path.parent)
        if path.name not in folder.names:
            if not create:
                raise FileNotFoundError(path)
            self.begin("open", path)
            folder.set(path.name, _Node())
        return FaultyFile(self, path, self._node(path))

    def names(self, folder: Path) -> list[str]:
        try:
            return sorted(self._folder(folder).names)
        except FileNotFoundError:
            return []

    def make_folder(self, path: Path) -> None:
        folder = self._root
        for part in path.parts[1:]:
            if part not in folder.names:
                self.begin("make", path)
                folder.set(part, _Folder())
                if not self.drops_syncs:
                    folder.sync()
            entry = folder.names[part]
            if not isinstance(entry, _Folder):
                raise NotADirectoryError(path)
            folder = entry

    def rename(self, source: Path, *, target: Path) -> None:
        folder, into = self._folder(source.parent), self._folder(target.parent)
        if source.name not in folder.names:
            raise FileNotFoundError(source)
        if self.begin("rename", source) is not Fault.DROP:
            entry = folder.names.pop(source.name)
            into.set(target.name, entry)
            if into is not folder:
                folder.set(source.name, None)

    def remove(self, path: Path) -> None:
        if path.name in self.names(path.parent) and self.begin("remove", path) is not Fault.DROP:
            self._folder(path.parent).set(path.name, None)

    def remove_folder(self, path: Path) -> None:
        if path.name in self.names(path.parent):
            if self.names(path):
                raise storage_error(OSError(errno.ENOTEMPTY, "not empty"), path=path, action="remove")
            self.remove(path)

    def sync_folder(self, path: Path) -> None:
        folder = self._folder(path)
        if self.begin("sync", path) is not Fault.DROP:
            folder.sync()

    def free_bytes(self, path: Path) -> int:
        return self.free if self.names(path) else 0

    def lock(self, path: Path) -> FaultyLock:
        if path in self._locked:
            raise fail(CallerError, "data-folder-in-use", path=path.parent, process="another")
        self._locked.add(path)
        return FaultyLock(self._locked, path)

    # Faults

    def begin(self, action: str, path: Path) -> Fault | None:
        """Count a call. Raises what happens instead of it; DROP, and what befalls a write, is the caller's to do."""
        self.calls += 1
        self.log.append(f"{action} {path.name}")
        fault = self._faults.get(self.calls)
        if fault is None:
            return Fault.DROP if action == "sync" and self.drops_syncs else None
        if fault is Fault.CUT or (fault is Fault.TEAR and action != "write"):
            raise PowerCut(self.log[-1])
        if fault is Fault.DROP or action == "write":
            return fault
        raise self.error(fault, action=action, path=path)

    def error(self, fault: Fault, *, action: str, path: Path) -> Exception:
        number = errno.ENOSPC if fault is Fault.FULL else errno.EIO
        return storage_error(OSError(number, os.strerror(number)), path=path, action=action, free=0)

    def _folder(self, path: Path) -> _Folder:
        folder = self._root
        for part in path.parts[1:]:
            entry = folder.names.get(part)
            if not isinstance(entry, _Folder):
                raise FileNotFoundError(path)
            folder = entry
        return folder

    def _node(self, path: Path) -> _Node:
        entry = self._folder(path.parent).names.get(path.name)
        if not isinstance(entry, _Node):
            raise FileNotFoundError(path)
        return entry


class FaultyLock:
    def __init__(self, locked: set[Path], path: Path) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


class FaultyFile:
    def __init__(self, files: FaultyFiles, path: Path, node: _Node) -> None:
        self._files = files
        self._path = path
        self._node = node

    def read_at(self, position: int, *, length: int) -> bytes:
        return bytes(self._node.data[position : position + length])

    def write_at(self, position: int, *, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        fault = self._files.begin("write", self._path)
        done = {None: len(data), Fault.FULL: len(data) // 2, Fault.TEAR: len(data) // 2}.get(fault, 0)
        self._node.change(_Write(position, data[:done]))
        if fault is Fault.TEAR:
            raise PowerCut(f"write {self._path.name}")
        if fault in (Fault.FAIL, Fault.FULL):
            raise self._files.error(fault, action="write", path=self._path)

    def sync(self) -> None:
        try:
            fault = self._files.begin("sync", self._path)
        except Exception:
            # As file systems do: what could not be written counts as clean from now on.
            self._node.unsynced.clear()
            raise
        if fault is not Fault.DROP:
            self._node.sync()

    def truncate(self, size: int) -> None:
        if size != len(self._node.data) and self._files.begin("truncate", self._path) is not Fault.DROP:
            self._node.change(_Resize(size))

    def size(self) -> int:
        return len(self._node.data)

    def close(self) -> None:
        """Nothing to do: what is open survives in memory."""
