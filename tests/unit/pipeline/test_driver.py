"""What ends a query, and whether it is started again."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Never, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from penstock.core.errors import BugError, CallerError, CorruptError, RetryError, fail
from penstock.pipeline.batch import RESULT_LIMIT
from penstock.pipeline.driver import Driver
from penstock.pipeline.microbatch import Processor


def driver(*, records_max: int = 100) -> Driver:
    processor = cast(Processor, SimpleNamespace(registered=SimpleNamespace(name="usage"), number=0))
    return Driver(processor, "127.0.0.1:1", Path(), records_max, lambda _: None, lambda _: None, threading.Event())


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


def test_l5_damage_of_the_log_stops_the_pipeline_and_is_not_tried_again_for_ever() -> None:
    damage = fail(CorruptError, "records-unreadable", offset=7, reason="a number is longer than ten bytes")
    told = "".join(traceback.format_exception(damage))
    error = reason(driver(), told=f"An exception was thrown from the Python worker:\n{told}")
    assert isinstance(error, CorruptError)
    assert "a number is longer than ten bytes" in error.message


def test_v3_where_spark_is_gone_the_process_ends_and_says_that_it_may_be_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    which = driver()
    monkeypatch.setattr(Driver, "_catch_up", refused)
    with pytest.raises(RetryError, match="spark-gone"):
        which.drive(once=False)


def test_where_spark_is_gone_because_all_were_told_to_stop_that_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    which = driver()

    def stopped(_: Driver) -> Never:
        which.stopping.set()
        raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr(Driver, "_catch_up", stopped)
    which.drive(once=False)


def refused(_: Driver) -> Never:
    raise ConnectionRefusedError(111, "Connection refused")
