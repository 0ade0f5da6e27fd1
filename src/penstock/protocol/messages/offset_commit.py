"""The messages of OFFSET_COMMIT: made by `tools/messages.py` from `schemas/offset_commit.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import NO_UUID, Request, Response


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1  # version 6+
    committed_metadata: str | None = ""


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    name: str = ""  # version 2-9
    topic_id: bytes = NO_UUID  # version 10
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None  # version 7+
    retention_time_ms: int = -1  # version 2-4
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    name: str = ""  # version 2-9
    topic_id: bytes = NO_UUID  # version 10
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    throttle_time_ms: int = 0  # version 3+
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
