"""Cut the bytes of one connection into frames, as far as the core lets it.

A frame is a 4-byte size and that many bytes. A small one is copied out of the bytes that came; a large one is
announced, and once it is admitted its bytes go straight from the socket into a buffer of its own.

L7   Nothing is allocated for a size before the core has admitted it, and its buffer grows as the bytes come: from
     `BODY_BYTES_FIRST`, doubling. While the connection is paused at most `READ_BYTES` wait here.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.events import SMALL_FRAME_BYTES, Event, FrameAnnounced, RequestArrived

READ_BYTES = 256 * 1024
BODY_BYTES_FIRST = 1024**2
_SIZE_BYTES = 4


class Intake:
    """Bytes go into `room()`, then `received` says how many came. `scratch` may be shared: nothing stays in it."""

    def __init__(self, number: int, *, happened: Callable[[Event], None], scratch: memoryview) -> None:
        self._number = number
        self._happened = happened
        self._scratch = scratch
        self._rest = bytearray()
        self._needed = _SIZE_BYTES
        self._announced: int | None = None
        self._body: bytearray | None = None
        self._filled = 0
        self._is_paused = False

    @property
    def wants_bytes(self) -> bool:
        """Whether anything can be done with more bytes now."""
        return self._body is not None or self._may_cut

    @property
    def _may_cut(self) -> bool:
        return not self._is_paused and self._announced is None

    def room(self) -> memoryview:
        return self._scratch if self._body is None else memoryview(self._body)[self._filled :]

    def received(self, count: int) -> None:
        if self._body is not None:
            self._grow(self._body, count)
            self._cut_rest()
        elif self._rest or not self._may_cut:
            self._rest += self._scratch[:count]
            self._cut_rest()
        else:
            done = self._cut(self._scratch[:count])
            self._rest += self._scratch[done:count]

    def admit(self) -> None:
        """The announced frame may be read."""
        self._body = bytearray(min(self._announced or 0, BODY_BYTES_FIRST))
        self._filled = 0
        if self._rest:
            rest, self._rest = memoryview(self._rest), bytearray()
            self._rest += rest[self._start_body(rest) :]
            self._cut_rest()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._cut_rest()

    def _cut_rest(self) -> None:
        if len(self._rest) >= self._needed and self._may_cut:
            rest, self._rest = memoryview(self._rest), bytearray()
            self._rest += rest[self._cut(rest) :]

    def _cut(self, data: memoryview) -> int:
        """Hand over the whole frames at the front of the data; gives the bytes that are dealt with."""
        position = 0
        while self._may_cut and len(data) - position >= _SIZE_BYTES:
            start = position + _SIZE_BYTES
            size = int.from_bytes(data[position:start], "big", signed=True)
            if not 0 <= size <= SMALL_FRAME_BYTES:
                self._announced, self._needed = size, _SIZE_BYTES
                self._happened(FrameAnnounced(self._number, size))
                position = start + self._start_body(data[start:])
                continue
            if start + size > len(data):
                self._needed = _SIZE_BYTES + size
                return position
            position = start + size
            self._happened(RequestArrived(self._number, memoryview(bytes(data[start:position]))))
        self._needed = _SIZE_BYTES
        return position

    def _start_body(self, data: memoryview) -> int:
        """Move what is already here into the admitted frame's own buffer; gives how much that was."""
        moved = 0
        while self._body is not None and moved < len(data):
            count = min(len(data) - moved, len(self._body) - self._filled)
            self._body[self._filled : self._filled + count] = data[moved : moved + count]
            moved += count
            self._grow(self._body, count)
        return moved

    def _grow(self, body: bytearray, count: int) -> None:
        """More of a large frame is there; its buffer doubles, so that a claim alone takes no memory."""
        self._filled += count
        if self._filled == self._announced:
            self._body = self._announced = None
            self._happened(RequestArrived(self._number, memoryview(body)))
        elif self._filled == len(body):
            larger = bytearray(min(2 * len(body), self._announced or 0))
            larger[: len(body)] = body
            self._body = larger
