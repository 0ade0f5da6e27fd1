"""Clients that send rubbish, promise much or never read: the broker lives, others are served, memory is bounded."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.core.clock import RealClock
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.core.values import OffsetRange
from penstock.protocol.apis import VERSIONS
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.client import Client
from penstock.protocol.codec import request_class
from penstock.protocol.frames import request_frame
from penstock.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.testing.broker import BrokerProcess, start_broker

SEED = 7
ROUNDS = 1500
GROWTH_BYTES_MAX = 96 * 1024**2
MEGABYTE = 1024**2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with start_broker(tmp_path_factory.mktemp("log")) as started:
        yield started


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=10)


def memory(broker: BrokerProcess) -> int:
    return int(psutil.Process(broker.process.pid).memory_info().rss)


def check_serves(broker: BrokerProcess, *, topic: str) -> None:
    """Somebody else can still write and read."""
    with Client(broker.address, clock=RealClock()) as client:
        if topic not in client.topics():
            client.create_topic(topic)
        offset = client.produce(topic, PartitionId(0), build_batch([Record(None, b"fine", TimestampMs(1))]))
        wanted = OffsetRange(topic, PartitionId(0), offset, Offset(offset + 1))
        assert [record.value for record in client.read_records(wanted)] == [b"fine"]


def rubbish(chance: random.Random) -> bytes:
    """A frame that is random, or a real one with some bytes changed, cut or added; its size mostly right."""
    if chance.random() < 0.3:
        body = chance.randbytes(chance.randrange(200))
    else:
        api = chance.choice(list(VERSIONS))
        version = chance.randint(VERSIONS[api].first, VERSIONS[api].last)
        message = request_class(api)()
        body = b"".join(request_frame(message, version=version, correlation_id=1, client_id="fuzz"))[4:]
        changed = bytearray(body)
        for _ in range(chance.randrange(6)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        body = bytes(changed[: chance.randint(1, len(changed))]) + chance.randbytes(chance.randrange(8))
    size = len(body) if chance.random() < 0.9 else chance.choice([2**31 - 1, -1, 0, 10**8, len(body) + 1])
    return struct.pack(">i", size) + body


def test_l7_rubbish_ends_its_own_connection_and_nothing_else(broker: BrokerProcess) -> None:
    chance = random.Random(SEED)
    check_serves(broker, topic="other")
    before = memory(broker)
    for _ in range(ROUNDS):
        with connect(broker) as sent, suppress(OSError):
            for _ in range(chance.randint(1, 4)):
                sent.sendall(rubbish(chance))
    check_serves(broker, topic="other")
    assert broker.process.poll() is None, f"seed {SEED}"
    assert memory(broker) - before < GROWTH_BYTES_MAX


def test_l7_promises_of_large_frames_take_no_memory(broker: BrokerProcess) -> None:
    before = memory(broker)
    with_promises = [connect(broker) for _ in range(50)]
    for number, sent in enumerate(with_promises):
        sent.sendall(struct.pack(">i", 2**31 - 1 if number % 2 else 90 * MEGABYTE) + b"\0" * 1000)
    check_serves(broker, topic="other")
    assert memory(broker) - before < GROWTH_BYTES_MAX
    for sent in with_promises:
        sent.close()


def fetch_frame(topic: str) -> bytes:
    wanted = FetchRequestPartition(0, fetch_offset=0, partition_max_bytes=50 * MEGABYTE)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 * MEGABYTE, topics=[FetchRequestTopic(topic, partitions=[wanted])]
    )
    return b"".join(request_frame(request, version=11, correlation_id=1, client_id="slow"))


def test_l7_readers_that_ask_and_never_read_are_bounded(broker: BrokerProcess) -> None:
    with Client(broker.address, clock=RealClock()) as client:
        client.create_topic("large")
        for _ in range(40):
            large = build_batch([Record(None, random.Random(1).randbytes(MEGABYTE - 1000), TimestampMs(1))])
            client.produce("large", PartitionId(0), large)
    before = memory(broker)
    metadata = b"".join(request_frame(MetadataRequest(None), version=9, correlation_id=1, client_id="slow"))
    slow = [connect(broker) for _ in range(30)]
    for sent in slow:
        sent.setblocking(False)
        with suppress(BlockingIOError):
            sent.sendall((fetch_frame("large") + metadata) * 200)
    check_serves(broker, topic="other")
    # 30 readers ask for 40 MB each, 200 times over. What is held for them at once is bounded in all.
    assert memory(broker) - before < 512 * MEGABYTE
    for sent in slow:
        sent.close()
    check_serves(broker, topic="other")


def test_connections_past_the_limit_are_refused_and_the_others_served(tmp_path: Path) -> None:
    with start_broker(tmp_path, options=["--max-connections", "5"]) as broker:
        with Client(broker.address, clock=RealClock()) as client:
            client.create_topic("t")
            others = [connect(broker) for _ in range(8)]
            ended = [sent for sent in others if is_ended(sent)]
            assert 3 <= len(ended) <= 5
            assert client.partitions("t") == [0]
        for sent in others:
            sent.close()


def is_ended(sent: socket.socket) -> bool:
    """Whether the broker hung up at once."""
    sent.settimeout(0.5)
    try:
        return sent.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
