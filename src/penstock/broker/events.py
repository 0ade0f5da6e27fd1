"""What happens to the broker and what it wants done: the whole border between its logic and the machine.

The core takes one event at a time and answers with effects in the order in which they must be done. It opens no socket
and no thread and reads no clock: a test plays the machine and compares the lists.
A round of flushing writes and syncs everything that was appended before it began; there is one round at a time, and the
next begins when it ends. What was appended shows to nobody before its round is done (L1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.units import TimestampMs
from penstock.protocol.batches import Buffer

SMALL_FRAME_BYTES = 64 * 1024
"""A frame up to this size is read without asking, and a reply up to this size counts as sent at once."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event is handled: the wall clock for timestamps, the monotonic one for deadlines."""

    wall_ms: TimestampMs
    monotonic: float


@dataclass(frozen=True, slots=True)
class FrameAnnounced:
    """The size of a frame over `SMALL_FRAME_BYTES` was read; its body waits in the socket until `Admit`."""

    connection: int
    size: int


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A whole frame without its size. The broker keeps its bytes, so nobody may write into them afterwards."""

    connection: int
    frame: memoryview


@dataclass(frozen=True, slots=True)
class ConnectionDrained:
    """All that was replied on a connection has left for the client."""

    connection: int


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    connection: int


@dataclass(frozen=True, slots=True)
class FlushCompleted:
    """The round of flushing is done."""


@dataclass(frozen=True, slots=True)
class WorkCompleted:
    """Blocking work has its result."""

    ticket: int
    result: object


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of the last `Timer` has come."""


Event = (
    FrameAnnounced | RequestArrived | ConnectionDrained | ConnectionClosed | FlushCompleted | WorkCompleted | TimerFired
)


@dataclass(frozen=True, slots=True)
class Reply:
    connection: int
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """End a connection; the reason is for the log of the process."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class Admit:
    """There is room for the announced frame: read its body."""

    connection: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Hand in no further request of this connection."""

    connection: int


@dataclass(frozen=True, slots=True)
class Resume:
    connection: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Run one round of flushing; `FlushCompleted` tells its end."""

    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Work:
    """Run something that blocks, away from the event loop; `WorkCompleted` brings what it returned."""

    ticket: int
    run: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timer:
    """Fire at this time of the monotonic clock, instead of at any time asked for before."""

    at: float


Effect = Reply | Close | Admit | Pause | Resume | Flush | Work | Timer
