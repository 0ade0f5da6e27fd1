"""The broker on a machine: sockets, threads, timers and signals. The core decides, this file only does.

One event loop owns all state. Flushing has a thread of its own, cold reads share a few; both come back to the loop as
events. The log copies a batch once, into the bytes that it writes and that readers at the end get.

L1   A failed sync ends the process: nothing that was appended is acknowledged after it.
L7   A connection that is paused is not read from, and nothing is taken from one whose client reads slowly.
Limit: without TLS and passwords it listens on loopback alone, unless it is told to do otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

from penstock.broker.config import BrokerConfig
from penstock.broker.core import Core
from penstock.broker.events import (
    SMALL_FRAME_BYTES,
    Admit,
    Close,
    ConnectionClosed,
    ConnectionDrained,
    Effect,
    Event,
    Flush,
    FlushCompleted,
    Moment,
    Pause,
    Reply,
    Resume,
    Timer,
    TimerFired,
    Work,
    WorkCompleted,
)
from penstock.broker.intake import READ_BYTES, Intake
from penstock.broker.node import Node
from penstock.broker.opening import open_node
from penstock.core.clock import Clock
from penstock.core.errors import CallerError, fail
from penstock.core.files import RealFiles

READ_THREADS = 2
SWITCH_SECONDS = 0.0002
"""A flush waits no longer than this for a busy loop to let it begin; Python's own 5 ms cost a third of the rate."""
UNREPORTED_BYTES_MAX = SMALL_FRAME_BYTES // 2
"""So much may be sent before the core is told that it left: one event for many small replies."""

Announce = Callable[[str, int], None]


class Server:
    """Runs one core on one event loop."""

    def __init__(self, core: Core, *, clock: Clock, connections_max: int) -> None:
        self._core = core
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._connections_max = connections_max
        self._clients: dict[int, Client] = {}
        self._next_number = 0
        self._events: deque[Event] = deque()
        self._woken: dict[tuple[int, Callable[[Client], None]], None] = {}
        self._is_handling = False
        self._is_waking = False
        self._is_stopping = False
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="penstock-flush")
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="penstock-read")
        self.scratch = memoryview(bytearray(READ_BYTES))
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._do: dict[type[Effect], Callable[..., None]] = {
            Reply: self._reply,
            Close: self._close,
            Admit: lambda effect: self._wake_later(effect.connection, Client.admit),
            Pause: self._pause,
            Resume: lambda effect: self._wake_later(effect.connection, Client.resume),
            Flush: self._flush,
            Work: self._work,
            Timer: self._set_timer,
        }

    def happened(self, event: Event) -> None:
        """Hand an event to the core and do what it wants, one event at a time."""
        if self.failed.done():
            return
        self._events.append(event)
        if self._is_handling:
            return
        try:
            self._handle_all()
            self._wake()
        except Exception as error:  # noqa: BLE001  # whatever broke in the core, its state is not to be trusted
            self._fail(error)

    def _handle_all(self) -> None:
        self._is_handling = True
        try:
            while self._events:
                for effect in self._handle(self._events.popleft()):
                    self._do[type(effect)](effect)
        finally:
            self._is_handling = False
        if self._is_stopping and self._core.is_idle:
            self._idle.set()

    def _wake(self) -> None:
        """Let connections go on only now: each of their requests is handled at once, so a Pause is heard (L7)."""
        if self._is_waking:
            return
        self._is_waking = True
        try:
            while self._woken and not self._is_stopping:
                number, go_on = next(iter(self._woken))
                del self._woken[number, go_on]
                self._with(number, go_on)
        finally:
            self._is_waking = False

    def _wake_later(self, number: int, go_on: Callable[[Client], None]) -> None:
        self._woken[number, go_on] = None

    def _pause(self, effect: Pause) -> None:
        self._woken.pop((effect.connection, Client.resume), None)
        self._with(effect.connection, Client.pause)

    def _handle(self, event: Event) -> list[Effect]:
        return self._core.handle(event, now=Moment(self._clock.now_ms(), self._clock.monotonic()))

    def joined(self, client: Client) -> int | None:
        """The number of a new connection; None where there are too many already."""
        if len(self._clients) >= self._connections_max:
            return None
        self._next_number += 1
        self._clients[self._next_number] = client
        return self._next_number

    def left(self, number: int) -> None:
        if self._clients.pop(number, None):
            self.happened(ConnectionClosed(number))

    def _with(self, number: int, do: Callable[[Client], None]) -> None:
        client = self._clients.get(number)
        if client:
            do(client)

    def _reply(self, effect: Reply) -> None:
        client = self._clients.get(effect.connection)
        if client:
            client.send(effect)

    def _close(self, effect: Close) -> None:
        client = self._clients.get(effect.connection)
        if client:
            sys.stderr.write(f"closed the connection from {client.peer}: {effect.reason}\n")
            client.end()

    def _flush(self, effect: Flush) -> None:
        future = self._loop.run_in_executor(self._flusher, effect.run)
        future.add_done_callback(lambda done: self._flushed(done.exception()))

    def _flushed(self, error: BaseException | None) -> None:
        if error:
            self._fail(error)
        else:
            self.happened(FlushCompleted())

    def _work(self, effect: Work) -> None:
        future = self._loop.run_in_executor(self._readers, effect.run)
        future.add_done_callback(lambda done: self._worked(effect.ticket, done))

    def _worked(self, ticket: int, done: asyncio.Future[object]) -> None:
        error = done.exception()
        if error:
            self._fail(error)
        else:
            self.happened(WorkCompleted(ticket, done.result()))

    def _set_timer(self, effect: Timer) -> None:
        if self._timer:
            self._timer.cancel()
        wait = max(0.0, effect.at - self._clock.monotonic())
        self._timer = self._loop.call_later(wait, self.happened, TimerFired())

    def _fail(self, error: BaseException) -> None:
        self._idle.set()
        if not self.failed.done():
            self.failed.set_exception(error)

    async def stop(self) -> None:
        """Take no more requests, and finish what was appended: a round that runs is never left before its end."""
        for client in self._clients.values():
            client.pause()
        self._is_stopping = True
        if not self._core.is_idle and not self.failed.done():
            await self._idle.wait()
        for client in list(self._clients.values()):
            client.end()
        await asyncio.sleep(0)

    def close(self, node: Node) -> None:
        """Let go of the log; after a failed sync as it is, for the next start to judge."""
        self._flusher.shutdown()
        self._readers.shutdown()
        if self.failed.done():
            self.failed.result()
        node.close()


