"""The broker is killed with -9, again and again, under an unmodified idempotent producer and a reader."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from penstock.core.clock import RealClock
from penstock.testing.broker import BrokerProcess, start_broker
from penstock.testing.history import EndSeen, Operation, Read, Written, find_anomalies

KILLS = 10
PARTITIONS = 2
SECONDS = 60.0
SEED = 20_261_119
FAST_RETRIES = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}


class Progress:
    """Ends the test, telling what the broker's threads do, where something that should grow stands still."""

    def __init__(self, broker: BrokerProcess, *, of: str) -> None:
        self._broker = broker
        self._of = of
        self._clock = RealClock()
        self._count = -1
        self._since = 0.0

    def check(self, count: int) -> None:
        now = self._clock.monotonic()
        if count > self._count:
            self._count, self._since = count, now
        elif now - self._since > SECONDS:
            ended = self._broker.process.poll()
            state = "runs" if ended is None else f"ended with status {ended}"
            if ended is None:
                self._broker.abort()
            pytest.fail(f"{self._of} stood still at {count} for {SECONDS:.0f} s; the broker {state}")


class Drill:
    """A producer that sends numbered values and keeps a history, and a reader that follows."""

    def __init__(self, address: str) -> None:
        self.history: list[Operation] = []
        self.acknowledged = 0
        self.sent = 0
        self.followed = 0
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "retry.backoff.ms": 10,
                "message.timeout.ms": 120_000,
                "error_cb": not_fatal,
                **FAST_RETRIES,
            }
        )
        self._reader = reader(address)

    def send(self) -> None:
        value = b"%09d" % self.sent
        self._producer.produce("drill", value, partition=self.sent % PARTITIONS, on_delivery=self._delivered(value))
        self.sent += 1

    def _delivered(self, value: bytes) -> Callable[[KafkaError | None, Any], None]:
        def told(error: KafkaError | None, message: Any) -> None:
            assert error is None, error
            self.acknowledged += 1
            self.history.append(Written(message.partition(), value, message.offset()))

        return told

    def send_until(self, acknowledged: int, *, broker: BrokerProcess) -> None:
        """Keep a few hundred values in flight until so many were acknowledged."""
        progress = Progress(broker, of="the number of acknowledged values")
        while self.acknowledged < acknowledged:
            progress.check(self.acknowledged)
            while self.sent - self.acknowledged < 300:
                self.send()
            self._producer.poll(0.001)
            self.follow(timeout=0)

    def follow(self, *, timeout: float) -> None:
        messages = [message for message in self._reader.consume(500, timeout=timeout) if not message.error()]
        for partition in range(PARTITIONS):
            found = tuple(place(m) for m in messages if m.partition() == partition)
            if found:
                self.history.append(Read("follower", partition, found))
        self.followed += len(messages)

    def finish(self, *, broker: BrokerProcess) -> None:
        assert self._producer.flush(SECONDS) == 0
        progress = Progress(broker, of="the reader that follows")
        while self.followed < self.sent:
            progress.check(self.followed)
            self.follow(timeout=0.1)
        self._reader.close()


def not_fatal(error: KafkaError) -> None:
    assert not error.fatal(), error


def place(message: Any) -> tuple[int, bytes]:
    return message.offset(), message.value()


def reader(address: str) -> Consumer:
    source = Consumer({"bootstrap.servers": address, "group.id": "x", "auto.offset.reset": "error", **FAST_RETRIES})
    source.assign([TopicPartition("drill", partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    return source


def read_all(broker: BrokerProcess, *, auditor: str) -> list[Operation]:
    """Everything there is, by a reader of its own."""
    source = reader(broker.address)
    found: list[Operation] = []
    for partition in range(PARTITIONS):
        _, end = source.get_watermark_offsets(TopicPartition("drill", partition), timeout=SECONDS)
        source.assign([TopicPartition("drill", partition, OFFSET_BEGINNING)])
        messages: list[Any] = []
        progress = Progress(broker, of=f"{auditor} in partition {partition}")
        while len(messages) < end:
            progress.check(len(messages))
            messages += source.consume(end - len(messages), timeout=1.0)
        assert not [message.error() for message in messages if message.error()]
        found += [EndSeen(partition, end), Read(auditor, partition, tuple(map(place, messages)))]
    source.close()
    return found


def test_l1_l2_l3_ten_kills_lose_move_and_double_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    options = ["--default-partitions", str(PARTITIONS)]
    with start_broker(tmp_path, options=options) as broker:
        port = broker.port
        drill = Drill(broker.address)
        drill.send_until(chance.randint(200, 3000), broker=broker)
    for kill in range(KILLS):
        drill.follow(timeout=chance.random() / 20)
        with start_broker(tmp_path, port=port, options=options) as broker:
            drill.history += read_all(broker, auditor=f"auditor {kill}")
            drill.send_until(drill.acknowledged + chance.randint(200, 3000), broker=broker)
            if kill == KILLS - 1:
                drill.finish(broker=broker)
                drill.history += read_all(broker, auditor="last auditor")
                assert broker.stop() == 0

    assert drill.acknowledged == drill.sent, f"seed {SEED}"
    assert find_anomalies(drill.history) == {}, f"seed {SEED}"
