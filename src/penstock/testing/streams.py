"""Seeded streams of records as clients send them, each with what was meant by it, and seeded cuts of them into batches.

V1   Every stream holds repeats, other contents under a known identity, records that cannot be decoded, and nulls where
     they matter; what was meant is written down beside the record, so an oracle needs no decoder.
The same seed gives the same records on every machine.
Limit: values are drawn from few, so that keys meet; an identity needs a column of text or of 32 bits or more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Literal, TypeAlias

from penstock.core.declared import INTEGERS, Column, ColumnType, Topic
from penstock.core.invariant import invariant
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.core.values import OffsetRange, TopicPartition
from penstock.testing.dice import Dice

Flaw = Literal["undecodable", "no identity", "no event time"]
_Scalar: TypeAlias = str | bool | int | float | Decimal | date | datetime | None
_Fields: TypeAlias = dict[str, _Scalar]

_START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_WORDS = ("small", "large", "", "Zürich", "中文", 'say "hi"\n', "😀")
_ZONES = (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8)))


@dataclass(frozen=True, slots=True)
class Sent:
    """One record and what was meant: `contents` of one `event` with the same number are equal, spelt alike or not."""

    partition: PartitionId
    key: bytes | None
    value: bytes | None
    timestamp_ms: TimestampMs
    event: int | None
    contents: int
    flaw: Flaw | None


def random_stream(topic: Topic, *, seed: int, count: int, partitions: int = 3) -> list[Sent]:
    """Records in sending order: about 60 % events, 15 % repeats, 10 % other contents, 15 % flawed."""
    return list(_Sender(topic, dice=Dice(seed), partitions=partitions).send(count))


def random_batches(ends: Mapping[TopicPartition, int], *, seed: int, size_max: int = 20) -> list[list[OffsetRange]]:
    """Some way to take every partition from 0 to its end in batches; a batch passes over some partitions."""
    dice, reached = Dice(seed), dict.fromkeys(sorted(ends), 0)
    batches: list[list[OffsetRange]] = []
    while any(reached[where] < ends[where] for where in reached):
        steps = {where: min(dice.below(size_max + 1), ends[where] - reached[where]) for where in reached}
        batches.append([_range(where, start=reached[where], step=step) for where, step in steps.items() if step])
        reached = {where: start + steps[where] for where, start in reached.items()}
    return batches


def _range(where: TopicPartition, *, start: int, step: int) -> OffsetRange:
    return OffsetRange(where.topic, where.partition, Offset(start), Offset(start + step))


class _Sender:
    """Remembers what it sent, to send it again."""

    def __init__(self, topic: Topic, *, dice: Dice, partitions: int) -> None:
        self._topic = topic
        self._dice = dice
        self._partitions = partitions
        self._contents: list[list[_Fields]] = []
        self._name = _identity_column(topic)

    def send(self, count: int) -> Iterator[Sent]:
        for number in range(count):
            draw = self._dice.below(100)
            if draw < 60 or not self._contents:
                yield self._event(number)
            elif draw < 85:
                yield self._again(number, is_changed=draw >= 75)
            else:
                yield self._flawed(number)

    def _event(self, number: int) -> Sent:
        event = len(self._contents)
        self._contents.append([self._fields(event)])
        return self._sent(number, event=event, contents=0)

    def _again(self, number: int, *, is_changed: bool) -> Sent:
        event = self._dice.below(len(self._contents))
        known = self._contents[event]
        if is_changed and (changed := self._changed(known)):
            known.append(changed)
        return self._sent(number, event=event, contents=len(known) - 1 if is_changed else 0)

    def _sent(self, number: int, *, event: int, contents: int) -> Sent:
        value = spell(self._contents[event][contents], columns=self._topic.columns, dice=self._dice)
        return self._record(number, value=value, event=event, contents=contents, flaw=None)

    def _flawed(self, number: int) -> Sent:
        flaw: Flaw = self._dice.choose(("undecodable", "undecodable", "no identity", "no event time"))
        fields = self._fields(len(self._contents))
        fields[self._dice.choose(self._topic.identity) if flaw == "no identity" else self._topic.event_time] = None
        value: bytes | None = spell(fields, columns=self._topic.columns, dice=self._dice)
        if flaw == "undecodable":
            value = self._dice.choose(undecodable(self._topic.columns))
        return self._record(number, value=value, event=None, contents=0, flaw=flaw)

    def _record(self, number: int, *, value: bytes | None, event: int | None, contents: int, flaw: Flaw | None) -> Sent:
        partition = PartitionId(self._dice.below(self._partitions))
        key = self._dice.choose((None, b"", b"k%d" % partition))
        timestamp_ms = TimestampMs(int(_START.timestamp() * 1_000) + number)
        return Sent(partition, key, value, timestamp_ms, event, contents, flaw)

    def _fields(self, event: int) -> _Fields:
        fields = {column.name: _draw(column.type, dice=self._dice) for column in self._topic.columns}
        for name in fields.keys() - {*self._topic.identity, self._topic.event_time}:
            fields[name] = None if self._dice.chance(10) else fields[name]
        unique = next(column for column in self._topic.columns if column.name == self._name)
        return fields | {self._name: event if unique.type.name in INTEGERS else f"e-{event}"}

    def _changed(self, known: Sequence[_Fields]) -> _Fields | None:
        """The fields with one that is no part of the identity drawn again, if that gives contents never sent."""
        free = sorted({column.name for column in self._topic.columns} - set(self._topic.identity))
        name = self._dice.choose(free)
        kind = next(column.type for column in self._topic.columns if column.name == name)
        changed = known[0] | {name: _draw(kind, dice=self._dice)}
        return None if changed in known else changed


def _identity_column(topic: Topic) -> str:
    wide = [c.name for c in topic.columns if c.name in topic.identity and c.type.name in ("string", "int", "long")]
    invariant(wide, "a random stream numbers its events in a column of the identity", topic=topic.name)
    return wide[-1]


def _draw(kind: ColumnType, *, dice: Dice) -> _Scalar:
    draws: Mapping[str, Callable[[], _Scalar]] = {
        "string": lambda: dice.choose(_WORDS),
        "boolean": lambda: dice.chance(50),
        "float": lambda: dice.between(-40, 40) / 8,
        "double": lambda: dice.between(-40, 40) / 10,
        "decimal": lambda: _draw_decimal(kind, dice=dice),
        "date": lambda: date(2026, 3, 1 + dice.below(3)),
        "timestamp": lambda: _START + timedelta(milliseconds=dice.between(-300_000, 300_000)),
    }
    return draws.get(kind.name, lambda: dice.between(-100, 100))()


def _draw_decimal(kind: ColumnType, *, dice: Dice) -> Decimal:
    """At most four digits, two of them behind the point where the type has room for that."""
    digits = min(4, kind.precision)
    places = min(kind.scale, max(2, digits - (kind.precision - kind.scale)))
    return Decimal(dice.between(1 - 10**digits, 10**digits)).scaleb(-places)


def spell(fields: Mapping[str, _Scalar], *, columns: Sequence[Column], dice: Dice) -> bytes:
    """JSON of the fields in one of its many spellings: order, white space, escapes, unknown fields, zeros, zones."""
    types = {column.name: column.type for column in columns}
    pairs = [(name, _spell_value(value, kind=types[name], dice=dice)) for name, value in fields.items()]
    pairs = [(name, text) for name, text in pairs if text != "null" or dice.chance(50)]
    pairs += [("unknown", '{"a": [1, {}], "a": null}')] * dice.below(2)
    gap = dice.choose(("", " ", "\n\t"))
    inside = ("," + gap).join(f"{_spell_text(name, dice=dice)}:{gap}{text}" for name, text in dice.shuffled(pairs))
    return f"{{{gap}{inside}{gap}}}".encode()


def _spell_value(value: _Scalar, *, kind: ColumnType, dice: Dice) -> str:
    match value:
        case str():
            return _spell_text(value, dice=dice)
        case Decimal():
            plain = f"{value:f}"
            spare = kind.scale - len(plain.partition(".")[2])
            zeros = "0" * dice.below(spare + 1) if "." in plain else ""
            return dice.choose((plain + zeros, f'"{plain}{zeros}"'))
        case datetime():
            zone = dice.choose(_ZONES)
            text = value.astimezone(zone).isoformat(timespec=dice.choose(("milliseconds", "microseconds")))
            return f'"{text}"' if zone is not UTC else f'"{text.removesuffix("+00:00")}Z"'
        case date():
            return f'"{value.isoformat()}"'
    return json.dumps(value)


def _spell_text(text: str, *, dice: Dice) -> str:
    return json.dumps(text, ensure_ascii=dice.chance(50))


def undecodable(columns: Sequence[Column]) -> tuple[bytes | None, ...]:
    """One value of each kind that no topic with these columns can decode."""
    broken: tuple[bytes | None, ...] = (
        *(None, b"", b" ", b"hello", b"null", b"7", b"[]", b'"{}"', b"{", b"{}{}", b'{"a":}', b"{'a':1}", b'{"a":1,}'),
        *(b'{"a":NaN}', b'{"a":01}', b'{"a":1,"a":1}', b'{"a":"\xff"}', b"\xef\xbb\xbf{}", b'{"a":"\x01"}'),
        b'{"deep":' + b"[" * 600 + b"]" * 600 + b"}",
    )
    return broken + tuple(
        b'{"%s":%s}' % (column.name.encode(), value) for column in columns for value in _of_no_type(column.type)
    )


def _of_no_type(kind: ColumnType) -> tuple[bytes, ...]:
    """JSON values that a column of this type refuses."""
    by_type: Mapping[str, tuple[bytes, ...]] = {
        "string": (b"7", b"true", b'"\\u0000"', b'"\\ud800"'),
        "boolean": (b"0", b'"true"'),
        "float": (b'"1"', b"1e39"),
        "double": (b'"1"', b"1e309"),
        "decimal": (b'"one"', b"0." + b"0" * (kind.scale + 1), b"1" + b"0" * (kind.precision - kind.scale)),
        "date": (b"20260301", b'"2026-02-30"', b'"2026-03-01T00:00:00Z"'),
        "timestamp": (b"0", b'"2026-03-01T12:00:00"', b'"2026-03-01 12:00:00Z"', b'"2026-03-01T12:00:00.1234567Z"'),
    }
    return (b"{}", b"[]", *by_type.get(kind.name, (b"1.0", b'"1"', b"99999999999999999999")))
