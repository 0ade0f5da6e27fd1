"""The whole way: events per second into both views, and how fresh a view is, with each batch's time by phase.

    python -m perf.way [--events N] [--identities N] [--seconds N]

Broker, pipeline and this process are three; the database is the embedded one, durable as always. Throughput: a backlog
of distinct events is produced first, then the pipeline runs through it; batches of the first quarter warm up and do not
count. Freshness: 1,000 events/s are sent on a schedule; each batch's newest and every tenth event is sampled, from the
intended time of sending to the first look at which the ledger covers it (every 2 ms). The answer is checked: counts of
views and outcomes must be those that were sent. `--identities` stores that many identities before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import psycopg
from confluent_kafka import Producer

from penstock.core.clock import RealClock
from penstock.testing.broker import start_broker
from penstock.views.server import embedded

CLOCK = RealClock()
TOPIC = "usage.requests"
WAIT_S = 240
USAGE = Path(__file__).parents[1] / "src" / "penstock" / "demo" / "usage.py"
PIPELINE = """
import json, sys
from pathlib import Path
from penstock.core.clock import RealClock
from penstock.core.settings import read_settings
from penstock.pipeline.runtime import run
out = open(sys.argv[2], "w", buffering=1)
def watch(progress):
    line = {"at": RealClock().monotonic(), "read": progress.read, "phases": progress.phases}
    out.write(json.dumps(line) + chr(10))
run(Path(sys.argv[1]), settings=read_settings(), once=False, take_over=False, name=None,
    say=lambda text: sys.stderr.write(text + chr(10)), watch=watch)
