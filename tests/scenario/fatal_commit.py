"""`python fatal_commit.py PLACE NUMBER ...`: the command `penstock ...`, which kills itself -9 in its NUMBER-th commit.

PLACE says where: `before` the transaction, `inside` it when identities are stored and nothing is folded yet, `after`
its COMMIT when nobody was told yet, or `published` when refused records are on the log and not forgotten yet.
The whole process group dies, Java included. The product knows nothing of this: its functions are wrapped from outside.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from penstock.cli.app import main
from penstock.views import commit, outbox

P = ParamSpec("P")
R = TypeVar("R")


def fatal(function: Callable[P, R], *, call: int, is_done_first: bool) -> Callable[P, R]:
    """The same function, whose `call`-th call is the last thing that happens in this process."""
    calls = 0

    def wrapped(*arguments: P.args, **named: P.kwargs) -> R:
        nonlocal calls
        calls += 1
        is_last = calls == call
        if is_last and not is_done_first:
            os.killpg(0, signal.SIGKILL)
        result = function(*arguments, **named)
        if is_last:
            os.killpg(0, signal.SIGKILL)
        return result

    return wrapped


def arm(place: str, *, call: int) -> None:
    match place:
        case "before":
            commit._check_balance = fatal(commit._check_balance, call=call, is_done_first=False)
        case "inside":
            commit._fold = fatal(commit._fold, call=call, is_done_first=False)
        case "after":
            commit._transact = fatal(commit._transact, call=call, is_done_first=True)
        case "published":
            outbox.forget = fatal(outbox.forget, call=call, is_done_first=False)


if __name__ == "__main__":
    arm(sys.argv[1], call=int(sys.argv[2]))
    main(sys.argv[3:])
