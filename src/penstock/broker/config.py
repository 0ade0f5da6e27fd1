"""What a broker is started with; the command line fills it from the settings, a test by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import CallerError, fail

NODE_ID = 1
"""There is one broker, and this is its number in Kafka's terms."""
PARTITIONS_MAX = 10_000
"""The most partitions that one topic may have."""
PARTITIONS_IN_ALL_MAX = 14_000
"""The most partitions of all topics: with names of any length the log's record of durable offsets holds them."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    data: Path
    host: str = "127.0.0.1"
    port: int = 9092
    auto_create_topics: bool = True
    default_partitions: int = 1
    segment_bytes: int = 1024**3
    max_message_bytes: int = 1_048_588
    max_request_bytes: int = 100 * 1024**2
    max_connections: int = 1000


def parse_listen(text: str) -> tuple[str, int]:
    """Read `host:port`; an IPv6 address stands in brackets.

    >>> parse_listen("127.0.0.1:9092"), parse_listen("[::1]:0")
    (('127.0.0.1', 9092), ('::1', 0))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise fail(CallerError, "listen-unreadable", value=text)
    return host.removeprefix("[").removesuffix("]"), int(port)
