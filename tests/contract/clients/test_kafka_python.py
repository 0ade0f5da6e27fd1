"""kafka-python, unmodified."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

SECONDS = 20.0
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def admin(address: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=address)
    yield client
    client.close()


def produce(address: str, topic: str, values: list[bytes], **options: Any) -> list[int]:
    producer = KafkaProducer(bootstrap_servers=address, **options)
    sent = [producer.send(topic, value, key=b"k", headers=[("h", b"1")], partition=0) for value in values]
    offsets = [future.get(SECONDS).offset for future in sent]
    producer.close()
    return offsets


def read(source: Any, number: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(messages) < number and time.monotonic() < deadline:
        for batch in source.poll(1000).values():
            messages += batch
    return messages


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotence", ["plain", "idempotent"])
def test_records_come_back_as_they_were_sent(
    address: str, topic: str, admin: Any, codec: str | None, idempotence: str
) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])
    values = [b"value-%03d" % number * 20 for number in range(50)]
    options = {"compression_type": codec, "enable_idempotence": idempotence == "idempotent"}
    assert produce(address, topic, values, **options) == list(range(50))
    source = KafkaConsumer(bootstrap_servers=address, group_id=None)
    source.assign([TopicPartition(topic, 0)])
    source.seek_to_beginning()
    messages = read(source, 50)
    source.close()
    assert [message.value for message in messages] == values
    assert [message.offset for message in messages] == list(range(50))
    assert list(messages[0].headers) == [("h", b"1")]


def test_offsets_at_a_time_and_at_both_ends(address: str, topic: str, admin: Any) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])
    producer = KafkaProducer(bootstrap_servers=address)
    for number in range(5):
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_600_000_000_000 + number * 1000)
    producer.close()
    place = TopicPartition(topic, 0)
    source = KafkaConsumer(bootstrap_servers=address)
    assert source.beginning_offsets([place]) == {place: 0}
    assert source.end_offsets([place]) == {place: 5}
    found = source.offsets_for_times({place: 1_600_000_001_500})[place]
    assert (found.offset, found.timestamp) == (2, 1_600_000_002_000)
    source.close()


def test_l8_a_committed_offset_is_read_back_with_its_metadata(address: str, topic: str, admin: Any) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])
    produce(address, topic, [b"one", b"two"])
    place = TopicPartition(topic, 0)
    source = KafkaConsumer(bootstrap_servers=address, group_id=f"group-of-{topic}", enable_auto_commit=False)
    source.assign([place])
    source.commit({place: OffsetAndMetadata(1, "a note", -1)})
    source.close()
    later = KafkaConsumer(bootstrap_servers=address, group_id=f"group-of-{topic}", enable_auto_commit=False)
    later.assign([place])
    assert later.committed(place, metadata=True).metadata == "a note"
    assert [message.value for message in read(later, 1)] == [b"two"]
    later.close()


def test_topics_are_made_listed_and_deleted(topic: str, admin: Any) -> None:
    admin.create_topics([NewTopic(topic, 3, 1)])
    assert topic in admin.list_topics()
    described = admin.describe_topics([topic])
    assert len(described[0]["partitions"]) == 3
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
