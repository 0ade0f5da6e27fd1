"""Seeded choices for tests: the same seed gives the same choices on every machine and every Python.

Each draw is a hash of the seed and the number of the draw.
Limit: for tests, where a bias below one in 2**40 is no matter.
Worst case: about 1 us a draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Draws that only the seed decides.

    >>> Dice(7).below(1_000) == Dice(7).below(1_000)
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def below(self, end: int) -> int:
        """A number from 0 up to, and not including, `end`."""
        self._drawn += 1
        digest = hashlib.blake2b(f"{self._seed}:{self._drawn}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % end

    def between(self, start: int, end: int) -> int:
        return start + self.below(end - start)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def choose(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]
