"""The broker on a machine: sockets, threads, timers and signals. The core decides, this file only does.

One event loop owns all state. Flushing has a thread of its own, cold reads share a few; both come back to the loop as
events. Bytes go from the socket into the buffer that the log keeps, and from there to readers, without a copy.

L1   A failed sync ends the process: nothing that was appended is acknowledged after it.
L7   A frame's size is judged before anything is allocated for it; its buffer grows as the bytes come. A connection that
     is paused, or whose client reads slowly, is not read from.
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
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

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
    FrameAnnounced,
    Moment,
    Pause,
    Reply,
    RequestArrived,
    Resume,
    Timer,
    TimerFired,
    Work,
    WorkCompleted,
)
from penstock.core.clock import Clock
from penstock.core.errors import CallerError, PenstockError, RetryError, fail

READ_BYTES = 256 * 1024
BODY_BYTES_FIRST = 1024**2
READ_THREADS = 2
STOP_SECONDS = 10.0
_SIZE_BYTES = 4

Announce = Callable[[str, int], None]


class Server:
    """Runs one core on one event loop."""

    def __init__(self, core: Core, *, clock: Clock, loop: asyncio.AbstractEventLoop, connections_max: int) -> None:
        self._core = core
        self._clock = clock
        self._loop = loop
        self._connections_max = connections_max
        self._clients: dict[int, Client] = {}
        self._next_number = 0
        self._events: deque[Event] = deque()
        self._is_handling = False
        self._timer: asyncio.TimerHandle | None = None
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="penstock-flush")
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="penstock-read")
        self.scratch = memoryview(bytearray(READ_BYTES))
        self.failed: asyncio.Future[None] = loop.create_future()
        self._do: dict[type[Effect], Callable[..., None]] = {
            Reply: self._reply,
            Close: self._close,
            Admit: lambda effect: self._with(effect.connection, Client.admit),
            Pause: lambda effect: self._with(effect.connection, Client.pause),
            Resume: lambda effect: self._with(effect.connection, Client.resume),
            Flush: self._flush,
            Work: self._work,
            Timer: self._set_timer,
        }

    def happened(self, event: Event) -> None:
        """Hand an event to the core and do what it wants, one event at a time."""
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._events:
                for effect in self._handle(self._events.popleft()):
                    self._do[type(effect)](effect)
        except Exception as error:  # noqa: BLE001  # whatever broke in the core, its state is not to be trusted
            self._fail(error)
        finally:
            self._is_handling = False

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
        if error is None or isinstance(error, RetryError):
            self.happened(FlushCompleted(error))
        else:
            self._fail(error)

    def _work(self, effect: Work) -> None:
        future = self._loop.run_in_executor(self._readers, effect.run)
        future.add_done_callback(lambda done: self._worked(effect.ticket, done))

    def _worked(self, ticket: int, done: asyncio.Future[object]) -> None:
        error = done.exception()
        self.happened(WorkCompleted(ticket, error if error is not None else done.result()))

    def _set_timer(self, effect: Timer) -> None:
        if self._timer:
            self._timer.cancel()
        wait = max(0.0, effect.at - self._clock.monotonic())
        self._timer = self._loop.call_later(wait, self.happened, TimerFired())

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    async def stop(self) -> None:
        """Take no more requests, finish what was appended, let go of the log."""
        for client in self._clients.values():
            client.pause()
        deadline = self._clock.monotonic() + STOP_SECONDS
        while not self._core.is_idle and not self.failed.done() and self._clock.monotonic() < deadline:
            await asyncio.sleep(0.001)
        for client in list(self._clients.values()):
            client.end()
        await asyncio.sleep(0)
        self._flusher.shutdown()
        self._readers.shutdown()


class Client(asyncio.BufferedProtocol):
    """One connection: cuts the bytes into frames and keeps to what the core says about reading on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._number = 0
        self._rest = bytearray()
        self._announced = 0
        self._body: bytearray | None = None
        self._filled = 0
        self._is_paused = False
        self._is_blocked = False
        self.peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a broker listens on stream sockets")
        self._transport = transport
        self.peer = str(transport.get_extra_info("peername"))
        transport.set_write_buffer_limits(high=SMALL_FRAME_BYTES)
        number = self._server.joined(self)
        if number is None:
            sys.stderr.write(f"refused a connection from {self.peer}: max_connections are open\n")
            transport.abort()
        self._number = number or 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._rest.clear()
        self._body = None
        self._server.left(self._number)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio's signature
        return self._server.scratch if self._body is None else memoryview(self._body)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._body is not None:
            self._grow(nbytes)
        elif self._rest or self._must_wait:
            self._rest += self._server.scratch[:nbytes]
            self._cut_rest()
        else:
            done = self._cut(self._server.scratch[:nbytes])
            self._rest += self._server.scratch[done:nbytes]
        self._read_or_not()

    def eof_received(self) -> bool:
        return False

    def _grow(self, nbytes: int) -> None:
        """More of a large frame is there; its buffer doubles, so that a claim alone takes no memory (L7)."""
        body = self._body or bytearray()
        self._filled += nbytes
        if self._filled == self._announced:
            self._body, self._announced = None, 0
            self._server.happened(RequestArrived(self._number, memoryview(body)))
        elif self._filled == len(body):
            larger = bytearray(min(2 * len(body), self._announced))
            larger[: len(body)] = body
            self._body = larger

    def _cut_rest(self) -> None:
        if self._rest and not self._must_wait:
            rest, self._rest = self._rest, bytearray()
            done = self._cut(memoryview(rest))
            self._rest += memoryview(rest)[done:]

    def _cut(self, data: memoryview) -> int:
        """Hand over the whole frames at the front of the data; gives the bytes that are dealt with."""
        position = 0
        while not self._must_wait and len(data) - position >= _SIZE_BYTES:
            size = int.from_bytes(data[position : position + _SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= SMALL_FRAME_BYTES:
                self._announced = size
                self._server.happened(FrameAnnounced(self._number, size))
                return position + _SIZE_BYTES + self._start_body(data[position + _SIZE_BYTES :])
            end = position + _SIZE_BYTES + size
            if end > len(data):
                break
            frame = memoryview(bytearray(data[position + _SIZE_BYTES : end]))
            position = end
            self._server.happened(RequestArrived(self._number, frame))
        return position

    def _start_body(self, data: memoryview) -> int:
        """Move what is already here into the admitted frame's own buffer."""
        if self._body is None or not data:
            return 0
        taken = min(len(data), self._announced, len(self._body))
        self._body[:taken] = data[:taken]
        self._grow(taken)
        return taken + (self._start_body(data[taken:]) if self._body is not None else 0)

    def admit(self) -> None:
        self._body = bytearray(min(self._announced, BODY_BYTES_FIRST))
        self._filled = 0
        if self._rest:
            rest, self._rest = self._rest, bytearray()
            done = self._start_body(memoryview(rest))
            self._rest += memoryview(rest)[done:]
            self._cut_rest()
        self._read_or_not()

    def pause(self) -> None:
        self._is_paused = True
        self._read_or_not()

    def resume(self) -> None:
        self._is_paused = False
        self._cut_rest()
        self._read_or_not()

    @property
    def _must_wait(self) -> bool:
        return self._is_paused or self._is_blocked or self._transport is None or (self._announced != 0)

    def _read_or_not(self) -> None:
        """Read exactly while something can be done with what is read."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._body is None and self._must_wait:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def send(self, effect: Reply) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.writelines(effect.buffers)
        if not self._is_blocked:
            self._server.happened(ConnectionDrained(self._number))

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._read_or_not()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._server.happened(ConnectionDrained(self._number))
        self._cut_rest()
        self._read_or_not()

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
    loop = asyncio.get_running_loop()
    core = Core.open(config, clock=clock)
    try:
        server = Server(core, clock=clock, loop=loop, connections_max=config.max_connections)
        listening = await _listen(server, config)
        host, port = listening.sockets[0].getsockname()[:2]
        core.advertise(replace(config, host=host, port=port))
        announce(host, port)
        await asyncio.wait({asyncio.ensure_future(stop.wait()), server.failed}, return_when=asyncio.FIRST_COMPLETED)
        listening.close()
        await server.stop()
        if server.failed.done():
            server.failed.result()
    finally:
        core.close()


def run(config: BrokerConfig, *, clock: Clock, announce: Announce) -> None:
    """Run a broker in this thread until SIGTERM or SIGINT, on uvloop where it is installed."""

    async def until_signalled() -> None:
        stop = asyncio.Event()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(config, clock=clock, announce=announce, stop=stop)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(until_signalled())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None
