"""aiokafka, unmodified: it speaks the oldest versions and encodings that are offered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import OffsetAndMetadata

SECONDS = 20.0
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


async def produce(address: str, topic: str, values: list[bytes], **options: Any) -> list[int]:
    producer = AIOKafkaProducer(bootstrap_servers=address, **options)
    await producer.start()
    sent = [await producer.send(topic, value, key=b"k", partition=0, headers=[("h", b"1")]) for value in values]
    offsets = [(await future).offset for future in sent]
    await producer.stop()
    return offsets


async def read(source: Any, number: int) -> list[Any]:
    async with asyncio.timeout(SECONDS):
        return [await source.getone() for _ in range(number)]


async def reader(address: str, topic: str, **options: Any) -> Any:
    source = AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, **options)
    await source.start()
    source.assign([TopicPartition(topic, 0)])
    return source


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotence", ["plain", "idempotent"])
def test_records_come_back_as_they_were_sent(address: str, topic: str, codec: str | None, idempotence: str) -> None:
    values = [b"value-%03d" % number * 20 for number in range(50)]

    async def both() -> list[Any]:
        options = {"compression_type": codec, "enable_idempotence": idempotence == "idempotent"}
        assert await produce(address, topic, values, **options) == list(range(50))
        source = await reader(address, topic, auto_offset_reset="earliest")
        try:
            return await read(source, 50)
        finally:
            await source.stop()

    messages = asyncio.run(both())
    assert [message.value for message in messages] == values
    assert [message.offset for message in messages] == list(range(50))
    assert messages[0].headers == (("h", b"1"),)


def test_offsets_at_a_time_and_at_both_ends(address: str, topic: str) -> None:
    place = TopicPartition(topic, 0)

    async def ask() -> tuple[Any, Any, Any]:
        producer = AIOKafkaProducer(bootstrap_servers=address)
        await producer.start()
        for number in range(5):
            at = 1_600_000_000_000 + number * 1000
            await producer.send_and_wait(topic, b"%d" % number, partition=0, timestamp_ms=at)
        await producer.stop()
        source = await reader(address, topic)
        try:
            times = await source.offsets_for_times({place: 1_600_000_001_500})
            return await source.beginning_offsets([place]), await source.end_offsets([place]), times
        finally:
            await source.stop()

    first, end, times = asyncio.run(ask())
    assert (first, end) == ({place: 0}, {place: 5})
    assert (times[place].offset, times[place].timestamp) == (2, 1_600_000_002_000)


def test_l8_a_committed_offset_is_read_back_and_read_on_from(address: str, topic: str) -> None:
    place = TopicPartition(topic, 0)

    async def both() -> tuple[int | None, list[Any]]:
        await produce(address, topic, [b"one", b"two"])
        source = await reader(address, topic, group_id=f"group-of-{topic}")
        await source.commit({place: OffsetAndMetadata(1, "a note")})
        await source.stop()
        later = await reader(address, topic, group_id=f"group-of-{topic}")
        try:
            return await later.committed(place), await read(later, 1)
        finally:
            await later.stop()

    committed, messages = asyncio.run(both())
    assert committed == 1
    assert [message.value for message in messages] == [b"two"]


def test_topics_are_made_listed_and_deleted(address: str, topic: str) -> None:
    async def all_of_it() -> tuple[list[str], int, list[str]]:
        admin = AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 3, 1)])
        before = await admin.list_topics()
        described = await admin.describe_topics([topic])
        await admin.delete_topics([topic])
        after = await admin.list_topics()
        await admin.close()
        return before, len(described[0]["partitions"]), after

    before, partitions, after = asyncio.run(all_of_it())
    assert topic in before
    assert partitions == 3
    assert topic not in after
