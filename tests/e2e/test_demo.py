"""The demo as a user runs it: the installed command, a home of its own, and nothing of it left afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

SETTLES_S = 420
ENDS_S = 90
OUTCOMES = ("applied", "duplicate", "conflict", "rejected", "late", "pending")


def penstock() -> str:
    """The console script that stands beside this Python, else the one on the path."""
    beside = Path(sys.executable).with_name("penstock")
    found = str(beside) if beside.exists() else shutil.which("penstock")
    assert found, "the console script penstock is not installed"
    return found


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [penstock(), "demo", *arguments],
        env={**os.environ, "PENSTOCK_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.parent,
    )


def run(home: Path, *arguments: str) -> tuple[int, str, str]:
    demo = start(home, *arguments)
    try:
        out, err = demo.communicate(timeout=SETTLES_S)
    finally:
        demo.kill()
    return demo.returncode, out, err


def left_of(home: Path) -> list[str]:
    """Commands of processes that know the home: parts, the database and its keeper."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            if str(home) in command or process.environ().get("PENSTOCK_HOME") == str(home):
                found.append(command)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def wait_for(is_true: Callable[[], bool], *, seconds: float, what: str) -> None:
    pause = threading.Event()
    for _ in range(int(seconds * 4)):
        if is_true():
            return
        pause.wait(0.25)
    pytest.fail(f"not within {seconds} seconds: {what}")


def wait_for_nothing_left(home: Path) -> None:
    wait_for(lambda: not left_of(home), seconds=ENDS_S, what="every process of the demo has ended")


def read_lines_until(demo: subprocess.Popen[str], word: str) -> None:
    """Read what the demo says until a line has the word; then go on reading so that it never waits for us."""
    assert demo.stderr is not None
    for line in demo.stderr:
        if word in line:
            threading.Thread(target=demo.stderr.read, daemon=True).start()
            return
    pytest.fail(f"the demo ended before it said {word!r}")


def stop_in_the_middle(home: Path, number: signal.Signals) -> int:
    """Start a demo, wait until the view holds something, end it with the signal; the answer is its status."""
    demo = start(home, "--seconds", "600", "--rate", "200")
    try:
        read_lines_until(demo, "applied")
        check_refusal(home, running=demo)
        demo.send_signal(number)
        return demo.wait(timeout=ENDS_S)
    finally:
        demo.kill()


def check_refusal(home: Path, *, running: subprocess.Popen[str]) -> None:
    """A second demo in the same home is refused at once, and says whom to stop."""
    status, out, err = run(home, "--seconds", "5")
    assert (status, out) == (2, "")
    assert f"process {running.pid}" in err


def test_the_bill_is_proved_after_demos_were_stopped_and_killed_and_through_a_drill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert stop_in_the_middle(home, signal.SIGINT) == 130
    wait_for_nothing_left(home)
    assert stop_in_the_middle(home, signal.SIGKILL) == -signal.SIGKILL
    wait_for_nothing_left(home)

    status, out, err = run(home, "--seconds", "15", "--rate", "200", "--drill", "--output", "json")
    assert status == 0, err
    wait_for_nothing_left(home)
    document = json.loads(out)
    check_document(document)
    check_view(home, document)
    wait_for_nothing_left(home)


def check_document(document: dict[str, Any]) -> None:
    """Everything adds up, over all three runs."""
    outcomes, ages = document["outcomes"], document["freshness_ms"]
    assert outcomes["read"] == sum(outcomes[name] for name in OUTCOMES)
    assert outcomes["read"] > 15 * 200
    assert min(outcomes[name] for name in ("applied", "duplicate", "rejected")) > 0
    assert (document["holds"], document["balance"], document["differences"]) == (True, True, 0)
    assert document["truth"] == {"differences": [], "strangers": 0}
    assert [outage["killed"] for outage in document["drill"]] == ["broker", "pipeline"]
    assert all(outage["fresh_again_after_s"] >= 2 for outage in document["drill"])
    assert 0 < ages["p50"] <= ages["p99"] <= ages["max"]
    assert ages["max"] >= 2_000
    assert document["rates"]["sent"] == pytest.approx(200, rel=0.2)


def check_view(home: Path, document: dict[str, Any]) -> None:
    """The bill that was printed is what the view holds for whoever asks later."""
    show = subprocess.run(
        [penstock(), "views", "show", "usage_by_account", "--output", "json"],
        env={**os.environ, "PENSTOCK_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=ENDS_S,
    )
    shown = json.loads(show.stdout)
    assert shown["outcomes"] == document["outcomes"]
    assert document["bill"] in shown["rows"]
