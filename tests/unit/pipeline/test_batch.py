"""Whose fault it is that a job ended: the function's, or nobody's that a record could be rejected for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.pipeline import batch
from penstock.pipeline.batch import RESULT_LIMIT, FunctionRaised, run_streams
from penstock.pipeline.graph import Graph

GRAPH = cast(Graph, SimpleNamespace(pipeline=None, definition=SimpleNamespace(topics=(), views=())))


def ended(told: str, monkeypatch: pytest.MonkeyPatch) -> BaseException:
    def raises(*_: object, **__: object) -> None:
        raise PySparkException(told)

    monkeypatch.setattr(batch, "streams_of", raises)
    with pytest.raises((PySparkException, FunctionRaised)) as caught:
        run_streams(GRAPH, accepted={}, spark=cast(SparkSession, None))
    return caught.value


def test_what_a_function_raised_is_laid_to_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = ended("Traceback ...\nValueError: no such account\n", monkeypatch)
    assert isinstance(raised, FunctionRaised)
    assert str(raised) == "ValueError: no such account"


@pytest.mark.parametrize(
    "told",
    [
        f"Total size of serialized results of 3 tasks is bigger than {RESULT_LIMIT} (512.0 MiB)",
        "[SPARK_JOB_CANCELLED] Job 7 cancelled part of cancelled job group",
        "Job 7 cancelled because SparkContext was shut down",
    ],
)
def test_v1_no_record_is_rejected_for_what_is_no_fault_of_its_own(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ended(told, monkeypatch), PySparkException)
