"""The messages of METADATA: made by `tools/messages.py` from `schemas/metadata.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import NO_UUID, Request, Response


@dataclass(slots=True)
class MetadataRequestTopic:
    topic_id: bytes = NO_UUID  # version 10+
    name: str | None = ""


@dataclass(slots=True)
class MetadataRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.METADATA
    topics: list[MetadataRequestTopic] | None = field(default_factory=list)
    allow_auto_topic_creation: bool = True  # version 4+
    include_cluster_authorized_operations: bool = False  # version 8-10
    include_topic_authorized_operations: bool = False  # version 8+


@dataclass(slots=True)
class MetadataResponsePartition:
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1  # version 7+
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    offline_replicas: list[int] = field(default_factory=list)  # version 5+


@dataclass(slots=True)
class MetadataResponseTopic:
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = NO_UUID  # version 10+
    is_internal: bool = False  # version 1+
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648  # version 8+


@dataclass(slots=True)
class MetadataResponseBroker:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None  # version 1+


@dataclass(slots=True)
class MetadataResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.METADATA
    throttle_time_ms: int = 0  # version 3+
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = None  # version 2+
    controller_id: int = -1  # version 1+
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648  # version 8-10
    error_code: int = 0  # version 13
