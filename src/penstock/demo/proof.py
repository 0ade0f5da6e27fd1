"""Read the answer of `penstock views verify`, which ran as a process of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.core.invariant import invariant


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved of one pipeline: how many rows of how many views, and what differs."""

    differences: int
    found: tuple[str, ...]
    views: int
    rows: int


def read_proof(printed: str, *, pipeline: str) -> Proof:
    """The part of the answer that is about this pipeline."""
    reports = [report for report in json.loads(printed)["pipelines"] if report["pipeline"] == pipeline]
    invariant(len(reports) == 1, "the proof answers for the demo's pipeline", found=len(reports))
    report = reports[0]
    return Proof(
        differences=int(report["differences"]),
        found=tuple(_spell(found) for found in report["found"]),
        views=len(report["views"]),
        rows=sum(int(view["rows"]) for view in report["views"]),
    )


def _spell(found: dict[str, object]) -> str:
    return "{where}, {what}: expected {expected}, found {found}".format_map(found)
