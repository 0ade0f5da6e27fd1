"""confluent-kafka, unmodified: what librdkafka's producers, consumers and admin do with the broker."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

SECONDS = 20.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(address: str, topic: str, values: list[bytes], **options: Any) -> list[tuple[int, int]]:
    """Send the values; gives (partition, offset) of each."""
    placed: list[tuple[int, int]] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        placed.append((message.partition(), message.offset()))

    producer = Producer({"bootstrap.servers": address, **options})
    for value in values:
        producer.produce(topic, value, key=b"k", headers=[("h", b"1")], partition=0, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    return placed


def code_of(error: KafkaError | None) -> int:
    assert error is not None
    return error.code()


def consumer(address: str, **options: Any) -> Consumer:
    given = {"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False, **options}
    return Consumer(given)


def read(source: Consumer, number: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(messages) < number and time.monotonic() < deadline:
        messages += source.consume(number - len(messages), timeout=1.0)
    for message in messages:
        assert message.error() is None, message.error()
    return messages


def make_topic(address: str, topic: str, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotence", ["false", "true"])
def test_records_come_back_as_they_were_sent(address: str, topic: str, codec: str, idempotence: str) -> None:
    make_topic(address, topic)
    values = [b"value-%03d" % number * 20 for number in range(100)]
    placed = produce(address, topic, values, **{"compression.type": codec, "enable.idempotence": idempotence})
    assert placed == [(0, number) for number in range(100)]

    source = consumer(address)
    source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    messages = read(source, 100)
    source.close()
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(100))
    assert {message.key() for message in messages} == {b"k"}
    assert messages[0].headers() == [("h", b"1")]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_stores_the_record(address: str, topic: str, acks: str) -> None:
    make_topic(address, topic)
    produce(address, topic, [b"one"], acks=acks)
    source = consumer(address)
    source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert [message.value() for message in read(source, 1)] == [b"one"]
    source.close()


def test_a_missing_topic_is_made_when_a_producer_asks_for_it(address: str, topic: str) -> None:
    assert produce(address, topic, [b"one"]) == [(0, 0)]


def test_a_consumer_starts_in_the_middle_of_a_batch(address: str, topic: str) -> None:
    make_topic(address, topic)
    produce(address, topic, [b"%d" % number for number in range(10)], **{"linger.ms": 100})
    source = consumer(address)
    source.assign([TopicPartition(topic, 0, 7)])
    assert [message.value() for message in read(source, 3)] == [b"7", b"8", b"9"]
    source.close()


def test_a_consumer_waits_for_records_that_come_later(address: str, topic: str) -> None:
    make_topic(address, topic)
    source = consumer(address)
    source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert source.consume(1, timeout=0.3) == []
    produce(address, topic, [b"late"])
    assert [message.value() for message in read(source, 1)] == [b"late"]
    source.close()


def test_a_time_finds_the_first_record_at_or_after_it(address: str, topic: str) -> None:
    make_topic(address, topic)
    producer = Producer({"bootstrap.servers": address})
    for number in range(5):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_600_000_000_000 + number * 1000)
    assert producer.flush(SECONDS) == 0
    source = consumer(address)
    asked = [TopicPartition(topic, 0, 1_600_000_000_000 + milliseconds) for milliseconds in (0, 1500, 4000, 4001)]
    found = [source.offsets_for_times([one], timeout=SECONDS)[0].offset for one in asked]
    assert found == [0, 2, 4, -1]
    assert source.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS) == (0, 5)
    source.close()


def test_l8_a_committed_offset_is_read_back_with_its_metadata(address: str, topic: str) -> None:
    make_topic(address, topic, partitions=2)
    produce(address, topic, [b"one", b"two"])
    source = consumer(address, **{"group.id": f"group-of-{topic}"})
    source.commit(offsets=[TopicPartition(topic, 0, 2, "a note")], asynchronous=False)
    read_back = source.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=SECONDS)
    assert [(one.partition, one.offset, one.metadata) for one in read_back] == [(0, 2, "a note"), (1, -1001, None)]
    source.close()


def test_topics_are_made_listed_and_deleted(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    make_topic(address, topic, partitions=3)
    assert len(admin.list_topics(timeout=SECONDS).topics[topic].partitions) == 3
    with pytest.raises(KafkaException) as refused:
        make_topic(address, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])[topic].result(SECONDS)
    assert topic not in admin.list_topics(timeout=SECONDS).topics


def test_l2_a_topic_made_again_starts_empty_and_without_commits(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    make_topic(address, topic)
    produce(address, topic, [b"old"])
    group = {"group.id": f"group-of-{topic}"}
    before = consumer(address, **group)
    before.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    before.close()
    admin.delete_topics([topic])[topic].result(SECONDS)
    make_topic(address, topic)
    assert produce(address, topic, [b"new"]) == [(0, 0)]
    source = consumer(address, **group)
    assert source.committed([TopicPartition(topic, 0)], timeout=SECONDS)[0].offset == -1001
    source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert [message.value() for message in read(source, 1)] == [b"new"]
    source.close()


def test_a_timestamp_far_ahead_is_refused(address: str, topic: str) -> None:
    make_topic(address, topic)
    errors: list[int] = []
    producer = Producer({"bootstrap.servers": address})
    ahead = int(time.time() * 1000) + 2 * 3_600_000
    producer.produce(topic, b"x", timestamp=ahead, on_delivery=lambda error, _: errors.append(code_of(error)))
    producer.flush(SECONDS)
    assert errors == [KafkaError.INVALID_TIMESTAMP]


def test_a_record_that_is_too_large_is_refused_and_the_next_one_stored(address: str, topic: str) -> None:
    make_topic(address, topic)
    errors: list[int] = []
    producer = Producer({"bootstrap.servers": address, "message.max.bytes": 5_000_000})
    producer.produce(topic, b"x" * 2_000_000, partition=0, on_delivery=lambda error, _: errors.append(code_of(error)))
    producer.flush(SECONDS)
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert produce(address, topic, [b"small"]) == [(0, 0)]


def test_an_offset_outside_the_log_is_named_to_the_consumer(address: str, topic: str) -> None:
    make_topic(address, topic)
    produce(address, topic, [b"one"])
    source = consumer(address, **{"auto.offset.reset": "error"})
    source.assign([TopicPartition(topic, 0, 1000)])
    message = source.poll(SECONDS)
    assert message is not None
    assert code_of(message.error()) == KafkaError._AUTO_OFFSET_RESET
    source.close()