class Client(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._intake: Intake | None = None
        self._number = 0
        self._is_reading = True
        self._is_blocked = False
        self._unreported = 0
        self.peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = str(transport.get_extra_info("peername"))
        self._transport.set_write_buffer_limits(high=SMALL_FRAME_BYTES)
        number = self._server.joined(self)
        if number is None:
            sys.stderr.write(f"refused a connection from {self.peer}: max_connections are open\n")
            self._transport.abort()
        else:
            self._number = number
            self._intake = Intake(number, happened=self._server.happened, scratch=self._server.scratch)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._transport = self._intake = None
        self._server.left(self._number)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio's signature
        return self._intake.room() if self._intake else self._server.scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self._intake:
            self._intake.received(nbytes)
            self._read_or_not()

    def eof_received(self) -> bool:
        return False

    def admit(self) -> None:
        self._change(Intake.admit)

    def pause(self) -> None:
        self._change(Intake.pause)

    def resume(self) -> None:
        self._change(Intake.resume)

    def _change(self, change: Callable[[Intake], None]) -> None:
        if self._intake:
            change(self._intake)
            self._read_or_not()

    def _read_or_not(self) -> None:
        """Read exactly while something can be done with what is read."""
        if self._transport is None or self._intake is None or self._transport.is_closing():
            return
        if self._intake.wants_bytes != self._is_reading:
            self._is_reading = self._intake.wants_bytes
            if self._is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def send(self, effect: Reply) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.writelines(effect.buffers)
        self._unreported += sum(map(len, effect.buffers))
        if not self._is_blocked and self._unreported > UNREPORTED_BYTES_MAX:
            self._report_drained()

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._report_drained()

    def _report_drained(self) -> None:
        self._unreported = 0
        self._server.happened(ConnectionDrained(self._number))

    def end(self) -> None:
        if self._transport:
            self._transport.abort()


def check_loopback(host: str, *, allow_remote: bool) -> None:
    """Without passwords nobody else may reach the log, unless the user says that this is meant."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise fail(CallerError, "listen-unreadable", value=host) from None
    if address.is_unspecified:
        raise fail(CallerError, "listen-unspecified", host=host)
    if not (address.is_loopback or allow_remote):
        raise fail(CallerError, "listen-not-loopback", host=host)


async def _listen(server: Server, config: BrokerConfig) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(lambda: Client(server), config.host, config.port, backlog=512)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise fail(CallerError, "port-taken", host=config.host, port=config.port) from error
        raise fail(CallerError, "listen-failed", host=config.host, port=config.port, reason=error) from error


async def serve(config: BrokerConfig, *, clock: Clock, announce: Announce, stop: asyncio.Event) -> None:
    """Run a broker until `stop` is set; `announce` is told the address once connections are accepted."""
    node = open_node(config, files=RealFiles(), now_ms=clock.now_ms())
    server = Server(Core(node), clock=clock, connections_max=config.max_connections)
    try:
        for problem in node.problems:
            sys.stderr.write(f"{problem}\n")
        listening = await _listen(server, config)
        host, port = listening.sockets[0].getsockname()[:2]
        node.config = replace(config, host=host, port=port)
        announce(host, port)
        stopped = asyncio.ensure_future(stop.wait())
        server.failed.add_done_callback(lambda _: stopped.cancel())
        await asyncio.wait({stopped})
        listening.close()
        await server.stop()
    finally:
        server.close(node)


def run(config: BrokerConfig, *, clock: Clock, announce: Announce) -> None:
    """Run a broker in this thread until SIGTERM or SIGINT, on uvloop where it is installed."""

    async def until_signalled() -> None:
        stop = asyncio.Event()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(config, clock=clock, announce=announce, stop=stop)

    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(until_signalled())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None
