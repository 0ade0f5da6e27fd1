"""`penstock views verify`: prove views from the log, and say what was compared and what differs.

V1, V2   The answer holds, per outcome, what the log proves and what the pipeline recorded; `balance` is whether every
record read has one recorded outcome. Exit status 0 means no difference, 1 means at least one.
Limit: the table shows the first 50 differences; JSON holds all.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit, say
from penstock.core.values import cut_to_json
from penstock.views.proof import Difference, Report
from penstock.views.proof_judge import Outcomes

SHOWN_MAX = 50
OUTCOMES = ("applied", "duplicate", "conflict", "rejected", "late", "pending")


def verify(
    name: Annotated[str | None, typer.Argument(help="The view to prove; all without it.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="The pipeline file, where it is no longer the one that the ledger names.")
    ] = None,
    bootstrap: Annotated[str | None, typer.Option(help="The log: host:port.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Recompute views from the log alone and compare; status 1 if anything differs."""
    from penstock.core.settings import read_settings
    from penstock.pipeline.verify import verify as prove

    reports = prove(name, file=file, settings=read_settings(bootstrap=bootstrap))
    shown_max = None if output is Output.JSON else SHOWN_MAX
    documents = [document(report, shown_max=shown_max) for report in reports]
    count = sum(len(report.differences) for report in reports)
    if output is Output.JSON:
        emit({"differences": count, "pipelines": documents}, output=output)
    for each in documents if output is Output.TABLE else ():
        emit(each, output=output)
    say(f"{count} difference{'' if count == 1 else 's'}")
    raise typer.Exit(1 if count else 0)


def document(report: Report, *, shown_max: int | None) -> dict[str, object]:
    """The report as one document; `differences` counts them all, `found` lists them."""
    return {
        "pipeline": report.pipeline,
        "cut": cut_to_json(report.cut),
        "views": [
            {"view": view.view, "rows": view.rows, "differences": len(view.differences)} for view in report.views
        ],
        "outcomes": _outcome_rows(report),
        "balance": _is_balanced(report),
        "differences": len(report.differences),
        "found": [_row(difference) for difference in report.differences[:shown_max]],
        "said": report.said,
    }


def _outcome_rows(report: Report) -> list[dict[str, object]]:
    proved, recorded = _by_name(report.expected), _by_name(report.recorded)
    read = {"outcome": "read", "proved": sum(proved.values()), "recorded": sum(report.read.values())}
    return [read, *({"outcome": name, "proved": proved[name], "recorded": recorded[name]} for name in OUTCOMES)]


def _by_name(outcomes: Outcomes) -> Counter[str]:
    total: Counter[str] = Counter()
    for counts in outcomes.values():
        for outcome, count in counts.items():
            total[outcome.name] += count
    return total


def _is_balanced(report: Report) -> bool:
    """Whether the recorded outcomes add up to the recorded reads, in every partition."""
    sums = {where: sum(counts.values()) for where, counts in report.recorded.items()}
    return all(sums.get(where, 0) == report.read.get(where, 0) for where in {*sums, *report.read})


def _row(difference: Difference) -> dict[str, object]:
    return {
        "where": difference.where,
        "what": difference.what,
        "expected": difference.expected,
        "found": difference.found,
    }
