"""A pipeline is killed with -9 before, inside and after the transaction of a batch, again and again, and is exact."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.testing.model import MemoryLog, expect
from penstock.testing.pipelines import Plant, disagreements, plain_billable, usage_topic
from penstock.testing.streams import Sent, random_stream

RECORDS = 300
BATCH = 40
LAUNCHER = Path(__file__).with_name("fatal_commit.py")

Kill = tuple[str, int]
"""Where in the commit, and in which commit of the process."""


def run_through_kills(plant: Plant, name: str, *, kills: Sequence[Kill], seed: int) -> list[Sent]:
    """Send a random stream, kill a pipeline in all those places, and let the last one finish the work."""
    file = plant.write_usage(name)
    sent = random_stream(usage_topic(name), seed=seed, count=RECORDS)
    plant.send(name, sent)
    for place, number in kills:
        launcher = (sys.executable, str(LAUNCHER), place, str(number))
        process = plant.start("run", str(file), "--once", launcher=launcher, batch_records_max=BATCH)
        assert process.wait() == -signal.SIGKILL, process.said
    done = plant.call("run", str(file), "--once", batch_records_max=BATCH)
    assert done.status == 0, done.err
    return sent


def check_exact(plant: Plant, name: str, *, sent: Sequence[Sent]) -> None:
    """Views, outcomes and ledger equal the model; every refused record was published, and no other."""
    held = plant.evidence(name)
    log = MemoryLog.of({name: sent})
    assert sum(held.ledger.read.values()) == len(sent)
    assert disagreements(held, log=log) == []
    judged = expect(
        log, definition=held.definition, functions={"billable": plain_billable}, batches=held.ledger.batches
    ).judged
    for outcome, target in (("rejected", "rejected"), ("conflict", "conflicts")):
        counts = [counted for each in judged.outcomes.values() for counted in each.items()]
        refused = sum(count for found, count in counts if found.name == outcome)
        headers = [dict(record.headers) for record in plant.records(f"{name}.{target}")]
        assert len({each["source-position"] for each in headers}) == refused
    assert plant.status(name)["outbox"] == 0


def check_proved(plant: Plant, *, pipelines: int) -> None:
    proof = plant.call("views", "verify", "--output", "json")
    found = json.loads(proof.out)
    assert (proof.status, found["differences"]) == (0, 0), proof.out
    assert len(found["pipelines"]) == pipelines
    assert all(each["balance"] for each in found["pipelines"])


def test_v1_v2_v3_a_pipeline_killed_before_inside_and_after_its_transactions_is_exact(plant: Plant) -> None:
    kills = [("before", 2), ("inside", 3), ("after", 2), ("published", 1)]
    sent = run_through_kills(plant, "killed", kills=kills, seed=11)
    committed = [1, 2, 2]  # the batches that the first three left behind; the fourth and the last share the rest
    assert batches_by_epoch(plant, "killed")[:3] == committed
    check_exact(plant, "killed", sent=sent)
    check_proved(plant, pipelines=1)


def batches_by_epoch(plant: Plant, name: str) -> list[int]:
    """How many batches each start of the pipeline has committed, in order."""
    from penstock.views.connection import Database

    query = (
        "SELECT count(*) FROM penstock.batches b JOIN penstock.pipelines p ON p.id = b.pipeline"
        " WHERE p.name = %s GROUP BY b.epoch ORDER BY b.epoch"
    )
    with Database(plant.url) as database:
        return [int(row[0]) for row in database.connection.execute(query, (name,))]


@pytest.mark.long
@pytest.mark.parametrize("place", ["before", "inside", "after", "published"])
def test_v3_a_pipeline_killed_in_the_same_place_of_many_batches_is_exact(plant: Plant, place: str) -> None:
    name = f"often_{place}"
    sent = run_through_kills(plant, name, kills=[(place, number) for number in (1, 2, 3, 1, 5)], seed=12)
    check_exact(plant, name, sent=sent)
