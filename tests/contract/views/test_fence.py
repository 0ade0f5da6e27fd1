"""Who drives a pipeline: one at a time, and nobody who was taken over."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

import psycopg
import pytest

from penstock.core.clock import ManualClock, RealClock
from penstock.core.declared import Definition, Late
from penstock.core.errors import CallerError, FencedError, RetryError, fail
from penstock.views import fence, read, schema
from penstock.views.commit import commit
from penstock.views.connection import Database
from tests.contract.views.scripts import ACCOUNT_VIEW, VIEW, batch, definition, everything, full_batch, take

CLOCK = RealClock()


def test_v3_a_second_driver_waits_ten_seconds_and_is_refused_naming_the_first(database: Database, url: str) -> None:
    take(database)
    clock = ManualClock()
    with Database(url) as second, pytest.raises(FencedError) as refused:
        take(second, wait_s=fence.WAIT_S, clock=clock)
    assert 10 <= clock.monotonic() < 11
    assert "process 4711 on here" in str(refused.value)
    assert "--take-over" in refused.value.next_step


def test_v3_a_driver_that_was_taken_over_commits_nothing(database: Database, url: str) -> None:
    first = take(database)
    commit(database, first, full_batch(1, 0, "a"), clock=CLOCK)
    with Database(url) as other:
        second = take(other, take_over=True, wait_s=10)
        assert second.epoch == first.epoch + 1
        before = everything(url)
        with pytest.raises(FencedError, match="pipeline-fenced"):
            commit(database, first, full_batch(2, 2, "b"), clock=CLOCK)
        assert everything(url) == before
        commit(other, second, full_batch(2, 2, "b"), clock=CLOCK)


def test_v3_a_stale_epoch_is_refused_even_where_the_lock_is_held(database: Database, url: str) -> None:
    registered = take(database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE penstock.pipelines SET epoch = epoch + 1")
    with pytest.raises(FencedError, match="this process holds epoch 1, the ledger is at 2"):
        commit(database, registered, batch(1, 0, 1), clock=CLOCK)


def test_v3_a_driver_that_stood_still_during_a_take_over_commits_nothing(database: Database, url: str) -> None:
    with sleeper(url, inside_transaction=False) as process:
        process.send_signal(signal.SIGSTOP)
        registered = take(database, take_over=True, wait_s=10)
        commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
        before = everything(url)
        process.send_signal(signal.SIGCONT)
        answer, _ = process.communicate("go\n", timeout=60)
    assert answer.strip() == "pipeline-fenced"
    assert everything(url) == before


def test_v3_a_driver_that_stands_still_inside_its_transaction_does_not_stop_a_take_over(
    database: Database, url: str
) -> None:
    with sleeper(url, inside_transaction=True) as process:
        process.send_signal(signal.SIGSTOP)
        registered = take(database, take_over=True, wait_s=10)
        commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
        process.send_signal(signal.SIGCONT)
        answer, _ = process.communicate("go\n", timeout=60)
    assert answer.strip() == "pipeline-fenced"
    assert read.rows(database, VIEW).rows[0][1] == 1


SLEEPER = """
import sys
from penstock.core.clock import RealClock
from penstock.core.errors import PenstockError
from penstock.views import fence
from penstock.views.commit import commit
from penstock.views.connection import Database
from tests.contract.views.scripts import full_batch, take

def say_and_wait():
    print("taken", flush=True)
    sys.stdin.readline()

database = Database(sys.argv[1])
registered = take(database)
if sys.argv[2] == "True":
    connection, check = database.connection, fence.check_epoch
    def check_and_stand(*arguments, **options):
        check(*arguments, **options)
        if options.get("lock"):
            fence.check_epoch = check
            say_and_wait()
    fence.check_epoch = check_and_stand
else:
    say_and_wait()
try:
    commit(database, registered, full_batch(1, 0, "zombie"), clock=RealClock())
    print("committed")
except PenstockError as error:
    print(error.code)
