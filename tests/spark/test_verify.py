"""The proof goes red: whatever is tampered with in the database is found and named, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import CallerError
from penstock.core.settings import read_settings
from penstock.pipeline import verify
from penstock.pipeline.load import load_pipeline
from penstock.pipeline.verify import prove
from penstock.views import read
from penstock.views.connection import Database

from .conftest import Bench

NAME = "proved"
VIEW = "proved_by_account"
FILE = """
from penstock import Pipeline, agg, tumbling

pipeline = Pipeline("proved")
topic = pipeline.topic("proved", schema="id string, account string, quantity decimal(9,2), at timestamp",
                       identity=["id"], event_time="at")

@pipeline.stream(topic)
def billable(requests):
    return requests.where("quantity > 0")

pipeline.view("proved_by_account", billable, by=["account"],
              columns={"requests": agg.count(), "quantity": agg.sum("quantity"), "mean": agg.avg("quantity")})
pipeline.view("proved_by_minute", topic, by=[tumbling("1 minute")], columns={"most": agg.max("account")})
"""


def event(number: int, *, account: str, quantity: str = "2.00") -> bytes:
    minute = f"2026-03-01T12:0{number}:00Z"
    return json.dumps({"id": f"e{number}", "account": account, "quantity": quantity, "at": minute}).encode()


@pytest.fixture(scope="module")
def proved(
    spark: SparkSession, bootstrap: str, url: str, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Proof:
    """Two batches of two partitions: four applied, one duplicate, one conflict, one rejected."""
    file = tmp_path_factory.mktemp("proved") / "usage.py"
    file.write_text(FILE)
    bench = Bench(spark, bootstrap, url, home)
    bench.create(NAME, partitions=2)
    bench.produce(NAME, [event(0, account="a"), event(1, account="b"), b"no json"])
    bench.produce(NAME, [event(2, account="a"), event(1, account="b")], partition=1)
    bench.run(load_pipeline(file))
    bench.produce(NAME, [event(0, account="a", quantity="9.00"), event(3, account="a", quantity="4.00")])
    bench.run(load_pipeline(file))
    return Proof(bench, file)


TABLES = ("pipelines", "views", "topics", "batches", "offsets", "outcomes")


@dataclass
class Proof:
    bench: Bench
    file: Path

    def differences(self) -> list[str]:
        with Database(self.bench.url) as database:
            report = prove(
                database, NAME, only=None, file=self.file, bootstrap=self.bench.bootstrap, spark=self.bench.spark
            )
        return [str(difference) for difference in report.differences]

    def tampered(self, table: str, statement: str) -> list[str]:
        """What is found once this statement has changed the table, which is put back afterwards."""
        with psycopg.connect(self.bench.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE kept AS TABLE penstock.{table}")
            try:
                assert connection.execute(statement.format(table=f"penstock.{table}")).rowcount > 0
                return self.differences()
            finally:
                connection.execute(f"DELETE FROM penstock.{table}")
                connection.execute(f"INSERT INTO penstock.{table} TABLE kept")
                connection.execute("DROP TABLE kept")

    def number(self, query: str) -> int:
        with psycopg.connect(self.bench.url) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    @property
    def fold(self) -> str:
        number = self.number(f"SELECT id FROM penstock.views WHERE name = '{VIEW}'")
        return f"fold_{number}"

    @property
    def identities(self) -> str:
        number = self.number(f"SELECT id FROM penstock.topics WHERE name = '{NAME}'")
        return f"identities_{number}"


def test_v1_v2_what_was_not_tampered_with_is_proved(proved: Proof) -> None:
    assert proved.differences() == []
    with Database(proved.bench.url) as database:
        held = read.show(database, VIEW)
    assert held["outcomes"] == {
        "read": 7,
        "applied": 4,
        "duplicate": 1,
        "conflict": 1,
        "rejected": 1,
        "late": 0,
        "pending": 0,
    }


def test_v2_the_functions_may_be_run_in_parts(proved: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "ROWS_MAX", 3)
    assert proved.differences() == []


ROWS = {
    "a value": (
        "UPDATE {table} SET v1 = v1 + 0.01 WHERE k0 = 'a'",
        ["account='a', quantity: expected 8.00, found 8.01"],
    ),
    "a count": ("UPDATE {table} SET v0 = 1 WHERE k0 = 'a'", ["account='a', requests: expected 3, found 1"]),
    "a row too few": ("DELETE FROM {table} WHERE k0 = 'b'", ["found no row"]),
    "a row too many": (
        "INSERT INTO {table} SELECT 'x', 'c', rows, v0, v1, n1, v2, n2 FROM {table} WHERE k0 = 'b'",
        ["account='c': expected no row"],
    ),
    "a row twice": (
        "INSERT INTO {table} SELECT 'x', k0, rows, v0, v1, n1, v2, n2 FROM {table} WHERE k0 = 'b'",
        ["account='b': expected no second row"],
    ),
    "the count under an average": (
        "UPDATE {table} SET n2 = 4 WHERE k0 = 'a'",
        ["account='a', mean: expected 2.666667, found 2.000000"],
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_v2_a_view_that_was_tampered_with_is_found(proved: Proof, what: str) -> None:
    statement, told = ROWS[what]
    found = proved.tampered(proved.fold, statement)
    assert len(found) == 1, found
    assert found[0].startswith(f"{VIEW}: ")
    assert told[0] in found[0]


IDENTITIES = {
    "one moved": ('UPDATE {table} SET "offset" = 2 WHERE partition = 0 AND "offset" = 1', 2),
    "one lost": ('DELETE FROM {table} WHERE partition = 1 AND "offset" = 0', 1),
    "one made up": ("INSERT INTO {table} VALUES (gen_random_uuid(), gen_random_uuid(), 1, 1)", 1),
    "one twice": ("INSERT INTO {table} VALUES (gen_random_uuid(), gen_random_uuid(), 1, 0)", 1),
}


@pytest.mark.parametrize("what", IDENTITIES)
def test_v2_an_identity_that_was_tampered_with_is_found(proved: Proof, what: str) -> None:
    statement, count = IDENTITIES[what]
    found = proved.tampered(proved.identities, statement)
    assert len(found) == count, found
    assert all("identity of the record at offset" in each for each in found)


def of_pipeline(statement: str) -> str:
    return f"{statement} AND pipeline = (SELECT id FROM penstock.pipelines WHERE name = '{NAME}')"


LEDGER = {
    "an outcome moved to another": (
        "outcomes",
        "UPDATE {table} SET outcome = 'duplicate' WHERE outcome = 'conflict'",
        {"proved-0: conflict: expected 1, found 0", "proved-0: duplicate: expected 0, found 1"},
    ),
    "a count of outcomes": (
        "outcomes",
        "UPDATE {table} SET count = 4 WHERE outcome = 'applied' AND partition = 0",
        {"proved-0: applied: expected 3, found 4", "proved-0: sum of outcomes: expected 5, found 6"},
    ),
    "a count of reads": ("outcomes", "UPDATE {table} SET count = 9 WHERE outcome = 'read' AND partition = 1", set()),
    "the cut": ("offsets", "UPDATE {table} SET next_offset = 1 WHERE partition = 1", set()),
    "a cut that is gone": ("offsets", "DELETE FROM {table} WHERE partition = 1", set()),
    "a batch that is gone": ("batches", "DELETE FROM {table} WHERE batch = 1", set()),
    "a plan that begins later": (
        "batches",
        "UPDATE {table} SET plan = jsonb_set(plan, '{{ranges,0,2}}', '1') WHERE batch = 1",
        set(),
    ),
    "a plan that ends earlier": (
        "batches",
        "UPDATE {table} SET plan = jsonb_set(plan, '{{ranges,0,3}}', '2') WHERE batch = 1",
        set(),
    ),
    "batches in another order": (
        "batches",
        "UPDATE {table} SET batch = 9 WHERE batch = 1",
        set(),
    ),
    "a record set aside that was not": (
        "batches",
        """UPDATE {table} SET plan = plan || '{{"set_aside": {{"proved": [[0, 1]]}}}}' WHERE batch = 1""",
        set(),
    ),
}


@pytest.mark.parametrize("what", LEDGER)
def test_v1_a_ledger_that_was_tampered_with_is_found(proved: Proof, what: str) -> None:
    table, statement, told = LEDGER[what]
    found = proved.tampered(table, of_pipeline(statement))
    assert found
    assert told <= set(found)


def test_a_database_without_a_pipeline_is_no_proof(tmp_path: Path) -> None:
    """Nothing compared is not the same as nothing different."""
    with pytest.raises(CallerError) as refused:
        verify.verify(None, file=None, settings=read_settings(home=tmp_path))
    assert refused.value.code == "proof-of-nothing"
