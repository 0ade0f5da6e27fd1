"""What a broker's error code means to our own client: which typed error, and whether asking again may help."""

from __future__ import annotations

from penstock.core.errors import CallerError, FencedError, PenstockError, RetryError, fail
from penstock.protocol.apis import KafkaError, error_name

_FENCED = frozenset({KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_TOPIC_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PARTITION, KafkaError.UNKNOWN_TOPIC_ID})


def is_retriable(code: int) -> bool:
    return code in _KNOWN and KafkaError(code).is_retriable


_KNOWN = frozenset(KafkaError)


def refusal(code: int, *, subject: str, message: str | None = None) -> PenstockError:
    """The error for an answer that said no. `subject` names what was asked about: a topic, or a partition of one."""
    name = error_name(code)
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return fail(CallerError, "topic-exists", topic=subject)
    if code in _TOPIC_UNKNOWN:
        return fail(CallerError, "topic-unknown", topic=subject)
    if code in _FENCED:
        return fail(FencedError, "produce-fenced", partition=subject, error=name)
    detail = f": {message}" if message else ""
    if is_retriable(code):
        return fail(RetryError, "broker-not-ready", subject=subject, error=name, detail=detail)
    return fail(CallerError, "broker-refused", subject=subject, error=name, detail=detail)
