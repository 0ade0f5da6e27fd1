"""What readers are told: lists, limits, hints, and what the proof needs."""

from __future__ import annotations

import pytest
from psycopg import conninfo

from penstock.core.clock import RealClock
from penstock.core.errors import CallerError, RetryError
from penstock.core.values import OffsetRange
from penstock.views import definition as definitions
from penstock.views import read
from penstock.views.commit import commit
from penstock.views.connection import Database
from tests.contract.views.conftest import GIVEN_URL
from tests.contract.views.scripts import TOPIC, VIEW, account_partial, batch, definition, full_batch, take

CLOCK = RealClock()


def test_an_empty_database_has_no_views_and_no_pipelines(database: Database) -> None:
    assert read.list_views(database) == []
    assert read.status(database) == []
    with pytest.raises(CallerError, match="there is no view usage_by_account"):
        read.show(database, VIEW)
    with pytest.raises(CallerError, match="pipeline-unknown"):
        read.ledger(database, "usage")


def test_a_misspelt_view_is_answered_with_the_nearest_name(database: Database) -> None:
    take(database)
    with pytest.raises(CallerError, match="did you mean usage_by_account"):
        read.show(database, "usage_by_acount")


def test_views_are_listed_with_their_columns_before_the_first_batch(database: Database) -> None:
    take(database)
    assert read.list_views(database) == [
        {
            "view": VIEW,
            "pipeline": "usage",
            "by": ["account"],
            "columns": ["requests", "amount", "mean"],
            "committed_at": None,
        }
    ]
    assert read.show(database, VIEW)["rows"] == []
    assert read.pipeline_of(database, VIEW) == "usage"


def test_a_limit_keeps_the_first_rows_by_key(database: Database) -> None:
    registered = take(database)
    part = account_partial([(name, 1, "1.00", 1) for name in ("c", "a", "b")])
    commit(database, registered, batch(1, 0, 3, folds={VIEW: part}), clock=CLOCK)
    shown = read.show(database, VIEW, limit=2)["rows"]
    assert isinstance(shown, list)
    assert [row["account"] for row in shown] == ["a", "b"]
    assert read.show(database, VIEW, limit=0)["rows"] == []


def test_the_ledger_tells_ranges_winners_and_what_was_set_aside(database: Database) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 10, "a"), clock=CLOCK)
    aside = batch(
        2,
        12,
        13,
        outcomes={("rejected", "function raised"): 1},
        plan={read.SET_ASIDE: {TOPIC: [[0, 12]]}, "clock_ms": 7},
    )
    commit(database, registered, aside, clock=CLOCK)
    ledger = read.ledger(database, "usage")
    assert ledger.cut == {TOPIC: {0: 13}}
    assert ledger.batches == [[OffsetRange(TOPIC, 0, 10, 12)], [OffsetRange(TOPIC, 0, 12, 13)]]  # type: ignore[arg-type]
    assert ledger.winners == {TOPIC: [(0, 10)]}
    assert ledger.set_aside == {TOPIC: [(0, 12)]}


def test_a_definition_comes_back_as_it_was_registered(database: Database) -> None:
    take(database)
    assert read.registered_definition(database, "usage") == definition()
    assert definitions.differences(definition(), read.registered_definition(database, "usage")) == []


def test_a_reader_sees_one_commit_whole(database: Database, url: str) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    query = "SELECT (SELECT sum(requests) FROM usage_by_account), (SELECT max(next_offset) FROM penstock.offsets)"
    with Database(url) as reader, read.snapshot(reader) as connection:
        assert connection.execute(query).fetchone() == (1, 2)
        commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK)
        assert connection.execute(query).fetchone() == (1, 2)
    with Database(url) as reader, read.snapshot(reader) as connection:
        assert connection.execute(query).fetchone() == (2, 4)


def test_a_database_that_does_not_exist_is_refused(url: str) -> None:
    nowhere = conninfo.make_conninfo(url, dbname="nowhere")
    with Database(nowhere) as database, pytest.raises(CallerError, match='database "nowhere" does not exist'):
        read.status(database)


@pytest.mark.skipif(GIVEN_URL is None, reason="the embedded server asks for no password; set PENSTOCK_DATABASE_URL")
def test_a_wrong_password_is_refused_and_not_shown(url: str) -> None:
    wrong = conninfo.make_conninfo(url, password="not-the-secret")
    with Database(wrong) as database, pytest.raises(CallerError, match="database-refused") as refused:
        read.status(database)
    assert "not-the-secret" not in str(refused.value)


def test_nobody_listening_is_a_wait_that_names_the_host_and_hides_the_password() -> None:
    with Database("postgresql://ann:hush@127.0.0.1:1/books") as database, pytest.raises(RetryError) as refused:
        read.status(database)
    assert "127.0.0.1:1/books" in str(refused.value)
    assert "hush" not in repr(refused.value)


def test_a_schema_of_a_later_release_is_not_read(database: Database) -> None:
    take(database)
    database.connection.execute("UPDATE penstock.schema_version SET version = version + 1")
    for ask in (read.status, read.list_views, lambda held: read.show(held, VIEW)):
        with pytest.raises(CallerError, match="database-schema-newer"):
            ask(database)
