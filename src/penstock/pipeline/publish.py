"""Publish what batches said to other topics: rejected records to `<topic>.rejected`, conflicts to `<topic>.conflicts`.

V3   A message is in the database exactly when its batch is committed; from there it is published at least once, with
     the header `source-position` the same each time, and forgotten when the log has acknowledged it. One that is
     larger than its topic takes goes without the record's key and value, and a header says so.
The batch's path never waits for this: it runs in a thread of its own, with a database session of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, RetryError, fail
from penstock.core.units import Offset
from penstock.core.values import OffsetRange
from penstock.pipeline.intake import Refusal
from penstock.protocol.client import Client
from penstock.protocol.scan import Bytes, scan
from penstock.views import outbox
from penstock.views.connection import Database
from penstock.views.fence import Registered
from penstock.views.outbox import Message

_SUFFIX = {"rejected": "rejected", "conflict": "conflicts"}
_RETRY_S = 1.0
_FLUSH_S = 10.0
NEAR = 1_000
FETCH_BYTES = 8 * 1024 * 1024
FETCH_BYTES_EACH = 1024


def messages_of(refusals: Sequence[Refusal], *, client: Client, pipeline: str) -> Iterator[Message]:
    """Fetch the records that were refused, as they are in the log, and say why."""
    by_place = sorted(refusals, key=lambda refusal: refusal.position)
    for (topic, partition), group in groupby(by_place, key=lambda refusal: refusal.position[:2]):
        wanted = {refusal.position[2]: refusal for refusal in group}
        for start, end in _runs(wanted):
            for offset, key, value in _records(OffsetRange(topic, partition, start, end), wanted, client=client):
                refusal = wanted[offset]
                yield Message(
                    target=f"{topic}.{_SUFFIX[refusal.outcome]}",
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    key=key,
                    value=value,
                    headers=(("reason", refusal.reason), ("detail", refusal.detail), ("pipeline", pipeline)),
                )


def _records(
    place: OffsetRange, wanted: Collection[Offset], *, client: Client
) -> Iterator[tuple[Offset, bytes | None, bytes | None]]:
    """Offset, key and value of the wanted records of a range."""
    offsets = np.fromiter(wanted, np.int64)
    # A fetch brings as much as it may, so a short range asks for little; a whole batch comes in any case.
    for batches in client.read_range(place, max_bytes=min(FETCH_BYTES, FETCH_BYTES_EACH * (place.end - place.start))):
        found = scan([batches], start=place.start, end=place.end)
        for row in np.flatnonzero(np.isin(found.offsets, offsets)):
            key = _slice(found.payload, found.key_start[row], found.key_length[row])
            value = _slice(found.payload, found.value_start[row], found.value_length[row])
            yield Offset(int(found.offsets[row])), key, value


def _slice(payload: Bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else payload[start : start + length].tobytes()


def _runs(offsets: Iterable[Offset]) -> Iterator[tuple[Offset, Offset]]:
    """Offsets that are near each other as ranges, end exclusive: passing over a few is quicker than asking again.

    >>> list(_runs([4, 5, 900, 5000]))
    [(4, 901), (5000, 5001)]
    """
    ordered = sorted(offsets)
    starts = [at for at, offset in enumerate(ordered) if at == 0 or offset - ordered[at - 1] > NEAR]
    for first, after in pairwise([*starts, len(ordered)]):
        yield ordered[first], Offset(ordered[after - 1] + 1)


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
        self._bootstrap = bootstrap
        self._producer = self._connect()
        self._too_large: set[int] = set()
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
        self._thread.join(timeout=2 * _FLUSH_S)
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

    def _connect(self) -> Producer:
        """What is large is for the topic to refuse, and not for this side."""
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "message.max.bytes": 1_000_000_000,
                "log_level": 0,
                "linger.ms": 2,
            }
        )

    def _publish_some(self) -> bool:
        """Publish the oldest messages, and forget those that are on the log; the others are an error."""
        waiting = outbox.pending(self._database, self._registered)
        failed = {number: "no answer" for number, _ in waiting}
        for number, message in waiting:
            self._produce(number, message, failed)
        self._producer.flush(_FLUSH_S)
        outbox.forget(self._database, self._registered, ids=[number for number, _ in waiting if number not in failed])
        if failed:
            # What the old one still holds would be sent beside what is sent again; and it may be of no use for ever.
            self._producer.purge()
            self._producer = self._connect()
            raise fail(RetryError, "outbox-not-published", count=len(failed), reason=next(iter(failed.values())))
        return bool(waiting)

    def _produce(self, number: int, message: Message, failed: dict[int, str]) -> None:
        """Hand a message over; where the topic found it too large, without what the record holds."""

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                del failed[number]
            else:
                self._failed(number, error, failed)

        is_whole = number not in self._too_large
        note = () if is_whole else (("left-out", "key and value: more than the topic takes"),)
        try:
            self._producer.produce(
                message.target,
                key=message.key if is_whole else None,
                value=message.value if is_whole else None,
                headers=[(name, text.encode()) for name, text in (*message.all_headers, *note)],
                on_delivery=delivered,
            )
        except BufferError as error:
            failed[number] = str(error)
        except KafkaException as error:
            self._failed(number, error.args[0], failed)
        self._producer.poll(0)

    def _failed(self, number: int, error: KafkaError, failed: dict[int, str]) -> None:
        failed[number] = str(error)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._too_large.add(number)
