"""The power is cut under a producer: an ext4 file system on a loop device is shut down without a flush of its journal.

What the page cache held and no sync had covered is gone then, which kill -9 can never show. The same drill with a
broker whose syncs do nothing must lose records: that proves that the drill can fail.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.testing.broker import BrokerProcess, start_broker
from penstock.testing.history import Anomalies, Operation, Read, Written, find_anomalies

IMAGE_BYTES = 192 * 1024**2
SHUT_DOWN = 0x8004587D
NO_JOURNAL_FLUSH = struct.pack("=I", 2)
ACKNOWLEDGED = 1500
SECONDS = 60.0
LIMITS = ["--segment-bytes", "64 kB"]
NO_SYNC = [
    sys.executable,
    "-c",
    "import os; os.fdatasync = os.fsync = lambda fd: None\nfrom penstock.cli.app import main; main()",
]


class Disk:
    """A file system whose power can be cut."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "disk.img"
        self.mount_point = folder / "disk"
        self.mount_point.mkdir()
        with self._image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        run("mkfs.ext4", "-q", str(self._image))
        self._mount()

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.mount_point))

    def cut_power(self) -> None:
        handle = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUT_DOWN, NO_JOURNAL_FLUSH)
        finally:
            os.close(handle)

    def come_back(self) -> None:
        run("umount", str(self.mount_point))
        self._mount()

    def remove(self) -> None:
        with suppress(subprocess.CalledProcessError):
            run("umount", "--lazy", str(self.mount_point))


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "mount"))):
        pytest.skip("NOT RUN: a power cut needs root, mkfs.ext4 and loop devices; L1 is not proved on this machine")
    try:
        made = Disk(tmp_path)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT RUN: no loop device or no ext4 here, L1 is not proved: {error.stderr.decode()}")
    yield made
    made.remove()


class Drill:
    """One history over several power cuts."""

    def __init__(self, disk: Disk, *, launcher: list[str] | None) -> None:
        self._disk = disk
        self._launcher = launcher
        self._sent = 0
        self._acknowledged = 0
        self._answered = 0
        self._history: list[Operation] = []

    def run(self, *, cuts: int) -> Anomalies:
        for cut in range(cuts):
            self._produce_until_cut()
            self._disk.come_back()
            with start_broker(self._disk.mount_point / "log", options=LIMITS) as broker:
                self._history.append(Read(f"auditor {cut}", 0, read_all(broker.address)))
                assert broker.stop() == 0
        return find_anomalies(self._history)

    def _produce_until_cut(self) -> None:
        folder = self._disk.mount_point / "log"
        with start_broker(folder, options=LIMITS, launcher=self._launcher) as broker:
            options = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 5000, "log_level": 0}
            producer = Producer({"bootstrap.servers": broker.address, **options})
            self._produce(producer, broker)
            freeze(broker.process.pid)
            self._disk.cut_power()
            producer.flush(0.5)
        producer.purge()
        producer.flush(SECONDS)

    def _produce(self, producer: Producer, broker: BrokerProcess) -> None:
        wanted = self._acknowledged + ACKNOWLEDGED
        while self._acknowledged < wanted:
            assert broker.process.poll() is None, "the broker ended by itself"
            while self._sent - self._answered < 200:
                producer.produce("drill", b"%09d" % self._sent, partition=0, on_delivery=self._delivered)
                self._sent += 1
            producer.poll(0.001)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        self._answered += 1
        self._acknowledged += error is None
        self._history.append(Written(0, message.value(), None if error else message.offset()))


def freeze(pid: int) -> None:
    """Stop every thread where it is: after a real power cut nobody hears of a sync that was under way.

    Here the kernel lives on, and a sync that the cut overtakes may even claim that it went well. A thread that is
    inside one stops before it can tell anybody.
    """
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    while any(state_of(task) not in "TD" for task in tasks.iterdir()):
        pass


def state_of(task: Path) -> str:
    """One letter, behind the name in brackets: T is stopped, D is inside a call that cannot be interrupted."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def read_all(address: str) -> tuple[tuple[int, bytes], ...]:
    source = Consumer({"bootstrap.servers": address, "group.id": "x", "log_level": 0})
    place = TopicPartition("drill", 0, OFFSET_BEGINNING)
    try:
        _, end = source.get_watermark_offsets(place, timeout=SECONDS)
        source.assign([place])
        found: list[Any] = []
        while len(found) < end:
            read = source.consume(end - len(found), timeout=SECONDS)
            assert read, f"nothing came in {SECONDS:.0f} s after {len(found)} of {end} records"
            found += read
        assert not [message.error() for message in found if message.error()]
    except KafkaException as error:
        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        found = []
    finally:
        source.close()
    return tuple((message.offset(), message.value()) for message in found)


def test_l1_l2_a_power_cut_takes_back_nothing_that_was_acknowledged(disk: Disk) -> None:
    assert Drill(disk, launcher=None).run(cuts=3) == {}


def test_a_broker_that_does_not_sync_is_caught_by_the_power_cut(disk: Disk) -> None:
    assert "lost-write" in Drill(disk, launcher=NO_SYNC).run(cuts=1)
