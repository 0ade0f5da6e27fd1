"""The producer: sends what is due by the clock, and never waits for an answer before the next is due.

The loop is open: message `n` is due at `start + n / rate` whatever became of those before it, and its age counts from
then. It looks every few milliseconds what is due, and that delay counts too. While the log is away the client keeps
what it could not send; when its buffer is full as well, messages go out late and their ages say so.
The client is confluent-kafka with idempotence, so what it sends again after a lost answer is stored once.
Worst case: a message that the log has not taken for `GIVE_UP_S` fails the demo.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from penstock.core.clock import Clock
from penstock.core.errors import RetryError, fail
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.demo.freshness import SAMPLES_PER_S_MAX, Freshness
from penstock.demo.traffic import TOPIC, Message, Traffic
from penstock.demo.truth import HEADER, Found, Truth

GIVE_UP_S = 300
STEP_MAX = 1_000
"""Messages handed over before delivery reports are served again."""
PACE_S = 0.005
"""How often it looks what is due. A wake-up for each message would take most of a core at 1,000 a second."""

Delivered = Callable[[PartitionId, Offset], None]


class Sink(Protocol):
    """Where messages go."""

    def send(self, message: Message, *, timestamp_ms: TimestampMs, delivered: Delivered) -> bool:
        """Hand it over; False where there is no room just now."""
        ...

    def serve(self) -> None:
        """Call what waits for delivery and is delivered; raise where a message failed."""
        ...

    def waiting(self) -> int: ...


class KafkaSink:
    """An unmodified Kafka client."""

    def __init__(self, bootstrap: str, *, log: Path) -> None:
        self._log = log
        self._failure: str | None = None
        quiet = logging.getLogger("penstock.demo.sender")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "penstock-demo",
                "enable.idempotence": True,
                "linger.ms": 10,
                "message.timeout.ms": GIVE_UP_S * 1_000,
                "queue.buffering.max.messages": 1_000_000,
                # The log is away for seconds in a drill; the default would wait up to ten more.
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 250,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 250,
            },
            logger=quiet,
        )

    def send(self, message: Message, *, timestamp_ms: TimestampMs, delivered: Delivered) -> bool:
        def report(error: KafkaError | None, record: Report) -> None:
            partition, offset = record.partition(), record.offset()
            if error is not None or partition is None or offset is None:
                self._failure = self._failure or str(error)
            else:
                delivered(PartitionId(partition), Offset(offset))

        try:
            self._producer.produce(
                TOPIC,
                key=message.key,
                value=message.value,
                timestamp=timestamp_ms,
                headers=[(HEADER, message.kind.encode())],
                on_delivery=report,
            )
        except BufferError:
            return False
        except KafkaException as error:
            raise fail(RetryError, "demo-record-refused", reason=error, log=self._log) from error
        return True

    def serve(self) -> None:
        self._producer.poll(0)
        if self._failure is not None:
            raise fail(RetryError, "demo-record-refused", reason=self._failure, log=self._log)

    def waiting(self) -> int:
        return len(self._producer)


class Sender:
    """Sends `traffic` into `sink` at `rate` a second from `begin` on; counts what the log took in `truth`."""

    def __init__(
        self, traffic: Traffic, sink: Sink, *, rate: int, truth: Truth, freshness: Freshness, clock: Clock
    ) -> None:
        self._traffic = traffic
        self._sink = sink
        self._rate = rate
        self.truth = truth
        self._freshness = freshness
        self._clock = clock
        self._every = max(1, rate // SAMPLES_PER_S_MAX)
        self.truth_lock = threading.Lock()
        self.begun = clock.monotonic()
        self._begun_ms = clock.now_ms()
        self._next: Message | None = None
        self.sent = 0

    def step(self) -> float:
        """Send what is due; the answer is how many seconds are left until the next is due."""
        for _ in range(STEP_MAX):
            intended = self.begun + self.sent / self._rate
            wait = intended - self._clock.monotonic()
            if wait > 0:
                return wait
            if not self._send(self.sent, intended=intended):
                return PACE_S
            self.sent += 1
        return 0.0

    def run(self, until: Callable[[], bool]) -> None:
        """Send until told to stop."""
        while not until():
            wait = self.step()
            self._sink.serve()
            if wait > 0:
                self._clock.sleep(PACE_S)

    def serve(self) -> None:
        """Take in the delivery reports that are there."""
        self._sink.serve()

    def waiting(self) -> int:
        """Messages that the log has not taken yet."""
        return self._sink.waiting()

    def _send(self, number: int, *, intended: float) -> bool:
        since_ms = (intended - self.begun) * 1_000
        # One for which there was no room is kept: it has its place in the traffic already.
        message = self._next or self._traffic.message(number, now_us=int((self._begun_ms + since_ms) * 1_000))
        is_sample = number % self._every == 0
        if is_sample:
            self._freshness.sent(number, intended=intended)

        def delivered(partition: PartitionId, offset: Offset) -> None:
            with self.truth_lock:
                self.truth.add(partition, Found(offset, message.kind, message.value))
            if is_sample:
                self._freshness.delivered(number, partition=partition, offset=offset)

        timestamp_ms = TimestampMs(int(self._begun_ms + since_ms))
        is_sent = self._sink.send(message, timestamp_ms=timestamp_ms, delivered=delivered)
        self._next = None if is_sent else message
        return is_sent


class Sending:
    """The sender in a thread of its own, until the block ends; what it raised is raised by `check`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="demo-sender", daemon=True)

    def __enter__(self) -> Sending:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def join(self) -> None:
        """Wait until the thread has ended by itself."""
        self._thread.join()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._sender.run(self._ending.is_set)
        except Exception as error:  # noqa: BLE001  # another thread raises it
            self._failure = error
