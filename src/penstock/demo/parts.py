"""The demo's parts as processes: start, kill with -9, stop, and notice one that ended by itself.

Each part is a command of `penstock` in a session of its own, so Ctrl-C in a terminal reaches the demo alone, which then
stops its parts in order. What a part prints goes to one file in the home, what it says to another. When the demo is
killed its guard ends them.
Worst case: a part that does not stop within `STOP_S` of SIGTERM is killed; every part is made to survive that.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from penstock.core.clock import Clock
from penstock.core.errors import RetryError, fail
from penstock.demo.sessions import kill_session

STOP_S = 20.0
_POLL_S = 0.05
_QUOTED_MAX = 300
_CODE = re.compile(r" \([a-z0-9-]+\)$")
"""What the command line puts after its message; ours has a code of its own."""


class Guard:
    """Our end of the pipe to the process that outlives us."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.demo.guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def lives(self, session: int) -> None:
        self._tell(f"+{session}")

    def ended(self, session: int) -> None:
        self._tell(f"-{session}")

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.write(line + "\n")
                pipe.flush()

    def close(self) -> None:
        self._process.communicate()


class Part:
    """One part; `start` may be called again after it ended, with other arguments."""

    def __init__(self, name: str, *, log: Path, environment: Mapping[str, str], guard: Guard, clock: Clock) -> None:
        self.name = name
        self.log = log
        self._out = log.with_suffix(".out")
        self._environment = {**os.environ, **environment}
        self._guard = guard
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._printed_from = 0
        self._said_from = 0

    def start(self, arguments: Sequence[str]) -> None:
        """Run `penstock` with these arguments."""
        self._forget()
        with _appending(self.log) as log, _appending(self._out) as out:
            self._printed_from, self._said_from = out.tell(), log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.app", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self._guard.lives(self._process.pid)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return None if self._process is None else self._process.poll()

    def printed(self) -> str:
        """What it wrote to standard output since its last start."""
        return _read_from(self._out, self._printed_from)

    def check(self) -> None:
        """Raise if it ended without being told to."""
        if not self.is_running:
            reason = _last_words(_read_from(self.log, self._said_from))
            raise fail(RetryError, "demo-part-ended", part=self.name, status=self.status, reason=reason, log=self.log)

    def wait_for(self, word: str, *, timeout_s: float) -> str:
        """The rest of the first line that starts so."""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            lines = self.printed().splitlines(keepends=True)
            found = next((line for line in lines if line.startswith(word) and line.endswith("\n")), None)
            if found is not None:
                return found.removeprefix(word).strip()
            self.check()
            if self._clock.monotonic() > deadline:
                raise fail(RetryError, "demo-part-silent", part=self.name, seconds=int(timeout_s), log=self.log)
            self._clock.sleep(_POLL_S)

    def kill(self) -> None:
        """End it and everything it started with -9."""
        if self._process is not None:
            kill_session(self._process.pid)
            self._process.wait()
            self._forget()

    def ask_to_stop(self) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to stop, wait, and kill what is left of it."""
        self.ask_to_stop()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=STOP_S)
            self.kill()

    def _forget(self) -> None:
        if self._process is not None:
            self._guard.ended(self._process.pid)
            self._process = None


def _appending(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.open("ab")
    log.seek(0, os.SEEK_END)
    return log


def _read_from(path: Path, position: int) -> str:
    with path.open("rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")


def _last_words(printed: str) -> str:
    """Its own error line where it has one, else its last line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    said = next(
        (line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "nothing said"
    )
    return _CODE.sub("", said.removeprefix("error: "))[:_QUOTED_MAX]
