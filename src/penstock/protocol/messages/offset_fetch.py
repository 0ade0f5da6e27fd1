"""The messages of OFFSET_FETCH: made by `tools/messages.py` from `schemas/offset_fetch.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import NO_UUID, Request, Response


@dataclass(slots=True)
class OffsetFetchRequestGroupTopic:
    name: str = ""  # version 8-9
    topic_id: bytes = NO_UUID  # version 10
    partition_indexes: list[int] = field(default_factory=list)  # version 8+


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    group_id: str = ""  # version 8+
    member_id: str | None = None  # version 9+
    member_epoch: int = -1  # version 9+
    topics: list[OffsetFetchRequestGroupTopic] | None = field(default_factory=list)  # version 8+


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    name: str = ""  # version 1-7
    partition_indexes: list[int] = field(default_factory=list)  # version 1-7


@dataclass(slots=True)
class OffsetFetchRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    group_id: str = ""  # version 1-7
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)  # version 1-7
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)  # version 8+
    require_stable: bool = False  # version 7+


@dataclass(slots=True)
class OffsetFetchResponseGroupPartition:
    partition_index: int = 0  # version 8+
    committed_offset: int = 0  # version 8+
    committed_leader_epoch: int = -1  # version 8+
    metadata: str | None = ""  # version 8+
    error_code: int = 0  # version 8+


@dataclass(slots=True)
class OffsetFetchResponseGroupTopic:
    name: str = ""  # version 8-9
    topic_id: bytes = NO_UUID  # version 10
    partitions: list[OffsetFetchResponseGroupPartition] = field(default_factory=list)  # version 8+


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    group_id: str = ""  # version 8+
    topics: list[OffsetFetchResponseGroupTopic] = field(default_factory=list)  # version 8+
    error_code: int = 0  # version 8+


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    partition_index: int = 0  # version 1-7
    committed_offset: int = 0  # version 1-7
    committed_leader_epoch: int = -1  # version 5-7
    metadata: str | None = ""  # version 1-7
    error_code: int = 0  # version 1-7


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    name: str = ""  # version 1-7
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)  # version 1-7


@dataclass(slots=True)
class OffsetFetchResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    throttle_time_ms: int = 0  # version 3+
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)  # version 1-7
    error_code: int = 0  # version 2-7
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)  # version 8+
