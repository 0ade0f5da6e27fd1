"""The home of a demo: one demo at a time, room for what it writes, and a SIGTERM that stops it as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.core.errors import CallerError, RetryError, fail
from penstock.core.files import Files

FOLDER = "demo"
ROOM_MIN = 300 * 1024**2
"""What an empty database, its write-ahead log and a few minutes of traffic take."""


@contextmanager
def alone_in(home: Path, *, files: Files) -> Iterator[None]:
    """Hold the home's lock; it falls with this process."""
    files.make_folder(home / FOLDER)
    try:
        lock = files.lock(home / FOLDER / "lock")
    except CallerError as error:
        if error.code != "data-folder-in-use":
            raise
        raise fail(CallerError, "demo-running", home=home, process=error.fields["process"]) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def with_room(home: Path, *, files: Files) -> Iterator[None]:
    """Refuse a disk that is nearly full, and say that it is one where that may be why something else failed."""
    _check_room(home, files=files)
    try:
        yield
    except RetryError:
        _check_room(home, files=files)
        raise


def _check_room(home: Path, *, files: Files) -> None:
    free = files.free_bytes(home)
    if free < ROOM_MIN:
        raise fail(RetryError, "disk-full", path=home, free=free)


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: what is open is closed in order."""

    def stop(_: int, __: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
