"""Numbers for idempotent producers, in blocks that are reserved durably before the first of a block is given out.

L3   A producer id is never given out twice, across crashes too: a start begins behind the last reserved block.
Cost: a crash wastes what was left of a block, of 2^63 numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.core.units import ProducerId
from penstock.protocol.apis import KafkaError

BLOCK = 1000

Answer = Callable[[ProducerId | KafkaError], None]


@dataclass(slots=True)
class ProducerIds:
    """Ids from `_next` on, below `_end`; those who ask while a block is being reserved wait for it."""

    _next: int = 0
    _end: int = 0
    _waiting: deque[Answer] = field(default_factory=deque)

    def resume(self, *, reserved_end: int) -> None:
        """Begin behind everything that was ever reserved."""
        self._next = self._end = reserved_end

    def take(self, answer: Answer) -> int | None:
        """Answer with an id, at once or once a block is reserved; gives the end of the block to reserve, if any."""
        if self._next < self._end:
            answer(self._take())
            return None
        self._waiting.append(answer)
        return self._end + BLOCK if len(self._waiting) == 1 else None

    def _take(self) -> ProducerId:
        self._next += 1
        return ProducerId(self._next - 1)

    def reserved(self, *, end: int) -> int | None:
        """A block became durable; gives the end of the next one if even this was not enough."""
        self._end = end
        while self._waiting and self._next < self._end:
            self._waiting.popleft()(self._take())
        return self._end + BLOCK if self._waiting else None

    def refused(self, error: KafkaError) -> None:
        """The block could not be reserved: whoever waits is told to come again."""
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            answer(error)
