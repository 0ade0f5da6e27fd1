"""The latest batches of a partition in memory, so that readers at the end of the log cost no disk read.

L7   A partition's tail holds at most its limit, all tails together at most theirs; the batch just added is always held.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

from penstock.core.files import Buffer
from penstock.core.units import Offset

_JOIN_FROM = 16
_DROP_AT_ONCE = 64


class Tail:
    """Whole batches in a row: the last ones appended."""

    def __init__(self, *, bytes_max: int) -> None:
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._start: Offset | None = None
        self._ends: list[Offset] = []
        self._batches: list[Buffer] = []

    def add(self, batch: Buffer, *, base_offset: Offset, next_offset: Offset) -> None:
        if self._start is None:
            self._start = base_offset
        self._ends.append(next_offset)
        self._batches.append(batch)
        self.held_bytes += len(batch)
        while self.held_bytes > self._bytes_max and len(self._batches) > 1:
            self._drop_first(_DROP_AT_ONCE)

    def read(self, offset: Offset, *, end: Offset, max_bytes: int) -> list[Buffer] | None:
        """Batches from the one that holds `offset` on, none past `end`; None if they are not in memory."""
        if self._start is None or offset < self._start:
            return None
        first = bisect_right(self._ends, offset)
        last = self._take(first, bisect_right(self._ends, end), max_bytes)
        taken = self._batches[first:last]
        return [b"".join(taken)] if len(taken) >= _JOIN_FROM else taken

    def _take(self, first: int, limit: int, max_bytes: int) -> int:
        last, size = first, 0
        while last < limit and (last == first or size + len(self._batches[last]) <= max_bytes):
            size += len(self._batches[last])
            last += 1
        return last

    def drop_from(self, offset: Offset) -> None:
        """Forget batches that were taken back: those at `offset` and later."""
        kept = bisect_right(self._ends, offset)
        self.held_bytes -= sum(map(len, self._batches[kept:]))
        del self._ends[kept:], self._batches[kept:]
        if not kept:
            self._start = None

    def clear(self) -> None:
        self.drop_from(Offset(-1))

    def _drop_first(self, count: int) -> None:
        """Several at once: taking the first off a list moves all the others."""
        count = min(count, len(self._batches) - 1)
        self.held_bytes -= sum(map(len, self._batches[:count]))
        self._start = self._ends[count - 1]
        del self._ends[:count], self._batches[:count]


class TailMemory:
    """What all tails hold together; the tail unused for longest gives up all of its memory first."""

    def __init__(self, *, bytes_max: int) -> None:
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._tails: OrderedDict[Tail, None] = OrderedDict()

    def add(self, tail: Tail, batch: Buffer, *, base_offset: Offset, next_offset: Offset) -> None:
        before = tail.held_bytes
        tail.add(batch, base_offset=base_offset, next_offset=next_offset)
        self.held_bytes += tail.held_bytes - before
        self._tails[tail] = None
        self._tails.move_to_end(tail)
        while self.held_bytes > self._bytes_max and len(self._tails) > 1:
            self.release(next(iter(self._tails)))

    def drop_from(self, tail: Tail, offset: Offset) -> None:
        before = tail.held_bytes
        tail.drop_from(offset)
        self.held_bytes += tail.held_bytes - before

    def release(self, tail: Tail) -> None:
        """Forget all of one tail."""
        self._tails.pop(tail, None)
        self.held_bytes -= tail.held_bytes
        tail.clear()
