"""Waiting, shown: what is waited for, for how long, and an end to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.demo.screen import Display, Stage

_POLL_S = 0.1


@contextmanager
def staged(what: str, *, display: Display, clock: Clock) -> Iterator[None]:
    """Show that something begins, and when it is done."""
    begun = clock.monotonic()
    display.stage(Stage(what, 0.0))
    yield
    display.stage(Stage(what, clock.monotonic() - begun, is_done=True))


def wait_until(
    is_done: Callable[[], bool],
    *,
    what: str,
    timeout_s: float,
    failure: Callable[[], PenstockError],
    display: Display,
    clock: Clock,
) -> None:
    """Ask until it is done; what `is_done` raises ends the wait, and after `timeout_s` so does `failure`."""
    begun = clock.monotonic()
    while not is_done():
        seconds = clock.monotonic() - begun
        if seconds > timeout_s:
            raise failure()
        display.stage(Stage(what, seconds))
        clock.sleep(_POLL_S)
    display.stage(Stage(what, clock.monotonic() - begun, is_done=True))
