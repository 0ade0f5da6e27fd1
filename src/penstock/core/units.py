"""Names for numbers, and the durations and sizes that people type."""

from __future__ import annotations

import re
from typing import NewType

from penstock.core.errors import CallerError, fail

Offset = NewType("Offset", int)
PartitionId = NewType("PartitionId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since 1970 in UTC, as Kafka counts."""
DurationUs = NewType("DurationUs", int)
"""Microseconds, as Arrow and Spark count time."""

_UNIT_US = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
_DURATION = re.compile(r"\s*(\d{1,9})\s*([a-z]+?)s?\s*")


def parse_duration(text: str) -> DurationUs:
    """Read "1 minute", "400 days", "500 ms".

    >>> parse_duration("1 minute")
    60000000
    """
    match = _DURATION.fullmatch(text.lower())
    unit = _UNIT_US.get(match[2]) or _UNIT_US.get(match[2] + "s") if match else None
    if match is None or unit is None:
        raise fail(CallerError, "duration-unreadable", value=text)
    return DurationUs(int(match[1]) * unit)


_UNIT_BYTES = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "g": 1024**3, "gb": 1024**3}


def parse_bytes(text: str) -> int:
    """Read "64 MB", "1g" or plain "1048576"; a kilobyte is 1,024 bytes.

    >>> parse_bytes("64 MB")
    67108864
    """
    match = re.fullmatch(r"\s*(\d{1,15})\s*([a-z]*)\s*", text.lower())
    unit = _UNIT_BYTES.get(match[2]) if match else None
    if match is None or unit is None:
        raise fail(CallerError, "size-unreadable", value=text)
    return int(match[1]) * unit