"""


@dataclass(frozen=True, slots=True)
class Place:
    bootstrap: str
    url: str
    env: dict[str, str]
    batches: Path
    home: Path


@contextmanager
def place() -> Iterator[Place]:
    home = Path(tempfile.mkdtemp(prefix="penstock-perf-"))
    broker = start_broker(home / "log")
    try:
        with embedded(home) as server:
            env = {**os.environ, "PENSTOCK_BOOTSTRAP": broker.address, "PENSTOCK_HOME": str(home)}
            yield Place(broker.address, server.url, env, home / "batches.jsonl", home)
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def pipeline(where: Place, **settings: object) -> Iterator[subprocess.Popen[bytes]]:
    env = where.env | {f"PENSTOCK_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen([sys.executable, "-c", PIPELINE, str(USAGE), str(where.batches)], env=env)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def event(number: int, at: str = "2026-03-01T12:00:00.000Z") -> bytes:
    return (
        f'{{"id":"request-{number:012d}","source":"gateway-{number % 7}","account":"account-{number * 7919 % 1000}",'
        f'"model":"model-{number % 20}","quantity":"{number % 9 + 1}.25","accepted_at":"{at}"}}'
    ).encode()


def batches(where: Place) -> list[dict[str, object]]:
    return [json.loads(line) for line in where.batches.read_text().splitlines()] if where.batches.exists() else []


def applied(connection: psycopg.Connection[tuple[int]]) -> int:
    """The next offset of the ledger; the topic has one partition here."""
    row = connection.execute("SELECT coalesce(max(next_offset), 0) FROM penstock.offsets").fetchone()
    return row[0] if row else 0


def throughput(where: Place, *, events: int, start: int) -> None:
    produce(where, first=start, count=events)
    wait_for(where, start + events)
    done = batches(where)
    warm = len(done) // 4
    read = sum(int(str(each["read"])) for each in done[warm + 1 :])
    seconds = float(str(done[-1]["at"])) - float(str(done[warm]["at"]))
    print(f"{'backlog':<28}{read / seconds:>12,.0f} events/s   {len(done)} batches")
    phases(done[warm + 1 :])


def produce(where: Place, *, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": where.bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for number in range(first, first + count):
        while True:
            try:
                producer.produce(TOPIC, event(number))
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def phases(done: list[dict[str, object]]) -> None:
    names = list(dict(done[-1]["phases"]))  # type: ignore[call-overload]
    table = np.array([[dict(each["phases"])[name] for name in names] for each in done])  # type: ignore[call-overload]
    middle = np.median(table, axis=0) * 1000
    print("    " + "  ".join(f"{name} {ms:.1f}" for name, ms in zip(names, middle, strict=True)) + "  ms (median)")


def freshness(where: Place, *, seconds: int, rate: int, start: int) -> None:
    producer = Producer({"bootstrap.servers": where.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    intended: list[float] = []
    seen: list[tuple[float, int]] = []
    stop = threading.Event()

    def look() -> None:
        with psycopg.connect(where.url, autocommit=True) as connection:
            while not stop.is_set():
                seen.append((applied(connection), CLOCK.monotonic()))  # type: ignore[arg-type]
                CLOCK.sleep(0.002)

    looking = threading.Thread(target=look)
    looking.start()
    before = len(batches(where))
    first = CLOCK.monotonic()
    for number in range(rate * seconds):
        due = first + number / rate
        intended.append(due)
        if (ahead := due - CLOCK.monotonic()) > 0:
            producer.poll(0)
            CLOCK.sleep(ahead)
        producer.produce(TOPIC, event(start + number))
    producer.flush()
    wait_for(where, start + rate * seconds)
    stop.set()
    looking.join()
    offsets, times = np.array([each[0] for each in seen]), np.array([each[1] for each in seen])
    at = np.searchsorted(offsets, np.arange(start, start + rate * seconds) + 1)
    late = (times[np.minimum(at, len(times) - 1)] - np.array(intended))[len(intended) // 3 :: 10] * 1000
    done = batches(where)[before:]
    gaps = np.diff([float(str(each["at"])) for each in done])[len(done) // 3 :] * 1000
    print(
        f"{f'freshness at {rate}/s':<28}p50 {np.percentile(late, 50):.0f}  p99 {np.percentile(late, 99):.0f}  "
        f"max {late.max():.0f} ms; batch every {np.median(gaps):.0f} ms, {len(done)} batches"
    )
    phases(done[len(done) // 3 :])


def wait_for(where: Place, end: int) -> None:
    deadline = CLOCK.monotonic() + WAIT_S
    with psycopg.connect(where.url, autocommit=True) as connection:
        while True:
            try:
                if applied(connection) >= end:
                    return
            except psycopg.errors.UndefinedTable:
                pass
            if CLOCK.monotonic() > deadline:
                raise SystemExit(f"the pipeline did not reach offset {end} in {WAIT_S} s")
            CLOCK.sleep(0.05)


def check(where: Place, events: int) -> None:
    """Counts of both views and of the outcomes, each against what was sent."""
    with psycopg.connect(where.url, autocommit=True) as connection:
        counted = [
            connection.execute(query).fetchone()
            for query in (
                "SELECT sum(requests)::bigint FROM usage_by_account",
                "SELECT sum(requests)::bigint FROM usage_by_minute",
                "SELECT sum(count)::bigint FROM penstock.outcomes WHERE outcome = 'applied'",
            )
        ]
    if counted != [(events,)] * 3:
        raise SystemExit(f"wrong answer: sent {events}, found {counted}")


def fill_identities(where: Place, count: int) -> None:
    """Store identities of a past that no event of this run has."""
    with psycopg.connect(where.url, autocommit=True) as connection:
        table = connection.execute("SELECT 'penstock.identities_' || id FROM penstock.topics").fetchone()
        assert table is not None
        for start in range(0, count, 1_000_000):
            connection.execute(
                f"INSERT INTO {table[0]} SELECT gen_random_uuid(), gen_random_uuid(), 0, -1"
                f" FROM generate_series(1, {min(1_000_000, count - start)})"
            )
        connection.execute("CHECKPOINT")


def cpu_by_process(where: Place, process: subprocess.Popen[bytes]) -> dict[str, float]:
    """CPU seconds so far of the pipeline's tree, the broker and the database, by what the process is."""
    found: dict[str, float] = {}
    tree = {each.pid for each in psutil.Process(process.pid).children(recursive=True)} | {process.pid}
    for each in psutil.process_iter(["pid", "name", "cmdline", "cpu_times"]):
        kind = _kind(each.info, tree=tree, home=str(where.home))
        if kind and each.info["cpu_times"]:
            found[kind] = found.get(kind, 0.0) + each.info["cpu_times"].user + each.info["cpu_times"].system
    return found


def _kind(info: dict[str, object], *, tree: set[int], home: str) -> str | None:
    words = info["cmdline"] if isinstance(info["cmdline"], list) else []
    line = " ".join(words)
    if info["pid"] in tree:
        return "jvm" if "org.apache.spark" in line else "python workers" if "pyspark" in line else "driver"
    if info["name"] == "postgres" or line.startswith("postgres:"):
        return "postgres"
    return "broker" if "--listen" in words and home in line else None


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--events", type=int, default=1_500_000)
    options.add_argument("--identities", type=int, default=0)
    options.add_argument("--seconds", type=int, default=25)
    options.add_argument("--rate", type=int, default=1_000)
    given = options.parse_args()
    with place() as where:
        produce(where, first=0, count=1_000)
        with pipeline(where) as process:
            wait_for(where, 1_000)
            if given.identities:
                fill_identities(where, given.identities)
            before = cpu_by_process(where, process)
            throughput(where, events=given.events, start=1_000)
            used = {
                kind: (s - before.get(kind, 0)) / given.events * 1e6
                for kind, s in cpu_by_process(where, process).items()
            }
            print("    CPU s per million events: " + ", ".join(f"{kind} {s:.1f}" for kind, s in sorted(used.items())))
            freshness(where, seconds=given.seconds, rate=given.rate, start=1_000 + given.events)
            check(where, 1_000 + given.events + given.rate * given.seconds)


if __name__ == "__main__":
    main()