"""


@contextmanager
def sleeper(url: str, *, inside_transaction: bool) -> Iterator[subprocess.Popen[str]]:
    """Another driver that has taken the pipeline and waits for a word before it commits, or before it goes on."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, url, str(inside_transaction)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (definition(fingerprint="f2"), "stream billable changed"),
        (definition(views=()), f"view {VIEW} changed"),
        (definition(views=(ACCOUNT_VIEW, dataclasses.replace(ACCOUNT_VIEW, name="more"))), "view more changed"),
        (
            definition(views=(dataclasses.replace(ACCOUNT_VIEW, measures=ACCOUNT_VIEW.measures[:1]),)),
            f"view {VIEW} changed",
        ),
    ],
)
def test_a_changed_pipeline_is_refused_and_says_what_changed(
    database: Database, changed: Definition, words: str
) -> None:
    commit(database, take(database), full_batch(1, 0, "a"), clock=CLOCK)
    with pytest.raises(CallerError, match=words) as refused:
        take(database, changed)
    assert refused.value.next_step == "penstock run /srv/usage.py --as NAME"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("columns", definition().topics[0].columns[:3], "the schema of topic usage.requests changed"),
        ("identity", ("id", "account"), "the identity of topic usage.requests changed"),
        ("late", Late("drop"), "the late policy of topic usage.requests changed"),
    ],
)
def test_a_changed_topic_is_refused_and_says_what_changed(
    database: Database, field: str, value: object, words: str
) -> None:
    first = definition()
    topic = dataclasses.replace(first.topics[0], **{field: value})  # type: ignore[arg-type]  # the field's own type
    take(database, first)
    with pytest.raises(CallerError, match=words):
        take(database, dataclasses.replace(first, topics=(topic,)))


def test_a_pipeline_file_may_move(database: Database) -> None:
    take(database)
    assert take(database, dataclasses.replace(definition(), file="/elsewhere/usage.py")).epoch == 2


def test_a_refused_driver_leaves_the_pipeline_to_the_one_that_runs_it(database: Database, url: str) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    with Database(url) as other, pytest.raises(CallerError, match="pipeline-changed"):
        take(other, definition(fingerprint="f2"), take_over=True, wait_s=10)
    commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK)


def test_a_function_may_be_corrected_until_a_batch_is_committed(database: Database) -> None:
    take(database)
    corrected = take(database, definition(fingerprint="f2"))
    commit(database, corrected, full_batch(1, 0, "a"), clock=CLOCK)
    with pytest.raises(CallerError, match="pipeline-changed"):
        take(database, definition(fingerprint="f3"))


def test_the_name_of_another_pipelines_view_is_refused_and_may_then_be_changed(database: Database) -> None:
    take(database)
    with pytest.raises(CallerError, match=f"the name {VIEW} belongs to pipeline usage"):
        take(database, definition("second"))
    renamed = dataclasses.replace(ACCOUNT_VIEW, name="other_name")
    assert take(database, definition("second", views=(renamed,))).epoch == 1


def test_a_view_never_takes_the_name_of_a_users_table(database: Database) -> None:
    database.connection.execute(f"CREATE TABLE {VIEW} (a int)")
    with pytest.raises(CallerError, match="belongs to a table that is not ours"):
        take(database)


def test_a_database_that_a_later_release_wrote_is_refused(database: Database) -> None:
    take(database)
    database.connection.execute("UPDATE penstock.schema_version SET version = %s", (schema.VERSION + 1,))
    with pytest.raises(CallerError, match="database-schema-newer"):
        take(database)


def test_status_tells_whether_the_driver_is_alive(database: Database, url: str) -> None:
    with Database(url) as other:
        take(other)
        assert [(row["running"], row["host"], row["pid"], row["epoch"]) for row in read.status(database)] == [
            (True, "here", 4711, 1)
        ]
    assert [row["running"] for row in read.status(database)] == [False]


def test_v3_the_lock_of_a_lost_session_comes_back_though_the_first_try_to_connect_fails(
    database: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may not know for hours that a session is gone, and its lock would be held against its own driver."""
    registered = take(database)
    lost, database._connection = database._connection, None  # the server still holds it open
    with monkeypatch.context() as patched:
        patched.setattr("penstock.views.connection._connect", no_connection)
        with pytest.raises(RetryError):
            fence.hold(database, registered, clock=CLOCK)
    fence.hold(database, registered, clock=CLOCK, wait_s=5)
    assert lost is not None
    with pytest.raises(psycopg.OperationalError):
        lost.execute("SELECT 1")


def no_connection(*_: object, **__: object) -> Never:
    raise fail(RetryError, "database-unreachable", where="here", reason="no answer")
