"""`penstock topics`, `produce` and `consume` against a running broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.values import cut_from_token
from penstock.testing.broker import BrokerProcess, start_broker

SECONDS = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with start_broker(tmp_path_factory.mktemp("log")) as started:
        yield started


def run(broker: BrokerProcess, *arguments: str, lines: bytes = b"") -> tuple[int, Any]:
    """Run `penstock ARGUMENTS`; gives its status and the one document it printed, or its error."""
    command = [sys.executable, "-c", "from penstock.cli.app import main; main()", *arguments]
    command += ["--bootstrap", broker.address, "--output", "json"]
    done = subprocess.run(command, input=lines, capture_output=True, timeout=SECONDS, check=False)
    return done.returncode, json.loads(done.stdout or done.stderr)


def test_topics_are_made_listed_described_and_deleted(broker: BrokerProcess) -> None:
    status, made = run(broker, "topics", "create", "t1", "--partitions", "2", "--config", "segment.bytes=65536")
    assert (status, made) == (0, {"topic": "t1", "partitions": 2, "configs": {"segment.bytes": "65536"}})
    assert {"topic": "t1", "partitions": 2} in run(broker, "topics", "list")[1]
    described = run(broker, "topics", "describe", "t1")[1]
    assert described["partitions"] == [{"partition": p, "start": 0, "end": 0, "records": 0} for p in (0, 1)]
    status, preview = run(broker, "topics", "delete", "t1", "--dry-run")
    assert (status, preview["deleted"]) == (0, False)
    assert run(broker, "topics", "describe", "t1")[0] == 0
    assert run(broker, "topics", "delete", "t1")[1]["deleted"] is True
    status, refused = run(broker, "topics", "describe", "t1")
    assert (status, refused["error"]["code"]) == (2, "topic-unknown")


def test_lines_are_produced_and_consumed_and_the_token_names_the_cut_behind_them(broker: BrokerProcess) -> None:
    run(broker, "topics", "create", "t2")
    status, sent = run(broker, "produce", "t2", "--key-separator", ":", lines=b"a:1\nb:2:3\nc:\n")
    assert (status, sent["records"]) == (0, 3)
    assert cut_from_token(sent["token"]) == {"t2": {0: 3}}
    found = run(broker, "consume", "t2")[1]
    assert [(row["offset"], row["key"], row["value"]) for row in found] == [
        (0, "a", "1"),
        (1, "b", "2:3"),
        (2, "c", ""),
    ]
    assert [row["offset"] for row in run(broker, "consume", "t2", "--from", "1", "--max", "1")[1]] == [1]
    assert run(broker, "consume", "t2", "--from", "latest")[1] == []


def test_a_file_is_produced_and_bytes_that_are_no_text_are_shown_as_base64(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    run(broker, "topics", "create", "t3")
    (tmp_path / "lines").write_bytes(b"plain\n\xff\xfe\n")
    assert run(broker, "produce", "t3", str(tmp_path / "lines"))[1]["records"] == 2
    rows = run(broker, "consume", "t3", "--partition", "0")[1]
    assert (rows[0]["key"], rows[0]["value"], rows[1]["value_base64"]) == (None, "plain", "//4=")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["produce", "missing"], "topic-unknown"),
        (["consume", "missing"], "topic-unknown"),
        (["consume", "t4", "--partition", "7"], "partition-missing"),
        (["consume", "t4", "--from", "yesterday"], "position-unreadable"),
        (["produce", "t4", "/no/such/file"], "input-unreadable"),
        (["produce", "t4", "--key-separator", "|"], "key-missing"),
        (["topics", "create", "x", "--config", "nonsense"], "topic-config-unreadable"),
    ],
)
def test_a_wrong_call_says_what_is_wrong_and_what_to_do(broker: BrokerProcess, arguments: list[str], code: str) -> None:
    run(broker, "topics", "create", "t4")
    status, told = run(broker, *arguments, lines=b"a line\n")
    assert (status, told["error"]["code"]) == (2, code)
    assert told["error"]["next"]
