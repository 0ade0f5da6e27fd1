"""Signals to whole sessions: a part with everything it started, whatever process groups that made.

Every part leads a session of its own. Spark's Python workers leave the process group of their driver, but not its
session, so a session is what a kill of a part has to reach.
Limit: where there is no /proc (not Linux) the part's process group is reached instead.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_FIELDS_BEFORE_SESSION = 3
"""State, parent and group stand between the program's name and the session in /proc/PID/stat."""


def members(session: int) -> list[int]:
    """The processes of the session that are alive, its leader last: nobody starts others once it is gone."""
    found = [pid for pid in _all_pids() if _session_of(pid) == session]
    return sorted(found, key=lambda pid: pid == session)


def signal_session(session: int, number: signal.Signals) -> None:
    """Send the signal to every member; one that has ended meanwhile is fine."""
    if not _PROC.is_dir():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(session, number)
        return
    for pid in members(session):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_session(session: int) -> None:
    """Kill -9 until nobody is left; a process that was being started during the first look is met by the next."""
    signal_session(session, signal.SIGKILL)
    while _PROC.is_dir() and members(session):
        signal_session(session, signal.SIGKILL)


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []


def _session_of(pid: int) -> int | None:
    """None for one that has ended, and for one that is only waited for."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[_FIELDS_BEFORE_SESSION - 1])
