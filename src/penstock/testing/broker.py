"""A broker for tests: in a thread of this process, or as a process of its own that can be killed.

    with running_broker(folder) as address:
        ...

Limit: a process that a test kills leaves no clean end of its log, which is what such a test wants.
"""

from __future__ import annotations

import asyncio
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from penstock.broker.config import BrokerConfig
from penstock.broker.server import loop_factory, serve
from penstock.core.clock import Clock, RealClock

START_SECONDS = 60.0
STOP_SECONDS = 15.0
LISTENING = "listening on "


@contextmanager
def running_broker(data: Path, *, clock: Clock | None = None, config: BrokerConfig | None = None) -> Iterator[str]:
    """A broker on a free port, in a thread; gives its address as `host:port` and stops it clean at the end."""
    wanted = replace(config or BrokerConfig(data), data=data, port=0)
    told: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event, str] | BaseException] = queue.Queue()

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        await serve(
            wanted,
            clock=clock or RealClock(),
            announce=lambda host, port: told.put((loop, stop, f"{host}:{port}")),
            stop=stop,
        )

    def run_and_tell() -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(run())
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
            told.put(error)

    thread = threading.Thread(target=run_and_tell, name="penstock-broker", daemon=True)
    thread.start()
    loop, stop, address = _first(told)
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(STOP_SECONDS)
    if not told.empty():
        _first(told)


def _first(
    told: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event, str] | BaseException],
) -> tuple[asyncio.AbstractEventLoop, asyncio.Event, str]:
    answer = told.get(timeout=START_SECONDS)
    if isinstance(answer, BaseException):
        raise answer
    return answer


@dataclass(slots=True)
class BrokerProcess:
    """A broker in a process of its own."""

    process: subprocess.Popen[str]
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it as a crash would, if it still runs."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)
        if self.process.stdout:
            self.process.stdout.close()

    def abort(self) -> int:
        """End it where it seems to stand still: it writes what its threads do to standard error. Gives its status."""
        self.process.send_signal(signal.SIGABRT)
        return self.process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """End it as an operator would; gives its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


def start_broker(
    data: Path, *, port: int = 0, options: Sequence[str] = (), launcher: Sequence[str] | None = None
) -> BrokerProcess:
    """Start `penstock broker`, and wait until it listens. A `launcher` takes the place of the plain command."""
    command = [*(launcher or (sys.executable, "-c", "from penstock.cli.app import main; main()")), "broker"]
    arguments = ["--data", str(data), "--listen", f"127.0.0.1:{port}", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
    line = _first_line(process)
    if not line.startswith(LISTENING):
        process.kill()
        raise RuntimeError(f"the broker ended with status {process.wait(STOP_SECONDS)} instead of listening")
    return BrokerProcess(process, line.removeprefix(LISTENING).strip())


def _first_line(process: subprocess.Popen[str]) -> str:
    """Empty where the process ended, or said nothing for `START_SECONDS`."""
    if process.stdout is None or not select.select([process.stdout], [], [], START_SECONDS)[0]:
        return ""
    return process.stdout.readline()
