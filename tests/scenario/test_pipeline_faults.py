"""One pipeline lives through fault after fault: its checkpoint, a worker, Postgres and the broker go in the middle of
its work, others take it over; after each fault views and ledger equal the model to the last row.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from penstock.testing.broker import start_broker
from penstock.testing.model import MemoryLog
from penstock.testing.pipelines import PipelineProcess, Plant, disagreements, usage_topic
from penstock.testing.streams import Sent, random_stream
from penstock.views.connection import Database

NAME = "living"
MEMORY = Path("/dev/shm")
BATCH = 40
BACKLOG = 160
STREAM = 4_000
SEED = 21


@dataclass
class Living:
    """A pipeline that goes on through the tests of this file, and all that was sent to it."""

    plant: Plant
    file: Path
    process: PipelineProcess
    to_send: Iterator[Sent]
    sent: list[Sent] = field(default_factory=list)

    def start(self, *options: str) -> PipelineProcess:
        return self.plant.start("run", str(self.file), *options, batch_records_max=BATCH)

    def ensure_runs(self) -> None:
        """A test before may have ended it; none starts with a dead one."""
        if not self.process.is_running:
            self.process = self.start("--take-over")

    def feed(self, count: int) -> None:
        came = [next(self.to_send) for _ in range(count)]
        self.plant.send(NAME, came)
        self.sent += came

    def begin_work(self) -> None:
        """Give it a backlog, and come back when it has committed a first part of that, and more is to come."""
        before = len(self.sent)
        self.feed(BACKLOG)
        self.wait_until(lambda: self.plant.read(NAME) > before)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        self.plant.wait_until(is_so, process=self.process)

    def check_exact(self) -> None:
        """When all is read, everything that it recorded equals the model."""
        self.wait_until(lambda: self.plant.read(NAME) == len(self.sent))
        held = self.plant.evidence(NAME)
        assert disagreements(held, log=MemoryLog.of({NAME: self.sent})) == []

    def epochs(self) -> list[int]:
        """Under which epoch each batch was committed, in the order of the batches."""
        query = (
            "SELECT b.epoch FROM penstock.batches b JOIN penstock.pipelines p ON p.id = b.pipeline"
            " WHERE p.name = %s ORDER BY b.batch"
        )
        with Database(self.plant.url) as database:
            return [int(row[0]) for row in database.connection.execute(query, (NAME,))]


@pytest.fixture(scope="module")
def alive(plant: Plant) -> Living:
    file = plant.write_usage(NAME)
    to_send = iter(random_stream(usage_topic(NAME), seed=SEED, count=STREAM))
    process = plant.start("run", str(file), batch_records_max=BATCH)
    return Living(plant, file, process, to_send)


@pytest.fixture
def living(alive: Living) -> Living:
    alive.ensure_runs()
    return alive


def checkpoint(process: PipelineProcess) -> Path:
    """Where Spark keeps the scratch of that process's query: in memory, one folder."""
    [found] = MEMORY.glob(f"penstock-*-{NAME}-{process.pid}")
    return found


def test_v3_a_checkpoint_that_is_deleted_in_the_middle_of_work_changes_nothing(living: Living) -> None:
    living.begin_work()
    shutil.rmtree(checkpoint(living.process))
    living.feed(BATCH)
    living.check_exact()


def test_v1_v2_a_python_worker_that_is_killed_in_the_middle_of_a_task_doubles_nothing(living: Living) -> None:
    living.begin_work()
    living.check_exact()
    before = living.process.said
    fatal = living.plant.fatal(NAME)
    fatal.touch()
    living.feed(BATCH)
    living.check_exact()
    assert fatal.with_name(fatal.name + ".taken").exists(), "a worker took the file, and died of it"
    assert "trying again" not in living.process.said.removeprefix(before), "Spark retried the task, not we the query"


def workers(process: PipelineProcess) -> list[psutil.Process]:
    """Python workers of Spark: the children of its Python daemon."""
    found = []
    for each in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):  # it may end while we look
            if "pyspark.daemon" in " ".join(each.cmdline()) and not each.children():
                found.append(each)
    return found


def test_v1_v2_workers_that_are_killed_at_any_time_double_nothing(living: Living) -> None:
    living.begin_work()
    assert workers(living.process)
    kill_workers(living)
    living.feed(BATCH)
    living.check_exact()


