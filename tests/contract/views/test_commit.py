"""The one commit point against a real Postgres: all or nothing, once, by one driver."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from penstock.core.clock import RealClock
from penstock.core.errors import BugError, FencedError, RetryError
from penstock.views import outbox, read
from penstock.views.commit import commit, settle
from penstock.views.connection import Database
from tests.contract.views.scripts import (
    TOPIC,
    VIEW,
    account_partial,
    batch,
    everything,
    full_batch,
    identities,
    take,
    without_folds,
)

CLOCK = RealClock()
WRITTEN_TABLES = ["identities_1", "fold_1", "batches", "outcomes", "offsets", "outbox"]


def test_v3_a_batch_and_all_that_it_says_is_there_after_its_commit(database: Database) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)

    assert read.show(database, VIEW) == {
        "view": VIEW,
        "cut": {TOPIC: {"0": 2}},
        "outcomes": {
            "read": 2,
            "applied": 1,
            "duplicate": 0,
            "conflict": 0,
            "rejected": 1,
            "late": 0,
            "pending": 0,
        },
        "complete_through": None,
        "rows": [{"account": "acme", "requests": 1, "amount": "2.50", "mean": "2.500000"}],
    }
    [(number, message)] = outbox.pending(database, registered)
    assert message.all_headers == (("source-position", f"{TOPIC}-0@1"), ("reason", "not JSON"))
    assert (message.target, message.key, message.value) == (TOPIC + ".rejected", b"k", b"{")
    outbox.forget(database, registered, ids=[number])
    assert outbox.pending(database, registered) == []


def test_v3_a_second_start_goes_on_where_the_ledger_ends(database: Database) -> None:
    first = take(database)
    assert (first.batch, first.cut, first.epoch) == (None, {}, 1)
    commit(database, first, batch(1, 0, 5), clock=CLOCK)
    second = take(database)
    assert (second.batch, second.cut, second.epoch) == (1, {TOPIC: {0: 5}}, 2)
    assert second.hash_key == first.hash_key
    assert len(first.hash_key) == 16


@pytest.mark.parametrize("table", WRITTEN_TABLES)
@pytest.mark.parametrize("way", ["an error", "a killed session", "an error at the commit"])
def test_v3_a_batch_that_fails_at_any_point_leaves_nothing(database: Database, url: str, table: str, way: str) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    before = everything(url)
    with failing(url, table=table, way=way), pytest.raises((BugError, RetryError)):
        commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK)
    assert everything(url) == before

    commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK)
    assert read.rows(database, VIEW).rows[0][1] == 2


@contextmanager
def failing(url: str, *, table: str, way: str) -> Iterator[None]:
    """Let the next write to a table fail."""
    act = "PERFORM pg_terminate_backend(pg_backend_pid())" if way == "a killed session" else "RAISE 'broken on purpose'"
    made, timing = (
        ("CREATE CONSTRAINT TRIGGER", "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW")
        if way == "an error at the commit"
        else ("CREATE TRIGGER", "FOR EACH STATEMENT")
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"CREATE FUNCTION public.boom() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {act}; RETURN NULL; END$$;"
            f"{made} boom AFTER INSERT OR UPDATE ON penstock.{table} {timing} EXECUTE FUNCTION public.boom()"
        )
        yield
        connection.execute(f"DROP TRIGGER boom ON penstock.{table}")
        connection.execute("DROP FUNCTION public.boom()")


def test_v3_a_batch_that_is_committed_already_changes_nothing(database: Database, url: str) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    before = everything(url)
    with pytest.raises(FencedError, match="batch-misplaced"):
        commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    assert everything(url) == before


@pytest.mark.parametrize("start", [1, 3])
def test_v3_a_batch_that_does_not_start_where_the_ledger_ends_is_refused(database: Database, start: int) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    with pytest.raises(FencedError, match=r"starts at \d in usage.requests-0, the ledger ends at 2"):
        commit(database, registered, batch(2, start, 9), clock=CLOCK)


def test_v1_a_batch_whose_outcomes_do_not_add_up_is_a_bug(database: Database, url: str) -> None:
    registered = take(database)
    before = everything(url)
    for outcomes in ({("applied", ""): 2}, {("applied", ""): 3, ("late", ""): 1}, {("held", ""): 3}):
        with pytest.raises(BugError):
            commit(database, registered, batch(1, 0, 3, outcomes=outcomes), clock=CLOCK)
    assert everything(url) == before


def test_v1_counts_add_up_over_batches_per_outcome_and_reason(database: Database) -> None:
    registered = take(database)
    first = {("applied", ""): 1, ("rejected", "undecodable"): 2, ("rejected", "no identity"): 1}
    commit(database, registered, batch(1, 0, 4, outcomes=first), clock=CLOCK)
    second = {("duplicate", ""): 1, ("rejected", "undecodable"): 1}
    commit(database, registered, batch(2, 4, 6, outcomes=second), clock=CLOCK)
    ledger = read.ledger(database, "usage")
    [counts] = ledger.outcomes.values()
    assert {str(outcome): count for outcome, count in counts.items()} == {
        "applied": 1,
        "duplicate": 1,
        "rejected (no identity)": 1,
        "rejected (undecodable)": 3,
    }
    assert list(ledger.read.values()) == [6]


def test_a_batch_without_rows_moves_the_cut(database: Database) -> None:
    registered = take(database)
    commit(database, registered, batch(1, 0, 7, outcomes={("late", ""): 7}), clock=CLOCK)
    assert read.show(database, VIEW)["cut"] == {TOPIC: {"0": 7}}


def test_an_identity_that_came_in_between_aborts_the_batch(database: Database, url: str) -> None:
    registered = take(database)
    commit(database, registered, batch(1, 0, 1, accepted=identities([("a", 0)])), clock=CLOCK)
    before = everything(url)
    with pytest.raises(RetryError, match="batch-contested"):
        commit(database, registered, batch(2, 1, 3, accepted=identities([("b", 1), ("a", 2)])), clock=CLOCK)
    assert everything(url) == before


def test_text_that_the_database_cannot_hold_is_kept_in_another_spelling(database: Database) -> None:
    registered = take(database)
    reason = "raised \x00 and \ud800"
    commit(database, registered, batch(1, 0, 1, outcomes={("rejected", reason): 1}), clock=CLOCK)
    [counts] = read.ledger(database, "usage").outcomes.values()
    assert [outcome.reason for outcome in counts] == ["raised \\0 and \\ud800"]


@pytest.mark.parametrize("reached_the_server", [True, False])
def test_v3_a_lost_answer_to_commit_is_settled_by_the_ledger(
    url: str, tmp_path: Path, *, reached_the_server: bool
) -> None:
    with losing_proxy(url, folder=tmp_path) as proxy, Database(proxy.url) as database:
        registered = take(database)
        commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
        proxy.lose_next_commit(reached_the_server=reached_the_server)
        if reached_the_server:
            commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK)
        else:
            with pytest.raises(RetryError, match="database-unreachable"):
                commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK)
        assert settle(database, registered, 2, clock=CLOCK) is reached_the_server
        # The lock was taken again with the new session, so the driver goes on.
        if not reached_the_server:
            commit(database, registered, full_batch(2, 2, "b"), clock=CLOCK)
        commit(database, registered, full_batch(3, 4, "c"), clock=CLOCK)
        assert read.rows(database, VIEW).rows[0][1] == 3


class LosingProxy:
    """Between client and server; closes the connection once, at a COMMIT."""

    def __init__(self, target: str, *, folder: Path) -> None:
        self.url = conninfo.make_conninfo(target, host=str(folder), port="5432")
        self._target = conninfo.conninfo_to_dict(target)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._lose: bool | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next_commit(self, *, reached_the_server: bool) -> None:
        self._lose = reached_the_server

    def close(self) -> None:
        # Only this wakes a thread that waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client, self._connect()), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = str(self._target["host"]), self._target.get("port") or 5432
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        threading.Thread(target=self._answer, args=(client, server), daemon=True).start()
        with client, server, suppress(OSError):
            while data := client.recv(65536):
                if b"COMMIT" in data and self._lose is False:
                    self._lose = None
                    client.shutdown(socket.SHUT_RDWR)
                    break
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if b"COMMIT" in data and self._lose:  # the server names what it has done
                    self._lose = None
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def losing_proxy(url: str, *, folder: Path) -> Iterator[LosingProxy]:
    proxy = LosingProxy(url, folder=folder)
    yield proxy
    proxy.close()


def test_v2_a_retraction_down_to_no_row_removes_the_group(database: Database) -> None:
    registered = take(database)
    came = account_partial([("acme", 2, "3.00", 2), ("beta", 1, "1.00", 1)])
    commit(database, registered, batch(1, 0, 3, folds={VIEW: came}), clock=CLOCK)
    went = account_partial([("acme", -2, "-3.00", -2), ("beta", 0, "0.50", 0), ("gone", 0, "0.00", 0)])
    commit(database, registered, batch(2, 3, 6, folds={VIEW: went}), clock=CLOCK)
    assert [row[:2] for row in read.rows(database, VIEW).rows] == [("beta", 1)]


def test_v2_a_retraction_that_meets_no_row_stops_the_pipeline(database: Database, url: str) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    before = everything(url)
    for account in ("acme", "nobody"):
        went = account_partial([(account, -2, "-3.00", -2)])
        with pytest.raises(BugError, match="a retraction meets a row"):
            commit(database, registered, batch(2, 2, 4, folds={VIEW: went}), clock=CLOCK)
    assert everything(url) == before


def test_a_driver_without_a_result_for_a_view_leaves_it_as_it_is(database: Database) -> None:
    registered = take(database)
    commit(database, registered, full_batch(1, 0, "a"), clock=CLOCK)
    commit(database, registered, without_folds(full_batch(2, 2, "b")), clock=CLOCK)
    assert read.rows(database, VIEW).rows[0][1] == 1
