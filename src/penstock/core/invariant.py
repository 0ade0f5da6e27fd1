"""State what must hold; a breach stops the work that met it instead of spreading."""

from __future__ import annotations

from penstock.core.errors import BugError, fail


def invariant(holds: object, claim: str, **seen: object) -> None:
    """Raise `BugError` naming the claim and what was seen instead.

    >>> invariant(1 < 2, "offsets grow", start=1, end=2)
    """
    if not holds:
        raise fail(BugError, "invariant-broken", claim=claim, seen=seen)
