"""The pipeline file that ships with the demo is the example of the README, and fits what the producer sends."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.core.declared import parse_schema
from penstock.demo import play, usage
from penstock.demo.traffic import TOPIC, Request

ROOT = Path(__file__).resolve().parents[3]


def test_the_file_of_the_demo_stands_in_the_readme_word_for_word() -> None:
    assert play.FILE.read_text(encoding="utf-8") in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_producer_sends_what_the_file_declares() -> None:
    topic = usage.requests.topic
    request = Request("r1", "gateway-1", "northwind", "mle-code", 1, 0)
    assert topic.name == TOPIC
    assert topic.columns == parse_schema(", ".join(str(column) for column in topic.columns))
    assert list(json.loads(request.as_json())) == [column.name for column in topic.columns]


def test_the_demo_bills_by_a_view_of_the_file() -> None:
    assert usage.pipeline.name == play.PIPELINE
    assert play.VIEW in [view.name for view in usage.pipeline.views]
