"""The machine's side of a connection, on a transport that is played by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.broker.events import TimerFired, WorkCompleted
from penstock.broker.server import Client, Server
from penstock.protocol.frames import request_frame
from penstock.protocol.messages.fetch import FetchRequest
from tests.unit.broker.machine import Machine, batch, fetch_request, produce_request


class Wire(asyncio.Transport):
    """Takes whatever is sent, and counts the replies."""

    replies = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.replies += any(map(len, list_of_data))

    def abort(self) -> None: ...


def connected(server: Server) -> tuple[Client, Wire]:
    client, wire = Client(server), Wire()
    client.connection_made(wire)
    return client, wire


def come(client: Client, *requests: FetchRequest) -> None:
    """All of these requests arrive in one piece."""
    frames = [request_frame(request, version=11, correlation_id=1, client_id="test") for request in requests]
    data = b"".join(b"".join(frame) for frame in frames)
    client.get_buffer(-1)[: len(data)] = data
    client.buffer_updated(len(data))


def test_l7_of_requests_sent_ahead_none_is_taken_behind_a_fetch(machine: Machine) -> None:
    """Whoever took all three at once would end them all when the time of the first is over twice."""
    machine.make_topic()
    seen = []

    async def play() -> None:
        server = Server(machine.core, clock=machine.clock, connections_max=1)
        client, wire = connected(server)
        come(client, *[fetch_request(0, max_wait_ms=100)] * 3)
        for _ in range(3):
            machine.clock.advance(0.1)
            server.happened(TimerFired())
            seen.append(wire.replies)

    asyncio.run(play())
    assert seen == [1, 2, 3]


def test_a_broker_that_failed_stops_without_waiting_for_what_will_never_be_durable(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"a")), version=9)

    async def play() -> None:
        server = Server(machine.core, clock=machine.clock, connections_max=1)
        server.failed.set_exception(OSError("the disk is gone"))
        await asyncio.wait_for(server.stop(), 5)
        assert server.failed.exception()

    asyncio.run(play())


def test_a_failure_while_the_broker_stops_ends_the_stop(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"a")), version=9)

    async def play() -> None:
        server = Server(machine.core, clock=machine.clock, connections_max=1)
        stopping = asyncio.ensure_future(server.stop())
        asyncio.get_running_loop().call_soon(server.happened, WorkCompleted(77, None))
        await asyncio.wait_for(stopping, 5)
        assert isinstance(server.failed.exception(), KeyError)

    asyncio.run(play())
