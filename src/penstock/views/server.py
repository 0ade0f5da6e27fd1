"""The embedded Postgres of a home folder: there while anybody uses it, gone soon after.

Every user holds a shared lock on `users.lock` for as long as it lives, so the kernel lets go of it however the user
ends. One keeper process per home (`views/keeper.py`) runs the server and stops it when it can have that lock alone. A
user that finds no live server starts a keeper; `start.lock` lets one user at a time do so.
The server listens on a socket inside its data folder, whose mode is 0700: who may read the files may connect.
Limits: POSIX, and a local file system for the locks; a child that was forked and runs no program of its own counts as
a user until it ends. Worst case: the first start takes about a second, later ones 0.2 s.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

import psycopg

from penstock.core.clock import Clock, RealClock
from penstock.core.errors import RetryError, fail
from penstock.views.keeper import DATA, KEEPER_LOCK, LOG, PORT, USER, USERS_LOCK, is_free, open_lock

if TYPE_CHECKING:
    from penstock.core.settings import Settings

START_TIMEOUT_S = 60.0
_SOCKET_PATH_MAX = 80  # the kernel takes 107 bytes, and the name of the socket comes after


@dataclass(frozen=True, slots=True)
class Embedded:
    """A running server; it stays while this process lives or until the block ends."""

    folder: Path
    url: str


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The address that the settings name, else that of the embedded server, which runs while the block does."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    with embedded(settings.home) as server:
        yield server.url


@contextmanager
def embedded(home: Path, *, clock: Clock | None = None) -> Iterator[Embedded]:
    """Use the server under `home/postgres`, starting it where it does not run."""
    folder = _make_folder(home.absolute() / "postgres")
    # The port is named, or PGPORT of somebody's shell would be taken.
    url = f"postgresql://{USER}@/postgres?host={quote(str(_socket_folder(folder / DATA)), safe='')}&port={PORT}"
    with open_lock(folder / USERS_LOCK) as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        _start_if_dead(folder, url=url, clock=clock or RealClock())
        yield Embedded(folder, url)


def _make_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _socket_folder(data: Path) -> Path:
    """The folder of the socket by a path that is short enough for the kernel."""
    if len(os.fsencode(data)) <= _SOCKET_PATH_MAX:
        return data
    private = Path(tempfile.gettempdir()) / f"penstock-{os.geteuid()}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid != os.geteuid() or private.is_symlink():
        raise fail(RetryError, "database-not-started", folder=data.parent, reason=f"{private} is not ours")
    link = private / hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    if not link.is_symlink():
        link.symlink_to(data)
    return link


def _start_if_dead(folder: Path, *, url: str, clock: Clock) -> None:
    deadline = clock.monotonic() + START_TIMEOUT_S
    starts_left = 1  # a keeper that is about to end is followed by one of ours; should that one end too, we give up
    with open_lock(folder / "start.lock") as start:
        fcntl.flock(start, fcntl.LOCK_EX)
        while (reason := _refusal(folder, url=url)) is not None:
            is_abandoned = is_free(folder / KEEPER_LOCK)
            if clock.monotonic() > deadline or (is_abandoned and starts_left == 0):
                raise fail(RetryError, "database-not-started", folder=folder, reason=_last_words(folder) or reason)
            if is_abandoned:
                starts_left -= 1
                _start_keeper(folder)
            clock.sleep(0.02)


def _start_keeper(folder: Path) -> None:
    with open_log(folder / LOG) as log:
        subprocess.run(
            [sys.executable, "-m", "penstock.views.keeper", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            check=True,
            start_new_session=True,
        )


def open_log(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def _refusal(folder: Path, *, url: str) -> str | None:
    """Why the server cannot be used: nobody keeps it, or it does not answer."""
    if is_free(folder / KEEPER_LOCK):
        return "it does not run"
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError as error:
        return str(error)
    return None


def _last_words(folder: Path) -> str:
    lines = (folder / LOG).read_text(errors="replace").splitlines()
    grave = [line for line in lines if "FATAL" in line or "error:" in line.lower() or "PANIC" in line]
    return (grave or lines or [""])[-1].strip()
