"""Find the records on which a function raises, by cutting the batch into parts until each culprit stands alone.

A run that raises costs about twenty times one that does not (Spark tries its task four times, each in a new Python
worker), so parts are cut into eight and not into two: fewer runs raise for each culprit.
Worst case: for each culprit one run that raises, and seven that do not, per factor eight of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

Item = TypeVar("Item")

PARTS = 8
PROBES = 8
"""Records spread over a batch: where each of them raises alone, all are taken to."""
PROBED_FROM = 10
"""In a batch of fewer records every culprit is looked for."""


class TooManyCulprits(Exception):  # says what was found, and is caught one level up
    """More records raise than may be set aside."""


def find_culprits(
    items: Sequence[Item], *, raises: Callable[[Sequence[Item]], str | None], most: int
) -> dict[Item, str]:
    """The items that raise when run alone, with what was said; `raises` runs some and returns what went wrong.

    >>> find_culprits([1, 2, 3, 4], raises=lambda some: "three" if 3 in some else None, most=9)
    {3: 'three'}
    """
    if len(items) >= PROBED_FROM and all(raises([item]) is not None for item in _spread(items)):
        raise TooManyCulprits
    found: dict[Item, str] = {}
    waiting = [items]
    while waiting:
        some = waiting.pop()
        said = raises(some) if some else None
        if said is None:
            continue
        if len(some) == 1:
            found[some[0]] = said
        else:
            waiting += _parts(some)
        if len(found) > most:
            raise TooManyCulprits
    return found


def _spread(items: Sequence[Item]) -> list[Item]:
    return [items[at * (len(items) - 1) // (PROBES - 1)] for at in range(PROBES)]


def _parts(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Up to eight parts of about one size, the last first."""
    edges = [at * len(items) // PARTS for at in range(PARTS + 1)]
    return [items[start:end] for start, end in pairwise(edges)][::-1]