def test_v3_a_postgres_that_is_killed_in_the_middle_of_work_is_waited_for(living: Living) -> None:
    living.begin_work()
    kill_postgres(living)
    living.feed(BATCH)
    living.check_exact()


def kill_postgres(living: Living) -> None:
    """End the server as a crash would; who keeps it starts it again."""
    pid_file = living.plant.home / "postgres" / "data" / "postmaster.pid"
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)


def test_v3_a_broker_that_is_killed_in_the_middle_of_work_is_waited_for(living: Living) -> None:
    living.begin_work()
    restart_broker(living)
    living.feed(BATCH)
    living.check_exact()


def restart_broker(living: Living) -> None:
    plant = living.plant
    plant.broker.kill()
    plant.broker = start_broker(plant.folder / "log", port=plant.broker.port)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(5))
def test_v1_v2_v3_faults_that_follow_each_other_closely_change_nothing(living: Living, turn: int) -> None:
    first = living.process
    living.begin_work()
    for fault in (kill_workers, restart_broker, kill_postgres)[turn % 3 :]:
        before = len(living.sent)
        fault(living)
        living.feed(BATCH)
        living.wait_until(lambda: living.plant.read(NAME) > before)  # noqa: B023  # asked before the next fault
    living.check_exact()
    assert living.process is first


def kill_workers(living: Living) -> None:
    for each in workers(living.process):
        with suppress(psutil.NoSuchProcess):
            each.kill()


def test_v3_a_second_process_is_refused_and_disturbs_nothing(living: Living) -> None:
    living.begin_work()
    refused = living.plant.call("run", str(living.file), "--once", batch_records_max=BATCH)
    assert refused.status == 3, refused.err
    assert f"is already run by process {living.process.pid} on {os.uname().nodename}" in refused.err
    assert "--take-over" in refused.err
    living.feed(BATCH)
    living.check_exact()


@pytest.mark.parametrize("is_stopped", [False, True], ids=["working", "stopped and woken"])
def test_v3_a_process_that_was_taken_over_ends_and_commits_nothing_more(living: Living, *, is_stopped: bool) -> None:
    living.begin_work()
    first = living.process
    if is_stopped:
        first.signal_all(signal.SIGSTOP)
    living.process = living.start("--take-over")
    living.plant.wait_until(lambda: is_driven_by(living.plant, living.process), process=living.process)
    living.feed(BATCH)
    if is_stopped:
        living.check_exact()
        first.signal_all(signal.SIGCONT)
    assert first.wait() == 3, first.said
    assert "pipeline-fenced" in first.said or "batch-misplaced" in first.said, first.said
    living.feed(BATCH)
    living.check_exact()
    assert is_sorted(living.epochs()), "after the first commit of the second, the first commits nothing"


def is_driven_by(plant: Plant, process: PipelineProcess) -> bool:
    return plant.status(NAME).get("pid") == process.pid


def is_sorted(numbers: Sequence[int]) -> bool:
    return list(numbers) == sorted(numbers)


def test_v3_an_old_checkpoint_that_is_put_back_is_never_read(living: Living, tmp_path: Path) -> None:
    living.begin_work()
    place, kept = checkpoint(living.process), tmp_path / "kept"
    shutil.copytree(place, kept, copy_function=copy_if_there)
    living.check_exact()
    living.process.kill()
    shutil.rmtree(place)
    shutil.copytree(kept, place)
    living.ensure_runs()
    living.feed(BATCH)
    living.check_exact()
    assert not place.exists(), "what a dead process left is removed"


def copy_if_there(source: str, target: str) -> None:
    """Spark removes files of its checkpoint while we copy."""
    if Path(source).exists():
        shutil.copy2(source, target)


def test_v1_v2_v3_after_all_that_the_proof_from_the_log_finds_no_difference_and_sigterm_ends_it(living: Living) -> None:
    living.begin_work()
    living.check_exact()
    place = checkpoint(living.process)
    assert living.process.stop() == 0, living.process.said
    assert not place.exists()
    assert "\tat org.apache.spark" not in living.process.said, "a hindrance is a line, not a stack of Java's"
    proof = living.plant.call("views", "verify", "--output", "json")
    assert (proof.status, json.loads(proof.out)["differences"]) == (0, 0), proof.out + proof.err
