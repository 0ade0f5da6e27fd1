"""Parts as processes: what they print, how they end, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from penstock.core.clock import ManualClock, RealClock
from penstock.core.errors import RetryError
from penstock.demo.guard import end_all, left_over
from penstock.demo.parts import Guard, Part
from penstock.demo.sessions import kill_session, members

# A leader with a child that has left its process group but not its session, as Spark's workers do; both hold the pipe.
LEADER = """
import os, signal, subprocess, sys
if len(sys.argv) > 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
stay = "import signal, sys; sys.stdout.write('up\\\\n'); sys.stdout.flush(); signal.pause()"
subprocess.Popen([sys.executable, "-c", stay], process_group=0)
signal.pause()
"""


def start_leader(*arguments: str) -> subprocess.Popen[str]:
    """A session of two processes, both alive when this returns."""
    leader = subprocess.Popen(
        [sys.executable, "-c", LEADER, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    assert leader.stdout.readline() == "up\n"
    return leader


@pytest.fixture
def guard() -> Iterator[Guard]:
    guard = Guard()
    yield guard
    guard.close()


def make_part(guard: Guard, folder: Path) -> Part:
    return Part("broker", log=folder / "demo" / "broker.log", environment={}, guard=guard, clock=RealClock())


def test_a_kill_reaches_what_left_the_process_group_of_its_part() -> None:
    leader = start_leader()
    assert len(members(leader.pid)) == 2
    assert members(leader.pid)[-1] == leader.pid
    kill_session(leader.pid)
    assert leader.wait() == -signal.SIGKILL
    assert members(leader.pid) == []


def test_the_guard_ends_what_is_still_listed() -> None:
    leader = start_leader()
    end_all([leader.pid], clock=RealClock())
    assert leader.wait() == -signal.SIGTERM
    assert members(leader.pid) == []


def test_the_guard_kills_what_ignores_its_request() -> None:
    leader = start_leader("stubborn")
    end_all([leader.pid], clock=ManualClock())
    assert leader.wait() == -signal.SIGKILL
    assert members(leader.pid) == []


def test_the_guard_ends_a_part_whose_demo_was_killed() -> None:
    leader = start_leader()
    told = f"from penstock.demo.parts import Guard\nGuard().lives({leader.pid})\nimport os\nos.kill(os.getpid(), 9)\n"
    demo = subprocess.run([sys.executable, "-c", told], check=False)
    assert demo.returncode == -signal.SIGKILL
    assert leader.wait(timeout=60) == -signal.SIGTERM


def test_the_guard_forgets_a_part_that_ended() -> None:
    assert left_over(["+7", "+9", "-7", "+11", "-11"]) == {9}


def test_a_part_that_ends_by_itself_is_named_with_its_last_words(guard: Guard, tmp_path: Path) -> None:
    part = make_part(guard, tmp_path)
    part.start(["run", str(tmp_path / "missing.py"), "--surprise"])
    with pytest.raises(RetryError) as caught:
        part.wait_for("listening on ", timeout_s=60)
    assert caught.value.code == "demo-part-ended"
    assert caught.value.fields["status"] == 2
    assert "--surprise" in str(caught.value.fields["reason"])
    assert caught.value.fields["log"] == str(part.log)


def test_what_a_part_prints_is_read_from_its_last_start_on(guard: Guard, tmp_path: Path) -> None:
    part = make_part(guard, tmp_path)
    for _ in range(2):
        part.start(["--version"])
        assert part.wait_for("", timeout_s=60) == version("penstock")
        part.stop()
        assert len(part.printed().splitlines()) == 1
    assert not part.is_running
    assert part.pid is None


def test_a_part_that_stays_silent_is_not_waited_for_without_end(guard: Guard, tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    part = Part("broker", log=log, environment={}, guard=guard, clock=ManualClock())
    part.start(["broker", "--data", str(tmp_path / "log"), "--listen", "127.0.0.1:0"])
    session = part.pid
    assert session is not None
    with pytest.raises(RetryError) as caught:
        part.wait_for("never printed", timeout_s=1)
    assert caught.value.code == "demo-part-silent"
    part.kill()
    assert members(session) == []


def test_members_of_a_session_without_processes_are_none() -> None:
    assert members(2**22 + 1) == []
    assert os.getpid() in members(os.getsid(0))
