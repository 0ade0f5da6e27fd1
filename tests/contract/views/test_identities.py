"""Identities in bulk against a real Postgres."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.core.clock import RealClock
from penstock.views import read
from penstock.views.commit import commit
from penstock.views.connection import Database
from penstock.views.identities import lookup
from tests.contract.views.scripts import TOPIC, batch, digest, identities, take

CLOCK = RealClock()


def test_known_identities_come_back_with_their_content_and_others_do_not(database: Database) -> None:
    registered = take(database)
    commit(database, registered, batch(1, 0, 2, accepted=identities([("a", 0), ("b", 1)])), clock=CLOCK)
    asked = pa.array([digest(name) for name in ("x", "b", "a", "b", "y")], pa.binary(16))
    known, contents = lookup(database, registered, topic=TOPIC, ids=asked)
    assert known.tolist() == [False, True, True, True, False]
    assert contents[1].tobytes() == contents[3].tobytes() == digest("content of b")
    assert contents[2].tobytes() == digest("content of a")
    assert contents[0].tobytes() == bytes(16)


def test_nothing_asked_and_nothing_known_answer_nothing(database: Database) -> None:
    registered = take(database)
    known, contents = lookup(database, registered, topic=TOPIC, ids=pa.array([], pa.binary(16)))
    assert (len(known), len(contents)) == (0, 0)
    known, _ = lookup(database, registered, topic=TOPIC, ids=pa.array([digest("a")], pa.binary(16)))
    assert known.tolist() == [False]


def test_a_slice_of_a_column_is_looked_up_and_stored_as_it_stands(database: Database) -> None:
    registered = take(database)
    events = identities([("a", 0), ("b", 1), ("c", 2), ("d", 3)])
    commit(database, registered, batch(1, 0, 2, accepted=events.slice(1, 2)), clock=CLOCK)
    known, _ = lookup(database, registered, topic=TOPIC, ids=events["id"].combine_chunks().slice(1, 3))
    assert known.tolist() == [True, True, False]
    assert sorted(read.ledger(database, "usage").winners[TOPIC]) == [(0, 1), (0, 2)]


def test_columns_in_several_chunks_are_stored_whole(database: Database) -> None:
    registered = take(database)
    events = pa.concat_tables([identities([("a", 0)]), identities([("b", 1), ("c", 2)])])
    commit(database, registered, batch(1, 0, 3, accepted=events), clock=CLOCK)
    known, contents = lookup(database, registered, topic=TOPIC, ids=events["id"].combine_chunks())
    assert known.all()
    assert np.array_equal(contents, np.array([digest(f"content of {n}") for n in "abc"], dtype="V16"))
