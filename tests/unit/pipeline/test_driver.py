"""What ends a query, and whether it is started again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pyspark.errors import PySparkException

from penstock.core.errors import BugError, CallerError, RetryError, fail
from penstock.pipeline.driver import RESULT_LIMIT, Driver
from penstock.pipeline.microbatch import Processor


def driver(*, records_max: int = 100) -> Driver:
    processor = cast(Processor, SimpleNamespace(registered=SimpleNamespace(name="usage"), number=0))
    return Driver(processor, "127.0.0.1:1", Path(), records_max, lambda _: None, lambda _: None)


def reason(which: Driver, *, told: str, failure: Exception | None = None) -> Exception:
    which._failure = failure
    return which._reason(PySparkException(told))


def test_an_error_of_ours_is_told_as_what_it_is() -> None:
    ours = fail(BugError, "invariant-broken", claim="two and two", seen={})
    assert reason(driver(), told="StreamingQueryException", failure=ours) is ours
    assert isinstance(reason(driver(), told="x", failure=fail(CallerError, "source-without-topic")), CallerError)


def test_what_spark_says_of_the_reading_side_is_tried_again() -> None:
    error = reason(driver(), told="Traceback ...\nOSError: gone\n")
    assert isinstance(error, RetryError)
    assert error.code == "query-ended"
    assert error.fields["reason"] == "OSError: gone"


def test_l7_a_batch_that_the_driver_cannot_hold_is_taken_in_smaller_parts() -> None:
    which = driver(records_max=100)
    told = f"Total size of serialized results of 3 tasks is bigger than {RESULT_LIMIT} (512.0 MiB)"
    assert [cast(RetryError, reason(which, told=told)).code for _ in range(5)] == ["batch-beyond-driver"] * 5
    assert which.records_max == 1
