"""What an address shows of itself, and what the driver's errors mean."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from penstock.core.errors import BugError, CallerError, RetryError
from penstock.views.connection import Database, describe, is_lost, meaning, storable


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:hush@db.example:5433/books?sslmode=require", "db.example:5433/books"),
        ("postgresql://ann:hush@a.example:1,b.example:2/books", "a.example,b.example:1,2/books"),
        ("host=/run/postgres dbname=books password=hush", "/run/postgres/books"),
        ("postgresql:///books", "the local socket/books"),
        ("postgresql://ann:hush%2F%40@db.example/books", "db.example/books"),
    ],
)
def test_an_address_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert describe(url) == shown
    assert "hush" not in repr(Database(url))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hu/sh@db.example/books",
        "postgresql://ann:hu@sh@db.example/books",
        "postgresql://ann:hush@db.example:port/books",
        "hush",
        "mysql://ann:hush@db.example/books",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(CallerError, match="database-url-unreadable") as refused:
        Database(url)
    assert "hu" not in refused.value.fields.values()
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (errors.AdminShutdown("gone"), RetryError, "database-unreachable"),
        (errors.CrashShutdown("gone"), RetryError, "database-unreachable"),
        (errors.IdleInTransactionSessionTimeout("gone"), RetryError, "database-unreachable"),
        (psycopg.OperationalError("server closed the connection"), RetryError, "database-unreachable"),
        (psycopg.InterfaceError("the connection is closed"), RetryError, "database-unreachable"),
        (errors.DeadlockDetected("x"), RetryError, "database-busy"),
        (errors.SerializationFailure("x"), RetryError, "database-busy"),
        (errors.LockNotAvailable("x"), RetryError, "database-busy"),
        (errors.QueryCanceled("x"), RetryError, "database-busy"),
        (errors.DiskFull("x"), RetryError, "database-busy"),
        (errors.ReadOnlySqlTransaction("x"), RetryError, "database-busy"),
        (errors.InvalidPassword("x"), CallerError, "database-refused"),
        (errors.InsufficientPrivilege("x"), CallerError, "database-refused"),
        (errors.UndefinedTable("x"), BugError, "database-statement-failed"),
        (psycopg.DataError("x"), BugError, "database-statement-failed"),
    ],
)
def test_each_error_of_the_driver_says_what_to_do_next(error: psycopg.Error, kind: type[Exception], code: str) -> None:
    found = meaning(error, where="db.example")
    assert (type(found), found.code) == (kind, code)
    assert is_lost(error) is (code == "database-unreachable" and not isinstance(error, psycopg.InterfaceError))


def test_text_without_nul_and_half_pairs_stays_as_it_is() -> None:
    assert storable("é\U0001f600\n\\0") == "é\U0001f600\n\\0"
    assert storable("a\x00b\udc80") == "a\\0b\\udc80"
