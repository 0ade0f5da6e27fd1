"""Requests between their arrival and their reply: in order per connection, bounded per connection and in all.

L7   A connection holds at most `IN_FLIGHT_MAX` requests of `HELD_BYTES_MAX` bytes together, or one larger one; no
     request is taken behind a Fetch, nor while a large reply is still on its way to a slow reader. Large frames of all
     connections together fit in `Admission.bytes_max`.
Worst case: a client that announces large frames and sends none holds room from the others until `BODY_SECONDS` pass.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.broker.deadlines import Deadline
from penstock.broker.events import SMALL_FRAME_BYTES, Moment
from penstock.protocol.apis import ApiKey
from penstock.protocol.batches import Buffer

IN_FLIGHT_MAX = 32
HELD_BYTES_MAX = 8 * 1024**2
ADMITTED_BYTES_MAX = 256 * 1024**2
BODY_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Call:
    """One request. `reply` is None until it is answered, and empty where the client awaits no answer."""

    connection: Connection
    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    now: Moment
    size: int
    reply: tuple[Buffer, ...] | None = None


@dataclass(slots=True, eq=False)
class Connection:
    """What one client has asked and not been told yet, oldest first."""

    number: int
    calls: deque[Call] = field(default_factory=deque)
    held: int = 0
    undrained: int = 0
    admitted: int = 0
    is_paused: bool = False
    is_closed: bool = False
    body_deadline: Deadline | None = None

    def body_came(self) -> None:
        """The frame that was awaited is whole, or will never be."""
        if self.body_deadline:
            self.body_deadline.cancel()
            self.body_deadline = None

    def add(self, call: Call) -> None:
        self.calls.append(call)
        self.held += call.size

    def take_answered(self) -> Call | None:
        """The oldest request, if its answer is there: answers leave in the order of the requests."""
        if not self.calls or self.calls[0].reply is None:
            return None
        call = self.calls.popleft()
        self.held -= call.size
        return call

    @property
    def is_full(self) -> bool:
        if self.undrained > SMALL_FRAME_BYTES or self.held >= HELD_BYTES_MAX or len(self.calls) >= IN_FLIGHT_MAX:
            return True
        return bool(self.calls) and self.calls[-1].api is ApiKey.FETCH


@dataclass(slots=True)
class Admission:
    """Room for the large frames of all connections; who finds none waits in order."""

    bytes_max: int
    _used: int = 0
    _waiting: deque[tuple[Connection, int]] = field(default_factory=deque)

    def ask(self, connection: Connection, *, size: int) -> bool:
        """Whether the frame may be read now; if not, `release` will name the connection later."""
        if self._waiting or not self._fits(size):
            self._waiting.append((connection, size))
            return False
        self._grant(connection, size)
        return True

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self.bytes_max

    def _grant(self, connection: Connection, size: int) -> None:
        self._used += size
        connection.admitted += size

    def release(self, connection: Connection, *, size: int) -> list[Connection]:
        """Give room back, once; these connections may read their frames now."""
        size = min(size, connection.admitted)
        self._used -= size
        connection.admitted -= size
        admitted = []
        while self._waiting and self._fits(self._waiting[0][1]):
            waiting, wanted = self._waiting.popleft()
            self._grant(waiting, wanted)
            admitted.append(waiting)
        return admitted

    def forget(self, connection: Connection) -> list[Connection]:
        """A connection is gone: it waits no more, and what it held is free."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not connection)
        return self.release(connection, size=connection.admitted)
