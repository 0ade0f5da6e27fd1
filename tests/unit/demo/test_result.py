"""How a demo ends: everything holds or it does not, as lines and as one document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import BugError
from penstock.demo.drill import Outage
from penstock.demo.freshness import Spread
from penstock.demo.proof import Proof, read_proof
from penstock.demo.result import Rates, Result

RESULT = Result(
    outcomes={"read": 110, "applied": 100, "duplicate": 5, "conflict": 2, "rejected": 3, "late": 0, "pending": 0},
    truth_differences=[],
    strangers=0,
    proof=Proof(0, (), views=2, rows=30),
    freshness=Spread(150.0, 2_500.0, 3_000.0, 100),
    steady=Spread(140.0, 390.0, 400.0, 80),
    rates=Rates(1_000, 999.96, 930.12, 47.04),
    bill={"account": "northwind", "requests": 1_234, "quantity": "3000.500000"},
    outages=[Outage("broker", 113.0, killed=113.5, started=115.5, fresh=117.0)],
    begun=100.0,
    home=Path("/somewhere"),
)


def test_a_demo_holds_when_balance_truth_and_proof_do() -> None:
    assert RESULT.holds
    assert not replace(RESULT, outcomes={**RESULT.outcomes, "applied": 99}).holds
    assert not replace(RESULT, truth_differences=["records read all: sent 111, found 110"]).holds
    assert not replace(RESULT, proof=Proof(1, ("x",), views=2, rows=30)).holds


def test_the_document_has_what_scripts_ask_for() -> None:
    assert json.loads(json.dumps(RESULT.document())) == {
        "holds": True,
        "outcomes": {
            "read": 110,
            "applied": 100,
            "duplicate": 5,
            "conflict": 2,
            "rejected": 3,
            "late": 0,
            "pending": 0,
        },
        "balance": True,
        "differences": 0,
        "found": [],
        "truth": {"differences": [], "strangers": 0},
        "bill": {"account": "northwind", "requests": 1_234, "quantity": "3000.500000"},
        "freshness_ms": {
            "p50": 150.0,
            "p99": 2_500.0,
            "max": 3_000.0,
            "samples": 100,
            "resolution": 5,
            "steady": {"p50": 140.0, "p99": 390.0, "max": 400.0, "samples": 80},
        },
        "rates": {"asked": 1_000, "sent": 1_000.0, "applied": 930.1, "seconds": 47.0},
        "drill": [{"killed": "broker", "at_s": 13.5, "fresh_again_after_s": 3.5}],
        "home": "/somewhere",
    }


def test_the_lines_end_with_a_verdict() -> None:
    text = "\n".join(RESULT.lines())
    assert max(len(line) for line in RESULT.lines()) <= 80
    for part in (
        "northwind: 1,234 requests, quantity 3000.500000",
        "read 110 = applied 100 + duplicate 5 + conflict 2",
        "  + rejected 3 + late 0 + pending 0",
        "0 differences in 30 rows of 2 views",
        "p50 150 ms, p99 2,500 ms",
        "p50 140 ms, p99 390 ms",
        "broker: killed with -9 at 0:13, the view fresh again after 3.5 s",
        "Every record is accounted for",
    ):
        assert part in text, part


def test_differences_are_listed_and_the_verdict_says_so() -> None:
    broken = replace(
        RESULT, truth_differences=["outcome applied: sent 101, found 100"], proof=Proof(1, ("a row",), views=2, rows=30)
    )
    text = "\n".join(broken.lines())
    for part in ("outcome applied: sent 101, found 100", "a row", "1 difference in", "IT DOES NOT ADD UP"):
        assert part in text, part


def test_the_answer_of_the_proof_is_read_for_the_pipeline_of_the_demo() -> None:
    found = {"where": "usage_by_account", "what": "account='northwind', requests", "expected": "2", "found": "3"}
    mine = {"pipeline": "usage", "differences": 1, "views": [{"rows": 20}, {"rows": 9}], "found": [found]}
    other = {"pipeline": "another", "differences": 7, "views": [], "found": []}
    printed = json.dumps({"differences": 8, "pipelines": [other, mine]})
    assert read_proof(printed, pipeline="usage") == Proof(
        1, ("usage_by_account, account='northwind', requests: expected 2, found 3",), views=2, rows=29
    )
    with pytest.raises(BugError):
        read_proof(printed, pipeline="third")
