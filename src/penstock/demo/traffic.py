"""What the demo's producer sends: usage requests of MLE, and everything that goes wrong with them on their way.

MLE hosts models and bills requests per account. Message `n` of a run follows from the seed, the run and `n` alone, but
for the time at which its request was accepted. Of 1,000 messages about 30 are retries of an earlier request, 3 claim
its id with another quantity, 5 cannot be read, 50 come up to two minutes and 10 up to three days after their time, 10
are free of charge. Ids hold the run's number, so no later run repeats them.
A message's key is its account, so a retry follows its original in the same partition.
Limit: a retry repeats one of the last 4,096 requests of its own run.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal

TOPIC = "usage.requests"
UNITS = 1_000_000
"""Quantities have six decimals, and are counted here in whole millionths."""
REMEMBERED = 4_096

GATEWAYS = tuple(f"gateway-{number}" for number in range(1, 5))
MODELS = ("mle-small", "mle-large", "mle-code", "mle-vision")
ACCOUNTS = (
    *("harbour-labs", "northwind", "blue-kestrel", "quarry-ai", "saltmarsh", "meridian", "tallow-press", "ninefold"),
    *("copperline", "fenwick", "orchard-bio", "lanternfish", "plover-games", "ridgeway", "sundial", "thistle-search"),
    *("umbra-maps", "vantage-law", "wren-audio", "zephyr-rail"),
)


class Kind(StrEnum):
    """What a message was meant to be; it travels as a header of the record."""

    REQUEST = "request"
    DISORDERED = "disordered"
    LATE = "late"
    FREE = "free"
    RETRY = "retry"
    CONFLICT = "conflict"
    UNREADABLE = "unreadable"


OUTCOME_OF: dict[Kind, Literal["applied", "duplicate", "conflict", "rejected"]] = {
    Kind.REQUEST: "applied",
    Kind.DISORDERED: "applied",
    Kind.LATE: "applied",
    Kind.FREE: "applied",
    Kind.RETRY: "duplicate",
    Kind.CONFLICT: "conflict",
    Kind.UNREADABLE: "rejected",
}
"""What must become of each; the pipeline accepts events that come up to 400 days late."""

_PER_MILLE = (
    (Kind.RETRY, 30),
    (Kind.CONFLICT, 3),
    (Kind.UNREADABLE, 5),
    (Kind.DISORDERED, 50),
    (Kind.LATE, 10),
    (Kind.FREE, 10),
)
_MINUTES_2, _DAYS_3 = 120 * 1_000_000, 3 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request that an account made of a model."""

    id: str
    source: str
    account: str
    model: str
    units: int
    accepted_at_us: int

    def as_fields(self) -> dict[str, str]:
        return {
            "id": self.id,
            "source": self.source,
            "account": self.account,
            "model": self.model,
            "quantity": spell_units(self.units),
            "accepted_at": _spell_time(self.accepted_at_us),
        }

    def as_json(self) -> bytes:
        return json.dumps(self.as_fields(), separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be sent, and what it was meant to be."""

    kind: Kind
    key: bytes
    value: bytes | None


class Traffic:
    """The messages of one run, one after the other.

    >>> Traffic(seed=7, run=1).message(0, now_us=0) == Traffic(seed=7, run=1).message(0, now_us=0)
    True
    """

    def __init__(self, *, seed: int, run: int) -> None:
        self._seed = seed
        self._run = run
        self._recent: deque[Request] = deque(maxlen=REMEMBERED)

    @property
    def remembered(self) -> int:
        return len(self._recent)

    def message(self, number: int, *, now_us: int) -> Message:
        draws = _Draws(f"{self._seed}:{self._run}:{number}")
        kind = _kind(draws.below(1_000), has_earlier=bool(self._recent))
        if kind in {Kind.RETRY, Kind.CONFLICT}:
            return self._again(kind, draws=draws)
        request = self._request(number, kind=kind, now_us=now_us, draws=draws)
        if kind is Kind.UNREADABLE:
            return Message(kind, request.account.encode(), _WAYS[draws.below(len(_WAYS))](request))
        self._recent.append(request)
        return Message(kind, request.account.encode(), request.as_json())

    def _again(self, kind: Kind, *, draws: _Draws) -> Message:
        request = self._recent[draws.below(len(self._recent))]
        if kind is Kind.CONFLICT:
            request = replace(request, units=request.units + 1)
        return Message(kind, request.account.encode(), request.as_json())

    def _request(self, number: int, *, kind: Kind, now_us: int, draws: _Draws) -> Request:
        behind_us = {Kind.DISORDERED: 1 + draws.below(_MINUTES_2), Kind.LATE: _MINUTES_2 + draws.below(_DAYS_3)}
        # The square makes the first accounts the large ones.
        place = draws.below(1_000)
        return Request(
            id=f"r{self._run:04d}-{number:09d}",
            source=GATEWAYS[draws.below(len(GATEWAYS))],
            account=ACCOUNTS[place * place * len(ACCOUNTS) // 1_000_000],
            model=MODELS[draws.below(len(MODELS))],
            units=0 if kind is Kind.FREE else 1 + draws.below(5 * UNITS),
            accepted_at_us=now_us - behind_us.get(kind, 0),
        )


class _Draws:
    """A few numbers that follow from a text."""

    def __init__(self, text: str) -> None:
        self._left = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=64).digest(), "big")

    def below(self, end: int) -> int:
        self._left, drawn = divmod(self._left, end)
        return drawn


def _kind(drawn: int, *, has_earlier: bool) -> Kind:
    for kind, share in _PER_MILLE:
        if drawn < share:
            return kind if has_earlier or kind not in {Kind.RETRY, Kind.CONFLICT} else Kind.REQUEST
        drawn -= share
    return Kind.REQUEST


def _field(name: str, value: object) -> Callable[[Request], bytes]:
    return lambda request: json.dumps({**request.as_fields(), name: value}).encode()


_WAYS: tuple[Callable[[Request], bytes | None], ...] = (
    lambda request: b"GET /v1/requests/" + request.id.encode(),
    lambda request: request.as_json()[:-9],
    lambda request: b"[" + request.as_json() + b"]",
    lambda _: None,
    lambda request: request.as_json()[:-1] + b',"id":"twice"}',
    _field("id", 17),
    _field("id", None),
    _field("quantity", "a lot"),
    _field("quantity", "0.0000001"),
    _field("accepted_at", "2026-01-02T03:04:05"),
    _field("accepted_at", None),
)
"""Ways in which a message cannot be read: by JSON, by the schema, or for want of an identity or a time."""


def spoilt(request: Request) -> list[bytes | None]:
    """The request in every way in which it cannot be read."""
    return [way(request) for way in _WAYS]


def spell_units(units: int) -> str:
    """A quantity as the records spell it.

    >>> spell_units(1_500_000)
    '1.500000'
    """
    return f"{units // UNITS}.{units % UNITS:06d}"


def read_units(text: str) -> int:
    """Back from the text; exact, also where fewer decimals are written.

    >>> read_units("1.5"), read_units("2")
    (1500000, 2000000)
    """
    whole, _, fraction = text.partition(".")
    return int(whole) * UNITS + int(fraction.ljust(6, "0")[:6] or "0")


def _spell_time(us: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
