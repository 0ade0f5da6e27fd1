"""The way of the README with the installed command alone: every step answers with JSON, and the numbers are by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("penstock")
SECONDS = 300

USAGE = """
from penstock import Pipeline, agg, correct, tumbling

pipeline = Pipeline("usage")
requests = pipeline.topic(
    "usage.requests",
    schema="id string, source string, account string, model string, quantity decimal(18,6), accepted_at timestamp",
    identity=["source", "id"],
    event_time="accepted_at",
    late=correct("400 days"),
)

@pipeline.stream(requests)
def billable(requests):
    return requests.where("quantity > 0")

pipeline.view("usage_by_account", billable, by=["account"],
              columns={"requests": agg.count(), "quantity": agg.sum("quantity")})
pipeline.view("usage_by_minute", billable, by=[tumbling("1 minute"), "model"], columns={"requests": agg.count()})
"""


def request(number: int, *, account: str, quantity: str, model: str = "small", second: int = 0) -> str:
    at = f"2026-03-01T12:{second // 60:02}:{second % 60:02}Z"
    fields = {"id": str(number), "source": "gw", "account": account, "model": model, "quantity": quantity}
    return json.dumps(fields | {"accepted_at": at})


LINES = [
    request(1, account="acme", quantity="1.5", second=10),
    request(2, account="acme", quantity="2.25", second=50),
    request(3, account="zeta", quantity="4", model="large", second=60),
    request(1, account="acme", quantity="1.50", second=10),  # the same again
    request(1, account="acme", quantity="9", second=10),  # something else under the same identity
    "not a request",
    request(4, account="acme", quantity="0", second=70),  # applied; the function of the user leaves it out
]
OUTCOMES = {"read": 7, "applied": 4, "duplicate": 1, "conflict": 1, "rejected": 1, "late": 0, "pending": 0}
BY_ACCOUNT = [
    {"account": "acme", "requests": 2, "quantity": "3.750000"},
    {"account": "zeta", "requests": 1, "quantity": "4.000000"},
]
BY_MINUTE = [
    {"window_start": "2026-03-01T12:00:00Z", "window_end": "2026-03-01T12:01:00Z", "model": "small", "requests": 2},
    {"window_start": "2026-03-01T12:01:00Z", "window_end": "2026-03-01T12:02:00Z", "model": "large", "requests": 1},
]


@dataclass(frozen=True)
class Shell:
    """A folder with a pipeline file in it, and the command."""

    folder: Path
    environment: dict[str, str]

    def json(self, *words: str, typed: str = "") -> Any:
        """What a command that ends well prints: one JSON document, and nothing else on standard output."""
        done = self.run(*words, "--output", "json", typed=typed)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *words],
            input=typed,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on, both its outputs in one; it is killed should it hang."""
        process = subprocess.Popen(
            [COMMAND, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        guard = threading.Timer(SECONDS, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()
            process.wait(SECONDS)


def wait_for_line(process: subprocess.Popen[str], start: str) -> str:
    for line in process.stdout or ():
        if line.startswith(start):
            return line.removeprefix(start).strip()
    raise AssertionError(f"it ended with status {process.wait(SECONDS)} and never said {start!r}")


def end(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    return process.returncode


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "usage.py").write_text(USAGE, encoding="utf-8")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    shell = Shell(tmp_path, plain | {"PYTHONUNBUFFERED": "1"})
    with shell.running("broker", "--listen", "127.0.0.1:0") as broker:
        shell.environment["PENSTOCK_BOOTSTRAP"] = wait_for_line(broker, "listening on ")
        yield shell
        assert end(broker) == 0, "SIGTERM ends the broker clean"


def test_v1_v2_the_way_of_the_readme_from_lines_to_a_proved_number(shell: Shell) -> None:
    plan = shell.json("plan", "usage.py")
    assert [view["view"] for view in plan["views"]] == ["usage_by_account", "usage_by_minute"]

    assert shell.json("topics", "create", "usage.requests")["partitions"] == 1
    produced = shell.json("produce", "usage.requests", typed="\n".join(LINES) + "\n")
    assert (produced["topic"], produced["records"]) == ("usage.requests", 7)
    assert [row["value"] for row in shell.json("consume", "usage.requests")] == LINES

    assert shell.json("run", "usage.py", "--once") == {"batches": 1, "read": 7}
    check_views(shell)
    check_others(shell)
    check_service(shell)


def check_views(shell: Shell) -> None:
    head = {"cut": {"usage.requests": {"0": 7}}, "outcomes": OUTCOMES, "complete_through": None}
    for name, rows in (("usage_by_account", BY_ACCOUNT), ("usage_by_minute", BY_MINUTE)):
        assert shell.json("views", "show", name) == {"view": name, **head, "rows": rows}
    assert shell.json("views", "show", "usage_by_account", "--limit", "1")["rows"] == BY_ACCOUNT[:1]
    listed = shell.json("views", "list")
    assert [(row["view"], row["pipeline"], row["by"]) for row in listed] == [
        ("usage_by_account", "usage", ["account"]),
        ("usage_by_minute", "usage", ["window_start", "window_end", "model"]),
    ]


def check_others(shell: Shell) -> None:
    """Who runs, and what became of the records that count nowhere."""
    [pipeline] = shell.json("status")["pipelines"]
    assert (pipeline["pipeline"], pipeline["running"], pipeline["batch"]) == ("usage", False, 1)
    assert (pipeline["outcomes"], pipeline["outbox"]) == (OUTCOMES, 0)
    assert [row["value"] for row in shell.json("consume", "usage.requests.rejected")] == [LINES[5]]
    assert [row["value"] for row in shell.json("consume", "usage.requests.conflicts")] == [LINES[4]]


def check_service(shell: Shell) -> None:
    """It goes on from where it stood, takes what comes, ends on SIGTERM with status 0; then all of it is proved."""
    shell.json("produce", "usage.requests", typed=request(5, account="zeta", quantity="0.000001"))
    with shell.running("run", "usage.py") as service:
        wait_for_line(service, "batch 2: ")
        [pipeline] = shell.json("status")["pipelines"]
        assert (pipeline["running"], pipeline["pid"]) == (True, service.pid)
        assert end(service) == 0, "SIGTERM ends a pipeline clean"
    assert shell.json("views", "show", "usage_by_account")["rows"][1]["quantity"] == "4.000001"
    proof = shell.json("views", "verify")
    assert (proof["differences"], [each["balance"] for each in proof["pipelines"]]) == (0, [True])
