"""A real Postgres for the tests of the views: the one that PENSTOCK_DATABASE_URL names, else one of our own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import conninfo, sql

from penstock.views.connection import Database
from penstock.views.server import embedded

GIVEN_URL = os.environ.get("PENSTOCK_DATABASE_URL")
_numbers = itertools.count()


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if GIVEN_URL:
        yield GIVEN_URL
        return
    with embedded(tmp_path_factory.mktemp("home")) as server:
        yield server.url


@pytest.fixture
def url(server_url: str) -> Iterator[str]:
    """An empty database of the test's own."""
    name = sql.Identifier(f"penstock_test_{os.getpid()}_{next(_numbers)}")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(name))
    yield conninfo.make_conninfo(server_url, dbname=name.as_string().strip('"'))
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with Database(url) as opened:
        yield opened
