"""The disk of the database fills up, at the start or in the middle of work: it is told, and nothing is lost."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing.model import MemoryLog
from penstock.testing.pipelines import disagreements, running_plant, usage_topic
from penstock.testing.streams import random_stream

SIZE_MB = 160
STREAM = 3_000


@contextmanager
def small_disk(folder: Path, *, size_mb: int) -> Iterator[Path]:
    """A file system of that size, which has to be mounted."""
    place = folder / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("NOT RUN: a small disk needs root and mount; what a full disk does is not proved on this machine")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(path: Path) -> None:
    """Take all that is free."""
    with path.open("wb", buffering=0) as filler:
        for size in (1 << 20, 4096, 1):
            while has_room(filler.fileno(), size):
                pass


def has_room(handle: int, size: int) -> bool:
    try:
        os.write(handle, b"x" * size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


@pytest.mark.long
def test_v2_v3_a_disk_that_fills_up_under_the_database_is_waited_for(tmp_path: Path) -> None:
    with small_disk(tmp_path, size_mb=SIZE_MB) as disk, running_plant(tmp_path, home=disk / "home") as plant:
        file = plant.write_usage("full")
        sent = random_stream(usage_topic("full"), seed=41, count=STREAM)
        process = plant.start("run", str(file), batch_records_max=500)
        plant.send("full", sent[:100])
        plant.wait_until(lambda: plant.read("full") == 100, process=process)

        fill(disk / "filler")
        plant.send("full", sent[100:])
        plant.wait_until(lambda: "trying again" in process.said, process=process)
        (disk / "filler").unlink()

        plant.wait_until(lambda: plant.read("full") == STREAM, process=process)
        assert "No space left on device" in process.said
        assert process.stop() == 0
        assert disagreements(plant.evidence("full"), log=MemoryLog.of({"full": sent})) == []
        refused = plant.call("status", home=make_full(disk / "second"))
        check_told(refused.status, said=refused.err)


def make_full(home: Path) -> Path:
    """A home on the same disk, of which nothing is left."""
    home.mkdir()
    fill(home / "filler")
    return home


def check_told(status: int, *, said: str) -> None:
    error, step = said.rstrip().splitlines()[-2:]
    assert status == 75
    assert "database-not-started" in error
    assert "server.log" in step
