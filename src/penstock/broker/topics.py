"""Which topics there are, with their ids and settings: a fold of the records of one internal partition.

    key                     value
    {"cluster": ""}         {"id": text}
    {"topic": name}         {"id": hex, "partitions": n, "configs": {name: text}}, or null: the topic is gone
    {"producer_ids": ""}    {"end": first number that no block holds}

L2   A topic that is deleted and made again has another id, so its offsets are told apart from the old ones.
Limit: retention, compaction and a topic's own durability are not there yet; a setting that asks for them is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.broker.config import PARTITIONS_MAX
from penstock.core.units import PartitionId, TimestampMs
from penstock.core.values import TopicPartition
from penstock.protocol.apis import KafkaError
from penstock.protocol.batches import Record

INTERNAL_PREFIX = "__penstock_"
TOPICS = INTERNAL_PREFIX + "topics"
OFFSETS = INTERNAL_PREFIX + "offsets"
INTERNAL = {name: TopicPartition(name, PartitionId(0)) for name in (TOPICS, OFFSETS)}
INTERNAL_IDS = {TOPICS: b"penstock-topics\0", OFFSETS: b"penstock-offsets"}

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ONLY = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""Settings that clients often send, with the one value that says what this broker does anyway."""
_SIZES = {"max.message.bytes": (1024, 2**31 - 1), "segment.bytes": (1024, 2**31 - 1)}


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: bytes
    partitions: int
    configs: Mapping[str, str]

    def size(self, config: str, *, default: int) -> int:
        return int(self.configs.get(config, default))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request about a topic was refused, as the client reads it."""

    error: KafkaError
    message: str


@dataclass(slots=True)
class Topics:
    """The table; only `apply` changes it."""

    _by_name: dict[str, Topic] = field(default_factory=dict)
    _by_id: dict[bytes, Topic] = field(default_factory=dict)
    deleted_ids: set[bytes] = field(default_factory=set)
    cluster_id: str | None = None
    producer_ids_end: int = 0

    def apply(self, record: Record) -> None:
        key, value = json.loads(record.key or b"{}"), json.loads(record.value) if record.value else None
        if "topic" in key:
            self._apply_topic(key["topic"], value)
        elif "cluster" in key and value:
            self.cluster_id = value["id"]
        elif "producer_ids" in key and value:
            self.producer_ids_end = value["end"]

    def _apply_topic(self, name: str, value: Mapping[str, object] | None) -> None:
        gone = self._by_name.pop(name, None)
        if gone:
            self._by_id.pop(gone.id)
            self.deleted_ids.add(gone.id)
        if value:
            configs = value["configs"]
            topic = Topic(
                name,
                bytes.fromhex(str(value["id"])),
                int(str(value["partitions"])),
                configs if isinstance(configs, dict) else {},
            )
            self._by_name[name] = self._by_id[topic.id] = topic

    def named(self, name: str | None) -> Topic | None:
        return self._by_name.get(name) if name else None

    def with_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def __iter__(self) -> Iterator[Topic]:
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def check_create(
        self, name: str, *, partitions: int, replication: int, configs: Mapping[str, str | None]
    ) -> Refusal | None:
        """Why this topic cannot be made; `partitions` is the number meant, defaults filled in."""
        if refusal := check_name(name):
            return refusal
        if self.named(name):
            return Refusal(KafkaError.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
        if like := self._collision(name):
            return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, f"{name} differs from {like} in '.' and '_' alone")
        if not 1 <= partitions <= PARTITIONS_MAX:
            return Refusal(KafkaError.INVALID_PARTITIONS, f"a topic has 1 to {PARTITIONS_MAX} partitions")
        if replication not in (-1, 1):
            return Refusal(KafkaError.INVALID_REPLICATION_FACTOR, "there is one broker: the replication factor is 1")
        return check_configs(configs)

    def _collision(self, name: str) -> str | None:
        """Metric names know no dot, so two topics must not differ in that alone."""
        flat = name.replace(".", "_")
        return next((other for other in self._by_name if other.replace(".", "_") == flat), None)


def check_name(name: str) -> Refusal | None:
    """A topic's name is a folder's name too.

    >>> check_name("usage.requests") is None, check_name("..").error.name
    (True, 'INVALID_TOPIC_EXCEPTION')
    """
    if name in (".", "..") or not _NAME.fullmatch(name):
        return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, "a name is 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")
    if name.startswith(INTERNAL_PREFIX):
        return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, f"names that start with {INTERNAL_PREFIX} are the broker's")
    return None


def check_configs(configs: Mapping[str, str | None]) -> Refusal | None:
    for name, value in configs.items():
        if name in _ONLY and value != _ONLY[name]:
            return Refusal(KafkaError.INVALID_CONFIG, f"{name} can only be {_ONLY[name]} here, not {value}")
        if name not in _ONLY and not _is_size(name, value):
            return Refusal(KafkaError.INVALID_CONFIG, f"there is no setting {name} that could be {value}")
    return None


def _is_size(name: str, value: str | None) -> bool:
    low, high = _SIZES.get(name, (1, 0))
    return value is not None and value.isdecimal() and low <= int(value) <= high


def topic_made(topic: Topic, *, now_ms: TimestampMs) -> Record:
    value = {"id": topic.id.hex(), "partitions": topic.partitions, "configs": dict(topic.configs)}
    return _record({"topic": topic.name}, value, now_ms=now_ms)


def topic_deleted(name: str, *, now_ms: TimestampMs) -> Record:
    return _record({"topic": name}, None, now_ms=now_ms)


def cluster_named(cluster_id: str, *, now_ms: TimestampMs) -> Record:
    return _record({"cluster": ""}, {"id": cluster_id}, now_ms=now_ms)


def producer_ids_reserved(end: int, *, now_ms: TimestampMs) -> Record:
    return _record({"producer_ids": ""}, {"end": end}, now_ms=now_ms)


def _record(key: Mapping[str, str], value: Mapping[str, object] | None, *, now_ms: TimestampMs) -> Record:
    return Record(json.dumps(key).encode(), json.dumps(value).encode() if value else None, now_ms)
