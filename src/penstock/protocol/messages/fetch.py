"""The messages of FETCH: made by `tools/messages.py` from `schemas/fetch.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import NO_UUID, Records, Request, Response


@dataclass(slots=True)
class ForgottenTopic:
    topic: str = ""  # version 7-12
    topic_id: bytes = NO_UUID  # version 13+
    partitions: list[int] = field(default_factory=list)  # version 7+


@dataclass(slots=True)
class FetchRequestPartition:
    partition: int = 0
    current_leader_epoch: int = -1  # version 9+
    fetch_offset: int = 0
    last_fetched_epoch: int = -1  # version 12+
    log_start_offset: int = -1  # version 5+
    partition_max_bytes: int = 0
    replica_directory_id: bytes = NO_UUID  # version 17+
    high_watermark: int = 9223372036854775807  # version 18


@dataclass(slots=True)
class FetchRequestTopic:
    topic: str = ""  # version 4-12
    topic_id: bytes = NO_UUID  # version 13+
    partitions: list[FetchRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = -1  # version 15+
    replica_epoch: int = -1  # version 15+


@dataclass(slots=True)
class FetchRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.FETCH
    cluster_id: str | None = None  # version 12+
    replica_id: int = -1  # version 4-14
    replica_state: ReplicaState = field(default_factory=ReplicaState)  # version 15+
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0  # version 7+
    session_epoch: int = -1  # version 7+
    topics: list[FetchRequestTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)  # version 7+
    rack_id: str = ""  # version 11+


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = 0  # version 16+
    host: str = ""  # version 16+
    port: int = 0  # version 16+
    rack: str | None = None  # version 16+


@dataclass(slots=True)
class AbortedTransaction:
    producer_id: int = 0
    first_offset: int = 0


@dataclass(slots=True)
class SnapshotId:
    end_offset: int = -1
    epoch: int = -1


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = -1  # version 12+
    leader_epoch: int = -1  # version 12+


@dataclass(slots=True)
class EpochEndOffset:
    epoch: int = -1  # version 12+
    end_offset: int = -1  # version 12+


@dataclass(slots=True)
class FetchResponsePartition:
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1  # version 5+
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset)  # version 12+
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)  # version 12+
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)  # version 12+
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int = -1  # version 11+
    records: Records | None = b""


@dataclass(slots=True)
class FetchResponseTopic:
    topic: str = ""  # version 4-12
    topic_id: bytes = NO_UUID  # version 13+
    partitions: list[FetchResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class FetchResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.FETCH
    throttle_time_ms: int = 0
    error_code: int = 0  # version 7+
    session_id: int = 0  # version 7+
    responses: list[FetchResponseTopic] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # version 16+
