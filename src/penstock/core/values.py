"""Positions in the log: one partition, one record, a cut through several topics, and a cut as a token."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.errors import CallerError, fail
from penstock.core.units import Offset, PartitionId

Cut = Mapping[str, Mapping[PartitionId, Offset]]
"""`{topic: {partition: next offset}}`: everything before those offsets, nothing after."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition, `start` inclusive and `end` exclusive."""

    topic: str
    partition: PartitionId
    start: Offset
    end: Offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start}, {self.end})"


def cut_to_json(cut: Cut) -> dict[str, dict[str, int]]:
    """The cut as JSON spells it: partitions are strings there, in order.

    >>> cut_to_json({"a": {PartitionId(1): Offset(7), PartitionId(0): Offset(3)}})
    {'a': {'0': 3, '1': 7}}
    """
    return {topic: {str(p): int(ends[p]) for p in sorted(ends)} for topic, ends in sorted(cut.items())}


def cut_from_json(value: Mapping[str, Mapping[str, int]]) -> dict[str, dict[PartitionId, Offset]]:
    return {t: {PartitionId(int(p)): Offset(int(o)) for p, o in ends.items()} for t, ends in value.items()}


def cut_to_token(cut: Cut) -> str:
    """A cut as one short word that survives URLs and shells.

    >>> cut_from_token(cut_to_token({"a": {PartitionId(0): Offset(3)}}))
    {'a': {0: 3}}
    """
    text = json.dumps(cut_to_json(cut), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def cut_from_token(token: str) -> dict[str, dict[PartitionId, Offset]]:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return cut_from_json(json.loads(text))
    except (binascii.Error, ValueError, AttributeError, TypeError) as error:
        raise fail(CallerError, "token-unreadable", value=token) from error
