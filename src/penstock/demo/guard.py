"""The process that ends the demo's parts when the demo itself is killed.

The demo writes the sessions of its parts as lines, `+17` for a part that lives and `-17` for one that has ended. The
pipe closes however the demo ends; what is still listed then gets SIGTERM, and SIGKILL after `GRACE_S`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable

from penstock.core.clock import Clock, RealClock
from penstock.demo.sessions import kill_session, members, signal_session

GRACE_S = 10.0
_POLL_S = 0.1


def left_over(lines: Iterable[str]) -> set[int]:
    """The sessions that live when the lines end.

    >>> left_over(["+7", "+9", "-7"])
    {9}
    """
    living: set[int] = set()
    for line in lines:
        session = int(line[1:])
        (living.add if line[0] == "+" else living.discard)(session)
    return living


def end_all(sessions: Iterable[int], *, clock: Clock) -> None:
    left = set(sessions)
    for session in left:
        signal_session(session, signal.SIGTERM)
    deadline = clock.monotonic() + GRACE_S
    while any(members(session) for session in left) and clock.monotonic() < deadline:
        clock.sleep(_POLL_S)
    for session in left:
        kill_session(session)


def main() -> None:
    end_all(left_over(sys.stdin), clock=RealClock())


if __name__ == "__main__":
    main()
