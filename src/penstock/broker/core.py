"""The broker's logic: an event in, effects out; which handler answers which request, and in which order replies leave.

L1   What a handler appended shows and is answered for only after the `FlushCompleted` that covers it.
L7   Connections are paused and frames refused here, see `calls`; a malformed frame ends its own connection only.
Limit: requests of one connection are handled as they come, so only Produce gains from being sent ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from penstock.broker.calls import ADMITTED_BYTES_MAX, BODY_SECONDS, Admission, Call, Connection
from penstock.broker.events import (
    SMALL_FRAME_BYTES,
    Admit,
    Close,
    ConnectionClosed,
    ConnectionDrained,
    Effect,
    Event,
    FlushCompleted,
    FrameAnnounced,
    Moment,
    Pause,
    Reply,
    RequestArrived,
    Resume,
    TimerFired,
    WorkCompleted,
)
from penstock.broker.handlers import (
    api_versions,
    create_topics,
    delete_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from penstock.broker.node import Node
from penstock.core.errors import BugError, PenstockError
from penstock.protocol.apis import ApiKey, accepts
from penstock.protocol.frames import RequestHeader, decode_request_header

ANSWERS: MappingProxyType[ApiKey, Callable[[Node, Call, memoryview], None]] = MappingProxyType(
    {
        ApiKey.PRODUCE: produce.HANDLER.run,
        ApiKey.FETCH: fetch.HANDLER.run,
        ApiKey.LIST_OFFSETS: list_offsets.HANDLER.run,
        ApiKey.METADATA: metadata.run,
        ApiKey.OFFSET_COMMIT: offset_commit.HANDLER.run,
        ApiKey.OFFSET_FETCH: offset_fetch.HANDLER.run,
        ApiKey.FIND_COORDINATOR: find_coordinator.HANDLER.run,
        ApiKey.API_VERSIONS: api_versions.HANDLER.run,
        ApiKey.CREATE_TOPICS: create_topics.HANDLER.run,
        ApiKey.DELETE_TOPICS: delete_topics.HANDLER.run,
        ApiKey.INIT_PRODUCER_ID: init_producer_id.HANDLER.run,
    }
)


class Core:
    """One broker. `handle` is the only way in."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connections: dict[int, Connection] = {}
        self._admission = Admission(max(ADMITTED_BYTES_MAX, node.config.max_request_bytes))
        self._on: dict[type[Event], Callable[..., None]] = {
            RequestArrived: self._request_arrived,
            FlushCompleted: lambda _, __: node.flushed(),
            WorkCompleted: lambda event, _: node.worked(event.ticket, event.result),
            TimerFired: lambda _, now: node.deadlines.fire(now.monotonic),
            ConnectionDrained: self._connection_drained,
            ConnectionClosed: self._connection_closed,
            FrameAnnounced: self._frame_announced,
        }

    def handle(self, event: Event, *, now: Moment) -> list[Effect]:
        """What is to be done about this event, in this order."""
        self._on[type(event)](event, now)
        for connection in self._node.take_answered():
            self._send_answers(connection, now)
            self._pace(connection)
        return self._node.take_effects()

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was appended still waits to be durable."""
        return self._node.is_idle

    def _connection(self, number: int) -> Connection:
        if number not in self._connections:
            self._connections[number] = Connection(number)
        return self._connections[number]

    def _request_arrived(self, event: RequestArrived, now: Moment) -> None:
        connection = self._connection(event.connection)
        connection.body_came()
        if connection.is_closed:
            return
        try:
            self._answer(connection, event.frame, now)
        except BugError:
            raise
        except PenstockError as error:
            self._close(connection, str(error))
        if connection.calls and connection.calls[-1].reply is None:
            self._pace(connection)

    def _answer(self, connection: Connection, frame: memoryview, now: Moment) -> None:
        header, position = decode_request_header(frame)
        if accepts(header.key, header.version):
            call = _call(connection, header, now, size=len(frame))
            ANSWERS[call.api](self._node, call, frame[position:])
        elif header.key == ApiKey.API_VERSIONS:
            # The one answer that a client of any version can read.
            call = _call(connection, replace(header, version=0), now, size=len(frame))
            self._node.reply(call, api_versions.unknown_version())
        else:
            self._close(connection, f"api {header.key} version {header.version} is not offered")

    def _send_answers(self, connection: Connection, now: Moment) -> None:
        while (call := connection.take_answered()) is not None:
            if call.size > SMALL_FRAME_BYTES:
                self._admit(self._admission.release(connection, size=call.size), now)
            if call.reply and not connection.is_closed:
                self._node.do(Reply(connection.number, call.reply))
                self._node.sent(connection, size=sum(map(len, call.reply)))

    def _pace(self, connection: Connection) -> None:
        """Take requests exactly while there is room for them (L7)."""
        if connection.is_full != connection.is_paused and not connection.is_closed:
            connection.is_paused = connection.is_full
            number = connection.number
            self._node.do(Pause(number) if connection.is_paused else Resume(number))

    def _close(self, connection: Connection, reason: str) -> None:
        connection.is_closed = True
        self._node.do(Close(connection.number, reason))

    def _frame_announced(self, event: FrameAnnounced, now: Moment) -> None:
        connection = self._connection(event.connection)
        bytes_max = self._node.config.max_request_bytes
        if not 0 <= event.size <= bytes_max:
            self._close(connection, f"a frame of {event.size} bytes; max_request_bytes is {bytes_max}")
        elif self._admission.ask(connection, size=event.size):
            self._admit([connection], now)

    def _admit(self, connections: list[Connection], now: Moment) -> None:
        for connection in connections:
            overdue = partial(self._close, connection, f"a frame was not complete after {BODY_SECONDS:.0f} s")
            connection.body_deadline = self._node.deadlines.add(now.monotonic + BODY_SECONDS, overdue)
            self._node.do(Admit(connection.number))

    def _connection_drained(self, event: ConnectionDrained, now: Moment) -> None:  # noqa: ARG002  # as all events
        connection = self._connections.get(event.connection)
        if connection:
            self._node.drained(connection)
            self._pace(connection)

    def _connection_closed(self, event: ConnectionClosed, now: Moment) -> None:
        connection = self._connections.pop(event.connection, None)
        if connection:
            connection.is_closed = True
            connection.body_came()
            self._node.left(connection)
            self._admit(self._admission.forget(connection), now)


def _call(connection: Connection, header: RequestHeader, now: Moment, *, size: int) -> Call:
    api = ApiKey(header.key)
    call = Call(connection, api, header.version, header.correlation_id, header.client_id, now=now, size=size)
    connection.add(call)
    return call
