"""The messages of CREATE_TOPICS: made by `tools/messages.py` from `schemas/create_topics.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import NO_UUID, Request, Response


@dataclass(slots=True)
class TopicConfig:
    name: str = ""
    value: str | None = ""


@dataclass(slots=True)
class ReplicaAssignment:
    partition_index: int = 0
    broker_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicsRequestTopic:
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[ReplicaAssignment] = field(default_factory=list)
    configs: list[TopicConfig] = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicsRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    topics: list[CreateTopicsRequestTopic] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False


@dataclass(slots=True)
class CreatedTopicConfig:
    name: str = ""  # version 5+
    value: str | None = ""  # version 5+
    read_only: bool = False  # version 5+
    config_source: int = -1  # version 5+
    is_sensitive: bool = False  # version 5+


@dataclass(slots=True)
class CreateTopicsResponseTopic:
    name: str = ""
    topic_id: bytes = NO_UUID  # version 7
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0  # version 5+
    num_partitions: int = -1  # version 5+
    replication_factor: int = -1  # version 5+
    configs: list[CreatedTopicConfig] | None = field(default_factory=list)  # version 5+


@dataclass(slots=True)
class CreateTopicsResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    throttle_time_ms: int = 0
    topics: list[CreateTopicsResponseTopic] = field(default_factory=list)
