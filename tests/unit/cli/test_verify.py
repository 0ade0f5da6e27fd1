"""`penstock views verify` prints what was compared, and its status says whether all of it was equal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.verify import document, verify
from penstock.core.units import Offset, PartitionId
from penstock.core.values import TopicPartition
from penstock.views.proof import Difference, ProvedView, Report
from penstock.views.proof_judge import APPLIED, DUPLICATE, NO_IDENTITY, UNDECODABLE

P0, P1 = (TopicPartition("t", PartitionId(number)) for number in (0, 1))
OUTCOMES = {P0: {APPLIED: 2, DUPLICATE: 1}, P1: {APPLIED: 1, UNDECODABLE: 1, NO_IDENTITY: 2}}
REPORT = Report(
    pipeline="usage",
    cut={"t": {PartitionId(0): Offset(3), PartitionId(1): Offset(4)}},
    views=(ProvedView("by_model", 2, ()),),
    read={P0: 3, P1: 4},
    expected=OUTCOMES,
    recorded=OUTCOMES,
    log_differences=(),
    said="the user's function, run by Spark",
)
WRONG = replace(
    REPORT,
    views=(ProvedView("by_model", 2, tuple(Difference("by_model", f"row {n}", "1", "2") for n in range(60))),),
    recorded={**OUTCOMES, P0: {APPLIED: 3, DUPLICATE: 1}},
    log_differences=(Difference("t-0", "applied", "2", "3"),),
)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Runs the command on a report that is there already: proving takes a log and a database."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(verify)

    def run(report: Report, *arguments: str) -> tuple[int, str, str]:
        proving = ModuleType("penstock.pipeline.verify")
        proving.verify = lambda name, *, file, settings: [replace(report, pipeline=name or "all")]  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "penstock.pipeline.verify", proving)
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr

    return run


def test_v2_no_difference_is_status_0_and_one_document(command: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = command(REPORT, "by_model", "--output", "json")
    assert (status, err) == (0, "0 differences\n")
    answer = json.loads(out)
    assert (answer["differences"], len(answer["pipelines"])) == (0, 1)
    assert answer["pipelines"][0] == {
        "pipeline": "by_model",
        "cut": {"t": {"0": 3, "1": 4}},
        "views": [{"view": "by_model", "rows": 2, "differences": 0}],
        "outcomes": [
            {"outcome": "read", "proved": 7, "recorded": 7},
            {"outcome": "applied", "proved": 3, "recorded": 3},
            {"outcome": "duplicate", "proved": 1, "recorded": 1},
            {"outcome": "conflict", "proved": 0, "recorded": 0},
            {"outcome": "rejected", "proved": 3, "recorded": 3},
            {"outcome": "late", "proved": 0, "recorded": 0},
            {"outcome": "pending", "proved": 0, "recorded": 0},
        ],
        "balance": True,
        "differences": 0,
        "found": [],
        "said": "the user's function, run by Spark",
    }


def test_v2_differences_are_status_1_and_all_are_in_the_json(command: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = command(WRONG, "--output", "json")
    assert (status, err) == (1, "61 differences\n")
    assert json.loads(out)["differences"] == 61
    answer = json.loads(out)["pipelines"][0]
    assert (answer["pipeline"], answer["balance"], answer["differences"], len(answer["found"])) == (
        "all",
        False,
        61,
        61,
    )
    assert answer["found"][0] == {"where": "t-0", "what": "applied", "expected": "2", "found": "3"}


def test_a_table_shows_the_first_differences_and_counts_all(command: Callable[..., tuple[int, str, str]]) -> None:
    status, out, _ = command(WRONG)
    assert status == 1
    assert "row 48" in out
    assert "row 49" not in out
    assert document(WRONG, shown_max=50)["differences"] == 61


def test_v1_a_partition_that_only_the_reads_name_breaks_the_balance() -> None:
    strange = replace(REPORT, read={**REPORT.read, TopicPartition("t", PartitionId(2)): 1})
    assert document(strange, shown_max=None)["balance"] is False
