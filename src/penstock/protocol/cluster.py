"""Where things are: brokers, the topics and their partitions, and who leads each, as one Metadata answer told it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import CallerError, RetryError, fail
from penstock.core.units import PartitionId
from penstock.protocol.apis import KafkaError, error_name
from penstock.protocol.messages import NO_UUID
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from penstock.protocol.refusals import refusal

DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True, order=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """The addresses of a list such as "a:9092,[::1]:9093"; the port may be left out.

    >>> [str(address) for address in parse_bootstrap("a, [::1]:9093")]
    ['a:9092', '[::1]:9093']
    """
    return tuple(_address(part.strip(), text) for part in text.split(","))


def _address(part: str, whole: str) -> Address:
    host, colon, port = part.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = part, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise fail(CallerError, "bootstrap-unreadable", value=whole)
    return Address(host, int(port))


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster shows it. `topic_id` is None where the broker is too old to give one."""

    name: str
    topic_id: bytes | None
    leaders: dict[PartitionId, Address | None]
    is_internal: bool

    @property
    def partitions(self) -> list[PartitionId]:
        return sorted(self.leaders)

    def leader(self, partition: PartitionId) -> Address:
        if partition not in self.leaders:
            raise fail(CallerError, "partition-absent", topic=self.name, partition=partition, count=len(self.leaders))
        address = self.leaders[partition]
        if address is None:
            raise fail(RetryError, "partition-leaderless", topic=self.name, partition=partition)
        return address


@dataclass(frozen=True, slots=True)
class Cluster:
    controller: Address | None
    topics: dict[str, Topic]

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise fail(CallerError, "topic-unknown", topic=name)
        return self.topics[name]


def cluster_of(response: MetadataResponse) -> Cluster:
    """Read a Metadata answer. A topic that it says does not exist is left out; any other refusal is raised."""
    brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
    found = [_topic(topic, brokers) for topic in response.topics if not _is_missing(topic)]
    return Cluster(brokers.get(response.controller_id), {topic.name: topic for topic in found})


def _is_missing(topic: MetadataResponseTopic) -> bool:
    return topic.error_code in (KafkaError.UNKNOWN_TOPIC_OR_PARTITION, KafkaError.UNKNOWN_TOPIC_ID)


def _topic(topic: MetadataResponseTopic, brokers: dict[int, Address]) -> Topic:
    name = topic.name or ""
    if topic.error_code not in (KafkaError.NONE, KafkaError.LEADER_NOT_AVAILABLE):
        raise refusal(topic.error_code, subject=name, message=error_name(topic.error_code))
    leaders = {PartitionId(p.partition_index): brokers.get(p.leader_id) for p in topic.partitions}
    return Topic(name, None if topic.topic_id == NO_UUID else topic.topic_id, leaders, topic.is_internal)
