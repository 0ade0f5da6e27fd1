"""The files of the log: positioned reads and writes, syncs, and what a failure of each means.

L1   `sync` returns only when the bytes are on the disk; `sync_folder` does the same for names in a folder.
L5   A failed sync, or a failed write that is not for want of room, ends the process: what the disk holds is unknown
     then, and a second sync of the same pages could succeed without having written them.
Limits: no handle is kept between calls by the log, so open files do not grow with the number of segments.
Worst case: a write for which there is no room leaves a part behind; the caller truncates it away.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from penstock.core.errors import CallerError, CorruptError, PenstockError, RetryError, fail

Buffer = bytes | bytearray | memoryview

_BUFFERS_PER_CALL = 1024
"""What one pwritev takes on Linux."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class File(Protocol):
    """One open file. Closing it does not make it durable."""

    def read_at(self, position: int, *, length: int) -> bytes:
        """Exactly `length` bytes, fewer only where the file ends."""
        ...

    def write_at(self, position: int, *, buffers: Sequence[Buffer]) -> None:
        """Write all of the buffers, one after the other."""
        ...

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """A file system as the log needs it. A missing file is a plain `FileNotFoundError`."""

    def open(self, path: Path, *, create: bool = False) -> File: ...

    def names(self, folder: Path) -> list[str]:
        """Everything in the folder, sorted; nothing where there is no such folder."""
        ...

    def make_folder(self, path: Path) -> None:
        """Make the folder and its parents, durably; one that is there is fine."""
        ...

    def rename(self, source: Path, *, target: Path) -> None:
        """Also replaces a file; durable once the folder is synced."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""
        ...

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder; one that is not there is fine."""
        ...

    def sync_folder(self, path: Path) -> None: ...

    def free_bytes(self, path: Path) -> int: ...

    def lock(self, path: Path) -> Lock:
        """Hold the file's lock until released or until this process is gone."""
        ...


@contextmanager
def opened(files: Files, path: Path, *, create: bool = False) -> Iterator[File]:
    file = files.open(path, create=create)
    try:
        yield file
    finally:
        file.close()


def read_whole(files: Files, path: Path) -> bytes | None:
    """The file's bytes, or None where there is no such file."""
    try:
        with opened(files, path) as file:
            return file.read_at(0, length=file.size())
    except FileNotFoundError:
        return None


def write_synced(files: Files, path: Path, *, content: Buffer) -> None:
    """Make the file hold exactly this, durably; its name is durable once the folder is synced."""
    with opened(files, path, create=True) as file:
        file.truncate(0)
        file.write_at(0, buffers=[content])
        file.sync()


def replace_whole(files: Files, path: Path, *, content: Buffer) -> None:
    """Give the file other bytes so that a crash leaves the earlier ones or these."""
    aside = path.with_name(path.name + ".tmp")
    write_synced(files, aside, content=content)
    files.rename(aside, target=path)
    files.sync_folder(path.parent)


def storage_error(error: OSError, *, path: Path, action: str, free: int | None = None) -> PenstockError:
    """What a failed call means to whoever reads the message."""
    if action != "sync" and error.errno in _NO_ROOM:
        return fail(RetryError, "disk-full", path=path, free=free)
    if error.errno in _FORBIDDEN:
        return fail(CallerError, "file-forbidden", path=path, action=action, reason=error.strerror)
    if action == "sync":
        return fail(CorruptError, "sync-failed", path=path, reason=error.strerror)
    return fail(CorruptError, "storage-failed", path=path, action=action, reason=error.strerror)


def _free_bytes(path: Path) -> int | None:
    with suppress(OSError):
        status = os.statvfs(path if path.is_dir() else path.parent)
        return status.f_bavail * status.f_frsize
    return None


@contextmanager
def _typed_errors(path: Path, *, action: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage_error(error, path=path, action=action, free=_free_bytes(path)) from error


class RealFile:
    """An open file of the machine."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def read_at(self, position: int, *, length: int) -> bytes:
        with _typed_errors(self._path, action="read"):
            data = os.pread(self._descriptor, length, position)
            while len(data) < length:
                more = os.pread(self._descriptor, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        return data

    def write_at(self, position: int, *, buffers: Sequence[Buffer]) -> None:
        with _typed_errors(self._path, action="write"):
            for first in range(0, len(buffers), _BUFFERS_PER_CALL):
                position = self._write_some(position, list(buffers[first : first + _BUFFERS_PER_CALL]))

    def _write_some(self, position: int, buffers: list[Buffer]) -> int:
        while buffers:
            written = os.pwritev(self._descriptor, buffers, position)
            position += written
            buffers = _after(buffers, written)
        return position

    def sync(self) -> None:
        with _typed_errors(self._path, action="sync"):
            os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        with _typed_errors(self._path, action="truncate"):
            os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


def _after(buffers: list[Buffer], written: int) -> list[Buffer]:
    """What a short write left over."""
    for index, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[index + 1 :]]
        written -= len(buffer)
    return []


class RealLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class RealFiles:
    """The machine's file system."""

    def open(self, path: Path, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with _typed_errors(path, action="open"):
            return RealFile(path, os.open(path, flags, 0o640))

    def names(self, folder: Path) -> list[str]:
        with _typed_errors(folder, action="list"):
            try:
                return sorted(os.listdir(folder))
            except FileNotFoundError:
                return []

    def make_folder(self, path: Path) -> None:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            with _typed_errors(folder, action="create"):
                folder.mkdir(mode=0o750, exist_ok=True)
            self.sync_folder(folder.parent)

    def rename(self, source: Path, *, target: Path) -> None:
        with _typed_errors(source, action="rename"):
            os.rename(source, target)

    def remove(self, path: Path) -> None:
        with _typed_errors(path, action="remove"):
            path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        with _typed_errors(path, action="remove"), suppress(FileNotFoundError):
            path.rmdir()

    def sync_folder(self, path: Path) -> None:
        with _typed_errors(path, action="sync"):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def lock(self, path: Path) -> RealLock:
        with _typed_errors(path, action="lock"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise fail(CallerError, "data-folder-in-use", path=path.parent, process=holder or "unknown") from error
        # The number is for a message only: a disk without room for it must not keep a broker from starting.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return RealLock(descriptor)
