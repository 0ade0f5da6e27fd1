"""Which Kafka APIs and versions Penstock speaks, and the error codes that it may answer with.

The ranges are those of Kafka 4.2 for what is implemented here; a test holds the table equal to the schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22


@dataclass(frozen=True, slots=True)
class Versions:
    """What one API accepts, both ends inclusive.

    `flexible` is the first version in the compact encoding with tagged fields. `advertised_first` may lie below
    `first`: some clients refuse to compress unless Produce claims versions that no broker accepts any more.
    """

    first: int
    last: int
    flexible: int
    advertised_first: int

    def accepts(self, version: int) -> bool:
        return self.first <= version <= self.last

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible


def _versions(first: int, last: int, *, flexible: int, advertised_first: int | None = None) -> Versions:
    return Versions(first, last, flexible, first if advertised_first is None else advertised_first)


VERSIONS = MappingProxyType(
    {
        ApiKey.PRODUCE: _versions(3, 13, flexible=9, advertised_first=0),
        ApiKey.FETCH: _versions(4, 18, flexible=12),
        ApiKey.LIST_OFFSETS: _versions(1, 11, flexible=6),
        ApiKey.METADATA: _versions(0, 13, flexible=9),
        ApiKey.OFFSET_COMMIT: _versions(2, 10, flexible=8),
        ApiKey.OFFSET_FETCH: _versions(1, 10, flexible=6),
        ApiKey.FIND_COORDINATOR: _versions(0, 6, flexible=3),
        ApiKey.API_VERSIONS: _versions(0, 4, flexible=3),
        ApiKey.CREATE_TOPICS: _versions(2, 7, flexible=5),
        ApiKey.DELETE_TOPICS: _versions(1, 6, flexible=4),
        ApiKey.INIT_PRODUCER_ID: _versions(0, 5, flexible=2),
    }
)


def accepts(key: int, version: int) -> bool:
    """Whether a request may come with this key and version.

    >>> accepts(ApiKey.FETCH, 18), accepts(ApiKey.FETCH, 19), accepts(999, 0)
    (True, False, False)
    """
    return key in _KEYS and VERSIONS[ApiKey(key)].accepts(version)


_KEYS = frozenset(ApiKey)


class KafkaError(IntEnum):
    """Kafka's error codes by Kafka's names, as far as a broker or client of ours meets them."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may succeed later, by Kafka's own table."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        KafkaError.CORRUPT_MESSAGE,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_OR_FOLLOWER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_CONTROLLER,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    }
)


def error_name(code: int) -> str:
    """The name of an error code, or the number where Kafka has grown a name that we do not know.

    >>> error_name(3), error_name(9999)
    ('UNKNOWN_TOPIC_OR_PARTITION', '9999')
    """
    try:
        return KafkaError(code).name
    except ValueError:
        return str(code)
