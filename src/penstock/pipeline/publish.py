"""Publish what batches said to other topics: rejected records to `<topic>.rejected`, conflicts to `<topic>.conflicts`.

V3   A message is in the database exactly when its batch is committed; from there it is published at least once, with
     the header `source-position` the same each time, and forgotten when the log has acknowledged it.
The batch's path never waits for this: it runs in a thread of its own, with a database session of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from confluent_kafka import KafkaException, Producer

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, RetryError, fail
from penstock.core.units import Offset
from penstock.core.values import OffsetRange
from penstock.pipeline.intake import Refusal
from penstock.protocol.client import Client
from penstock.views import outbox
from penstock.views.connection import Database
from penstock.views.fence import Registered
from penstock.views.outbox import Message

_SUFFIX = {"rejected": "rejected", "conflict": "conflicts"}
_RETRY_S = 1.0
_FLUSH_S = 30.0


def messages_of(refusals: Sequence[Refusal], *, client: Client, pipeline: str) -> Iterator[Message]:
    """Fetch the records that were refused, as they are in the log, and say why."""
    by_place = sorted(refusals, key=lambda refusal: refusal.position)
    for (topic, partition), group in groupby(by_place, key=lambda refusal: refusal.position[:2]):
        wanted = {refusal.position[2]: refusal for refusal in group}
        for start, end in _runs(wanted):
            for record in client.read_records(OffsetRange(topic, partition, start, end)):
                refusal = wanted[record.offset]
                yield Message(
                    target=f"{topic}.{_SUFFIX[refusal.outcome]}",
                    topic=topic,
                    partition=partition,
                    offset=record.offset,
                    key=record.key,
                    value=record.value,
                    headers=(("reason", refusal.reason), ("detail", refusal.detail), ("pipeline", pipeline)),
                )


def _runs(offsets: Iterable[Offset]) -> Iterator[tuple[Offset, Offset]]:
    """Neighbouring offsets as ranges, end exclusive.

    >>> list(_runs([4, 5, 9]))
    [(4, 6), (9, 10)]
    """
    for _, group in groupby(enumerate(sorted(offsets)), key=lambda pair: pair[1] - pair[0]):
        run = [offset for _, offset in group]
        yield run[0], Offset(run[-1] + 1)


class Publisher:
    """Empties the outbox whenever it is nudged, and once more when it is closed."""

    def __init__(
        self,
        database: Database,
        registered: Registered,
        *,
        bootstrap: str,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self._database = database
        self._registered = registered
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, "linger.ms": 2}
        )
        self._clock = clock
        self._say = say
        self._nudged = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._nudged.set()
        self._thread.start()

    def nudge(self) -> None:
        self._nudged.set()

    def close(self) -> None:
        """Publish what is left; what the log does not take in time stays in the outbox for the next start."""
        self._is_closing = True
        self._nudged.set()
        self._thread.join(timeout=_FLUSH_S)
        self._database.close()

    def _run(self) -> None:
        while True:
            self._nudged.wait()
            self._nudged.clear()
            try:
                while self._publish_some():
                    pass
            except PenstockError as error:
                # Nothing is lost: what was not published stands in the database, and is sent again.
                self._say(f"pipeline {self._registered.name}: {error.message}; {error.next_step}")
                if not self._is_closing:
                    self._clock.sleep(_RETRY_S)
                    self._nudged.set()
            if self._is_closing and not self._nudged.is_set():
                return

    def _publish_some(self) -> bool:
        waiting = outbox.pending(self._database, self._registered)
        if not waiting:
            return False
        failed: list[str] = []
        for _, message in waiting:
            self._produce(message, failed)
        left = self._producer.flush(_FLUSH_S)
        if left or failed:
            raise fail(
                RetryError, "outbox-not-published", count=left + len(failed), reason=(failed or ["no answer"])[0]
            )
        outbox.forget(self._database, self._registered, ids=[number for number, _ in waiting])
        return True

    def _produce(self, message: Message, failed: list[str]) -> None:
        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(str(error))

        try:
            self._producer.produce(
                message.target,
                key=message.key,
                value=message.value,
                headers=[(name, text.encode()) for name, text in message.all_headers],
                on_delivery=delivered,
            )
        except (BufferError, KafkaException) as error:
            failed.append(str(error))
        self._producer.poll(0)
