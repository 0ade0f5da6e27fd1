"""Find the records on which a function raises, by halving the batch until each stands alone.

Worst case: about two runs of the streams for each culprit and doubling of the batch; the number of culprits is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


class TooManyCulprits(Exception):  # says what was found, and is caught one level up
    """More records raise than may be set aside."""


def find_culprits(
    items: Sequence[Item], *, raises: Callable[[Sequence[Item]], str | None], most: int
) -> dict[Item, str]:
    """The items that raise when run alone, with what was said; `raises` runs some and returns what went wrong.

    >>> find_culprits([1, 2, 3, 4], raises=lambda some: "three" if 3 in some else None, most=9)
    {3: 'three'}
    """
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
            middle = len(some) // 2
            waiting += [some[middle:], some[:middle]]
        if len(found) > most:
            raise TooManyCulprits
    return found
