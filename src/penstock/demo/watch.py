"""Look at the ledger every few milliseconds, to see when the view covers what was sent.

The cut commits in one transaction with the view (law V3), so a cut that is seen is a view that can be read.
Limit: the looks cost a thirtieth of a core, which the pipeline does not get.
Worst case: while the database does not answer there are no looks, and ages grow until it does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType

from penstock.core.clock import Clock
from penstock.core.errors import RetryError
from penstock.core.units import Offset, PartitionId
from penstock.demo.freshness import RESOLUTION_MS, Freshness
from penstock.demo.traffic import TOPIC
from penstock.views.connection import Database

_ENDS = (
    "SELECT o.partition, o.next_offset FROM penstock.offsets o JOIN penstock.pipelines p ON p.id = o.pipeline"
    " WHERE p.name = %s AND o.topic = %s"
)
_AWAY_S = 0.2


def read_ends(database: Database, *, pipeline: str) -> dict[PartitionId, Offset]:
    """The next offset of every partition of the demo's topic that the pipeline has committed."""
    with database.errors():
        rows = database.connection.execute(_ENDS, (pipeline, TOPIC)).fetchall()
    return {PartitionId(partition): Offset(offset) for partition, offset in rows}


class Watch:
    """A thread that looks until the block ends; `ends` is what it saw last."""

    def __init__(self, url: str, *, pipeline: str, freshness: Freshness, clock: Clock) -> None:
        self._url = url
        self._pipeline = pipeline
        self._freshness = freshness
        self._clock = clock
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="demo-watch", daemon=True)
        self._failure: BaseException | None = None
        self.ends: Mapping[PartitionId, Offset] = {}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def covers(self, ends: Mapping[PartitionId, Offset]) -> bool:
        """Whether the view holds everything before those offsets."""
        return self.missing(ends) == 0

    def missing(self, ends: Mapping[PartitionId, Offset]) -> int:
        """How many records before those offsets the view does not hold."""
        return sum(max(0, end - self.ends.get(partition, 0)) for partition, end in ends.items())

    def check(self) -> None:
        """Raise what ended the thread early."""
        if self._failure is not None:
            raise self._failure

    def _look_on(self) -> None:
        try:
            with Database(self._url, application="penstock-demo-watch") as database:
                while not self._ending.is_set():
                    self._clock.sleep(RESOLUTION_MS / 1_000 if self._look(database) else _AWAY_S)
        except Exception as error:  # noqa: BLE001  # another thread raises it
            self._failure = error

    def _look(self, database: Database) -> bool:
        try:
            ends = read_ends(database, pipeline=self._pipeline)
        except RetryError:
            return False
        self._freshness.advance(ends, at=self._clock.monotonic())
        self.ends = ends
        return True
