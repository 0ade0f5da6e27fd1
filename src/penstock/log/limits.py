"""How large the parts of the log may grow."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.log.producers import PRODUCERS_MAX


@dataclass(frozen=True, slots=True)
class LogLimits:
    """`segment_bytes` is what a partition starts with; its attribute of that name may change later.

    `reserve_bytes` is room on the disk that only the log's own records may use. With no `sync_threads` every
    sync runs in the thread that runs the round.
    """

    segment_bytes: int = 256 << 20
    index_bytes: int = 10 << 20
    tail_bytes: int = 4 << 20
    tails_bytes: int = 64 << 20
    reserve_bytes: int = 64 << 20
    producers_max: int = PRODUCERS_MAX
    sync_threads: int = 4
