"""Produce and consume with one confluent-kafka client, through our broker and through librdkafka's own mock cluster.

    python perf/broker.py [--megabytes N] [--rounds N]

The mock is the yardstick: it lives inside the client's process, is written in C, and keeps everything in memory, so a
ratio near 1 means that the client is the limit. Both take turns in one run, on the same seeded records; every figure
counts only after number and checksum of what came back are right. Our broker syncs before every acknowledgement.
The mock keeps the last 5 MB of a partition only, so what is consumed is 4 MB, several times over, from the arrival of
the first record to that of the last; a consumer's start is the client's own.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from penstock.testing.broker import start_broker

SEED = 11
POOL = 1000
PASSES = 10
CONSUMED_MEGABYTES = 4
SECONDS = 120.0
PRODUCER = {"linger.ms": 5, "batch.size": 1_000_000, "queue.buffering.max.messages": 1_000_000, "log_level": 0}
CONSUMER = {"group.id": "perf", "fetch.max.bytes": 52_428_800, "queued.max.messages.kbytes": 1_000_000, "log_level": 0}


@dataclass(frozen=True)
class Load:
    size: int
    count: int

    @property
    def values(self) -> list[bytes]:
        chance = random.Random(SEED)
        return [chance.randbytes(self.size) for _ in range(POOL)]

    @property
    def checksum(self) -> int:
        values = self.values
        total = 0
        for number in range(self.count):
            total = zlib.crc32(values[number % POOL], total)
        return total


def produce(address: str, topic: str, load: Load) -> float:
    values = load.values
    producer = Producer({"bootstrap.servers": address, **PRODUCER})
    started = time.perf_counter()
    for number in range(load.count):
        while True:
            try:
                producer.produce(topic, values[number % POOL], partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(SECONDS)
    assert left == 0, f"{left} records were not acknowledged"
    return load.count / (time.perf_counter() - started)


def consume(address: str, topic: str, load: Load) -> float:
    produce(address, topic, load)
    consumer = Consumer({"bootstrap.servers": address, **CONSUMER})
    taken, checksum = 0.0, load.checksum
    for _ in range(PASSES):
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = consumer.consume(1, timeout=SECONDS)
        started = time.perf_counter()
        while len(messages) < load.count:
            messages += consumer.consume(load.count - len(messages), timeout=SECONDS)
        taken += time.perf_counter() - started
        found = 0
        for message in messages:
            found = zlib.crc32(message.value() or b"", found)
        assert found == checksum, "what came back is not what was sent"
    consumer.close()
    return (load.count - 1) * PASSES / taken


@contextmanager
def mock_cluster() -> Iterator[str]:
    """The mock belongs to a client's handle; others reach it over TCP."""
    handle = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused", "log_level": 0})
    brokers = handle.list_topics(timeout=SECONDS).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def measured(run: Callable[[str, str, Load], float], addresses: dict[str, str], load: Load, *, rounds: int) -> None:
    """Take turns, and print the medians and their ratio."""
    rates: dict[str, list[float]] = {name: [] for name in addresses}
    for turn in range(rounds):
        for name, address in addresses.items():
            topic = f"perf-{run.__name__}-{load.size}-{turn}"
            rates[name].append(run(address, topic, load))
    ours, mock = median(rates["penstock"]), median(rates["mock"])
    print(
        f"{run.__name__:8} {load.size:5} B  penstock {ours:11,.0f}/s {ours * load.size / 1e6:7.1f} MB/s   "
        f"mock {mock:11,.0f}/s {mock * load.size / 1e6:7.1f} MB/s   ratio {ours / mock:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-perf-", dir=options.data) as folder:
        started = time.perf_counter()
        with start_broker(Path(folder) / "log") as broker, mock_cluster() as mock:
            ours = psutil.Process(broker.process.pid)
            print(f"start {time.perf_counter() - started:.2f} s, idle {ours.memory_info().rss / 1e6:.0f} MB")
            for size in (100, 1000):
                for run, megabytes in ((produce, options.megabytes), (consume, CONSUMED_MEGABYTES)):
                    load = Load(size, megabytes * 1_000_000 // size)
                    before = ours.cpu_times()
                    measured(run, {"penstock": broker.address, "mock": mock}, load, rounds=options.rounds)
                    after = ours.cpu_times()
                    used = after.user + after.system - before.user - before.system
                    passes = PASSES if run is consume else 1
                    per_million = used / (load.count * options.rounds * passes) * 1e6
                    print(f"{'':18}broker {per_million:.2f} CPU s per million records")
            print(f"after the load {ours.memory_info().rss / 1e6:.0f} MB")
    print(f"client {resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} CPU s, python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
