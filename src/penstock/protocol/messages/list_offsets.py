"""The messages of LIST_OFFSETS: made by `tools/messages.py` from `schemas/list_offsets.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import Request, Response


@dataclass(slots=True)
class ListOffsetsRequestPartition:
    partition_index: int = 0
    current_leader_epoch: int = -1  # version 4+
    timestamp: int = 0


@dataclass(slots=True)
class ListOffsetsRequestTopic:
    name: str = ""
    partitions: list[ListOffsetsRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    replica_id: int = 0
    isolation_level: int = 0  # version 2+
    topics: list[ListOffsetsRequestTopic] = field(default_factory=list)
    timeout_ms: int = 0  # version 10+


@dataclass(slots=True)
class ListOffsetsResponsePartition:
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1  # version 4+


@dataclass(slots=True)
class ListOffsetsResponseTopic:
    name: str = ""
    partitions: list[ListOffsetsResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    throttle_time_ms: int = 0  # version 2+
    topics: list[ListOffsetsResponseTopic] = field(default_factory=list)
