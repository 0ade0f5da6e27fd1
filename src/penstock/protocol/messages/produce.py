"""The messages of PRODUCE: made by `tools/messages.py` from `schemas/produce.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import NO_UUID, Records, Request, Response


@dataclass(slots=True)
class ProduceRequestPartition:
    index: int = 0
    records: Records | None = b""


@dataclass(slots=True)
class ProduceRequestTopic:
    name: str = ""  # version 3-12
    topic_id: bytes = NO_UUID  # version 13
    partition_data: list[ProduceRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class ProduceRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.PRODUCE
    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[ProduceRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = 0  # version 10+
    host: str = ""  # version 10+
    port: int = 0  # version 10+
    rack: str | None = None  # version 10+


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = -1  # version 10+
    leader_epoch: int = -1  # version 10+


@dataclass(slots=True)
class RecordError:
    batch_index: int = 0  # version 8+
    batch_index_error_message: str | None = None  # version 8+


@dataclass(slots=True)
class ProduceResponsePartition:
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1  # version 5+
    record_errors: list[RecordError] = field(default_factory=list)  # version 8+
    error_message: str | None = None  # version 8+
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)  # version 10+


@dataclass(slots=True)
class ProduceResponseTopic:
    name: str = ""  # version 3-12
    topic_id: bytes = NO_UUID  # version 13
    partition_responses: list[ProduceResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class ProduceResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.PRODUCE
    responses: list[ProduceResponseTopic] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # version 10+
