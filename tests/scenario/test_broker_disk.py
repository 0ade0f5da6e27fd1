"""The disk is full, the folder is taken or cannot be written, the port is taken: each says so and what to do next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.core.clock import RealClock
from penstock.core.errors import RetryError
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.core.values import OffsetRange
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.client import Client
from penstock.testing.broker import start_broker

MEGABYTE = 1024**2
PARTITION = PartitionId(0)
SECONDS = 30.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 110 MB, of which the log keeps 64 MB for its own records."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=110m", "tmpfs", str(folder)], check=False)
    if made.returncode:
        pytest.skip("NOT RUN: a full disk needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_refuses_writes_serves_reads_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(25 * MEGABYTE))
    large = build_batch([Record(None, os.urandom(MEGABYTE - 1000), TimestampMs(1))])
    with (
        start_broker(small_disk / "log") as broker,
        Client(broker.address, clock=RealClock(), patience_s=0) as client,
    ):
        client.create_topic("t")
        stored = 0
        with suppress(RetryError):
            while stored < 200:
                client.produce("t", PARTITION, large)
                stored += 1
        assert 5 < stored < 60

        client.create_topic("still-works")
        assert len(list(client.read_records(OffsetRange("t", PARTITION, Offset(0), Offset(stored))))) == stored
        with pytest.raises(RetryError) as refused:
            client.produce("t", PARTITION, large)
        assert "KAFKA_STORAGE_ERROR" in str(refused.value)

        ballast.unlink()
        assert client.produce("t", PARTITION, large) == stored
        assert broker.stop() == 0


def refused(*arguments: str) -> tuple[int, dict[str, str]]:
    """Run the command, which must fail; gives its status and what it said."""
    command = [sys.executable, "-c", "from penstock.cli.app import main; main()", *arguments, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.stdout == ""
    told: dict[str, str] = json.loads(done.stderr)["error"]
    return done.returncode, told


@pytest.mark.parametrize(
    ("listen", "code"),
    [
        ("0.0.0.0:0", "listen-unspecified"),
        ("10.9.8.7:0", "listen-not-loopback"),
        ("nowhere", "listen-unreadable"),
        ("host.example:1", "listen-unreadable"),
        ("127.0.0.1:70000", "listen-unreadable"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_refused(tmp_path: Path, listen: str, code: str) -> None:
    status, told = refused("broker", "--data", str(tmp_path), "--listen", listen)
    assert (status, told["code"]) == (2, code)
    assert told["next"]


def test_a_second_broker_on_the_same_port_or_folder_is_refused_and_told_what_to_do(tmp_path: Path) -> None:
    with start_broker(tmp_path / "one") as broker:
        status, told = refused("broker", "--data", str(tmp_path / "two"), "--listen", broker.address)
        assert (status, told["code"]) == (2, "port-taken")
        assert "--listen 127.0.0.1:0" in told["next"]
        status, told = refused("broker", "--data", str(tmp_path / "one"), "--listen", "127.0.0.1:0")
        assert (status, told["code"]) == (2, "data-folder-in-use")
        assert str(broker.process.pid) in told["message"]


def test_a_folder_that_may_not_be_written_is_refused() -> None:
    """Nobody may make folders in /sys, root neither."""
    status, told = refused("broker", "--data", "/sys/penstock-log", "--listen", "127.0.0.1:0")
    assert (status, told["code"]) == (2, "file-forbidden")


def test_sigterm_stops_clean_and_the_next_start_finds_everything(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker:
        with Client(broker.address, clock=RealClock()) as client:
            client.create_topic("t")
            client.produce("t", PARTITION, build_batch([Record(None, b"kept", TimestampMs(1))]))
        assert broker.stop() == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with start_broker(tmp_path) as broker, Client(broker.address, clock=RealClock()) as client:
        wanted = OffsetRange("t", PARTITION, Offset(0), Offset(1))
        assert [record.value for record in client.read_records(wanted)] == [b"kept"]
