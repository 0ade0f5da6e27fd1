"""From the outbox to the log: at least once, whatever the log refuses, and in few requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psycopg
import pytest

from penstock.core.clock import RealClock
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.core.values import OffsetRange
from penstock.pipeline.intake import Refusal
from penstock.pipeline.publish import Publisher, messages_of
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.client import Client
from penstock.testing.broker import running_broker
from penstock.views import outbox
from penstock.views.commit import commit
from penstock.views.connection import Database
from penstock.views.fence import Registered
from penstock.views.outbox import Message
from tests.contract.views.scripts import P0, TOPIC, batch, take

CLOCK = RealClock()
REJECTED = f"{TOPIC}.rejected"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("log")) as address:
        yield address


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    with Client(bootstrap, clock=CLOCK) as opened:
        yield opened


def refused(offset: int, value: bytes, *, target: str = REJECTED) -> Message:
    return Message(target, TOPIC, P0, Offset(offset), b"k", value, (("reason", "undecodable"),))


def say(database: Database, registered: Registered, messages: list[Message]) -> None:
    made = batch(1, 0, len(messages), outcomes={("rejected", "undecodable"): len(messages)}, outbox=messages)
    commit(database, registered, made, clock=CLOCK)


def published(client: Client, topic: str) -> list[Record]:
    ends = client.list_offsets(topic, {P0: "latest"})
    return list(client.read_records(OffsetRange(topic, P0, Offset(0), ends[P0])))


def headers(record: Record) -> dict[str, str]:
    return {name: (text or b"").decode() for name, text in record.headers}


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = CLOCK.monotonic() + 60
    while not is_so():
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.05)


def test_v3_one_message_that_the_log_never_takes_holds_nobody_up_and_repeats_nobody(
    database: Database, url: str, bootstrap: str, client: Client
) -> None:
    registered = take(database)
    said: list[str] = []
    say(database, registered, [refused(0, b"first"), refused(1, b"x", target="no topic name"), refused(2, b"last")])
    publisher = Publisher(Database(url), registered, bootstrap=bootstrap, clock=CLOCK, say=said.append)
    wait_until(lambda: len(said) >= 3)
    publisher.close()
    assert [record.value for record in published(client, REJECTED)] == [b"first", b"last"]
    assert [message.offset for _, message in outbox.pending(database, registered)] == [1]


def test_v3_a_record_larger_than_its_topic_takes_is_told_without_its_content(
    database: Database, url: str, bootstrap: str, client: Client
) -> None:
    large = b"".join(number.to_bytes(4, "big") for number in range(500_000))
    messages = [refused(0, large, target="large"), refused(1, b"small", target="large")]
    registered = take(database)
    say(database, registered, messages)
    said: list[str] = []
    client.create_topic("large", configs={"max.message.bytes": "100000"})
    publisher = Publisher(Database(url), registered, bootstrap=bootstrap, clock=CLOCK, say=said.append)
    with psycopg.connect(url, autocommit=True) as connection:
        wait_until(lambda: connection.execute("SELECT 1 FROM penstock.outbox").fetchone() is None)
    publisher.close()
    found = {headers(record)["source-position"]: record for record in published(client, "large")}
    assert found[f"{TOPIC}-0@1"].value == b"small"
    told = found[f"{TOPIC}-0@0"]
    assert (told.key, told.value) == (None, None)
    assert headers(told)["left-out"] == "key and value: more than the topic takes"


def test_l7_what_is_taken_from_the_outbox_at_once_is_bounded_in_bytes(database: Database) -> None:
    registered = take(database)
    say(database, registered, [refused(n, bytes(100)) for n in range(5)])
    taken = [message.offset for _, message in outbox.pending(database, registered, bytes_max=250)]
    assert taken == [0, 1, 2]
    assert [message.offset for _, message in outbox.pending(database, registered, bytes_max=1)] == [0]


@dataclass
class Counting:
    """A client that counts what is asked of it."""

    client: Client
    asked: list[OffsetRange] = field(default_factory=list)

    def read_range(self, wanted: OffsetRange, *, max_bytes: int) -> Iterator[memoryview]:
        self.asked.append(wanted)
        return self.client.read_range(wanted, max_bytes=max_bytes)


def test_refused_records_all_over_a_batch_are_fetched_in_few_requests(client: Client) -> None:
    client.create_topic("wide")
    for start in range(0, 5_000, 500):
        records = [Record(b"k" if n % 2 else None, b"%d" % n, TimestampMs(1)) for n in range(start, start + 500)]
        client.produce("wide", PartitionId(0), build_batch(records))
    wanted = [*range(0, 2_000, 7), 4_999]
    refusals = [Refusal(("wide", P0, Offset(n)), "rejected", "undecodable", "not JSON") for n in wanted]
    counting = Counting(client)
    messages = list(messages_of(refusals, client=counting, pipeline="p"))  # type: ignore[arg-type]
    assert [(m.offset, m.key, m.value) for m in messages] == [(n, b"k" if n % 2 else None, b"%d" % n) for n in wanted]
    assert [(place.start, place.end) for place in counting.asked] == [(0, 1_996), (4_999, 5_000)]
