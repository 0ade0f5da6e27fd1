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
from decimal import Decimal
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


def check_balance(document: dict[str, Any]) -> None:
    outcomes = document["outcomes"]
    assert outcomes["read"] == sum(outcomes[name] for name in OUTCOMES)
    assert min(outcomes[name] for name in ("applied", "duplicate", "rejected")) > 0
    assert document["balance"] is True
    assert document["differences"] == 0
    assert document["truth"] == {"differences": [], "strangers": 0}
    assert document["bill"]["requests"] > 0
    assert Decimal(document["bill"]["quantity"]) > 0


def test_the_bill_is_proved_though_log_and_pipeline_are_killed_and_a_second_demo_goes_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    status, out, err = run(home, "--seconds", "15", "--rate", "200", "--drill", "--output", "json")
    assert status == 0, err
    first = json.loads(out)
    check_balance(first)
    assert [outage["killed"] for outage in first["drill"]] == ["broker", "pipeline"]
    assert all(outage["fresh_again_after_s"] >= 2 for outage in first["drill"])
    assert 0 < first["freshness_ms"]["p50"] <= first["freshness_ms"]["p99"] <= first["freshness_ms"]["max"]
    assert first["rates"]["sent"] == pytest.approx(200, rel=0.2)
    assert first["outcomes"]["read"] >= 15 * 200
    wait_for_nothing_left(home)

    status, out, err = run(home, "--seconds", "5", "--rate", "100")
    assert status == 0, err
    assert "Every record is accounted for" in out
    wait_for_nothing_left(home)

    show = subprocess.run(
        [penstock(), "views", "show", "usage_by_account", "--output", "json"],
        env={**os.environ, "PENSTOCK_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=ENDS_S,
    )
    shown = json.loads(show.stdout)
    assert shown["outcomes"]["read"] >= first["outcomes"]["read"] + 5 * 100
    billed = {row["account"]: row["requests"] for row in shown["rows"]}
    assert billed[first["bill"]["account"]] > first["bill"]["requests"]
    wait_for_nothing_left(home)


def test_ctrl_c_and_a_kill_leave_nothing_behind_and_a_later_demo_adds_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    demo = start(home, "--seconds", "600", "--rate", "200")
    read_lines_until(demo, "applied")
    second = start(home, "--seconds", "5")
    _, refusal = second.communicate(timeout=ENDS_S)
    assert second.returncode == 2
    assert str(demo.pid) in refusal
    demo.send_signal(signal.SIGINT)
    assert demo.wait(timeout=ENDS_S) == 130
    wait_for_nothing_left(home)

    demo = start(home, "--seconds", "600", "--rate", "200")
    read_lines_until(demo, "applied")
    demo.kill()
    demo.wait()
    wait_for_nothing_left(home)

    status, out, err = run(home, "--seconds", "5", "--rate", "100", "--output", "json")
    assert status == 0, err
    check_balance(json.loads(out))
    wait_for_nothing_left(home)
