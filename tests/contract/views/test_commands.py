"""`penstock views` and `penstock status` as a user types them."""

from __future__ import annotations

import json

import pytest

from penstock.cli.app import run
from penstock.core.clock import RealClock
from penstock.views.commit import commit
from penstock.views.connection import Database
from tests.contract.views.scripts import TOPIC, VIEW, full_batch, take


@pytest.fixture(autouse=True)
def _one_batch(database: Database, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", url)
    commit(database, take(database), full_batch(1, 0, "a"), clock=RealClock())


def test_a_view_is_shown_as_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["views", "show", VIEW, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "view": VIEW,
        "cut": {TOPIC: {"0": 2}},
        "outcomes": {"read": 2, "applied": 1, "duplicate": 0, "conflict": 0, "rejected": 1, "late": 0, "pending": 0},
        "complete_through": None,
        "rows": [{"account": "acme", "requests": 1, "amount": "2.50", "mean": "2.500000"}],
    }


def test_views_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["views", "list", "--output", "json"]) == 0
    assert [row["view"] for row in json.loads(capsys.readouterr().out)] == [VIEW]


def test_a_view_that_is_not_there_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["views", "show", "usage_by_acount"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "did you mean usage_by_account" in shown.err
    assert "penstock views list" in shown.err


def test_status_tells_position_and_balance(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--output", "json"]) == 0
    [pipeline] = json.loads(capsys.readouterr().out)["pipelines"]
    assert (pipeline["pipeline"], pipeline["running"], pipeline["batch"]) == ("usage", True, 1)
    assert pipeline["cut"] == {TOPIC: {"0": 2}}
    assert pipeline["outcomes"]["read"] == 2
    assert (pipeline["outbox"], pipeline["views"]) == (1, [VIEW])
