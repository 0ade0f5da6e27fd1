"""Committed offsets of groups without members: a fold of the records of one internal partition.

    key                          value
    [group, topic id, partition] [offset, leader epoch, metadata]

L8   A commit shows only when it is durable, so a group never resumes from a position that a crash takes back.
Limit: groups that rebalance are not there yet, so every group is empty and only commits without a member are taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.core.units import LeaderEpoch, Offset, PartitionId, TimestampMs
from penstock.protocol.apis import KafkaError
from penstock.protocol.batches import Record

METADATA_BYTES_MAX = 4096
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Committed:
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str


@dataclass(frozen=True, slots=True)
class Place:
    """A partition by its topic's id: a topic made again under the same name starts without commits."""

    topic_id: bytes
    partition: PartitionId


@dataclass(slots=True)
class Groups:
    """The table; only `apply` changes it."""

    _committed: dict[str, dict[Place, Committed]] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        group, topic_id, partition = json.loads(record.key or b"")
        offset, epoch, metadata = json.loads(record.value or b"")
        place = Place(bytes.fromhex(topic_id), PartitionId(partition))
        self._committed.setdefault(group, {})[place] = Committed(Offset(offset), LeaderEpoch(epoch), metadata)

    def committed(self, group: str, place: Place) -> Committed | None:
        return self._committed.get(group, {}).get(place)

    def places(self, group: str) -> Iterator[Place]:
        return iter(self._committed.get(group, {}))


def check_commit(group: str, *, member: str, generation: int) -> KafkaError:
    """What stands against a commit as such; no group has members, so none may claim to be one."""
    if not group:
        return KafkaError.INVALID_GROUP_ID
    if generation != NO_GENERATION:
        return KafkaError.ILLEGAL_GENERATION
    return KafkaError.UNKNOWN_MEMBER_ID if member else KafkaError.NONE


def offset_committed(group: str, place: Place, committed: Committed, *, now_ms: TimestampMs) -> Record:
    key = [group, place.topic_id.hex(), place.partition]
    value = [committed.offset, committed.leader_epoch, committed.metadata]
    return Record(json.dumps(key).encode(), json.dumps(value).encode(), now_ms)
