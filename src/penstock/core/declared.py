"""What a pipeline file declares, as plain values: schemas, topics, windows, aggregates, views.

The pipeline, the views and the independent verifier all read these, so they hold no behaviour that
could make two of them wrong together: types are names with numbers, durations are microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.core.errors import CallerError, fail
from penstock.core.units import DurationUs

POSITION = "_penstock"
"""The struct column that every stream's rows carry: topic, partition, offset, weight, cause."""

TypeName = Literal[
    "string", "boolean", "byte", "short", "int", "long", "float", "double", "decimal", "date", "timestamp"
]
_SPELLINGS: Mapping[str, TypeName] = {
    "string": "string",
    "boolean": "boolean",
    "bool": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "int",
    "integer": "int",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "decimal": "decimal",
    "dec": "decimal",
    "numeric": "decimal",
    "date": "date",
    "timestamp": "timestamp",
}
INTEGERS: frozenset[TypeName] = frozenset({"byte", "short", "int", "long"})
FLOATS: frozenset[TypeName] = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type; precision and scale are of decimals only, and 0 elsewhere."""

    name: TypeName
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: ColumnType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


_COLUMN = re.compile(
    r"\s*(`[^`]+`|[A-Za-z_][A-Za-z0-9_]*)\s+([A-Za-z]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*(,|$)"
)


def parse_schema(text: str) -> tuple[Column, ...]:
    """Read a schema as Spark's DDL spells it, flat columns only.

    >>> [str(column) for column in parse_schema("id string, price DECIMAL(18, 6)")]
    ['id string', 'price decimal(18,6)']
    """
    columns: list[Column] = []
    at = 0
    while at < len(text):
        match = _COLUMN.match(text, at)
        if match is None:
            raise fail(CallerError, "schema-unreadable", value=text, where=text[at:].strip()[:40])
        columns.append(Column(match[1].strip("`"), _column_type(match[2], match[3], match[4], text=text)))
        at = match.end()
    names = [column.name.lower() for column in columns]
    if not columns or len(set(names)) < len(names) or text.rstrip().endswith(","):
        raise fail(CallerError, "schema-unreadable", value=text, where="no column, or one name twice")
    return tuple(columns)


def _column_type(spelling: str, precision: str | None, scale: str | None, *, text: str) -> ColumnType:
    name = _SPELLINGS.get(spelling.lower())
    digits, places = int(precision or 10), int(scale or 0)
    sized_wrongly = precision is not None and name != "decimal"
    if name is None or sized_wrongly or (name == "decimal" and not 0 < digits <= 38) or places > digits:
        raise fail(CallerError, "schema-unreadable", value=text, where=spelling)
    return ColumnType(name, digits, places) if name == "decimal" else ColumnType(name)


@dataclass(frozen=True, slots=True)
class Late:
    """What happens to an event behind its topic's watermark: `correct` up to a horizon, `drop`, or `halt`."""

    policy: Literal["correct", "drop", "halt"]
    horizon_us: DurationUs | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of events: what a record must hold, who it is, and when it happened."""

    name: str
    columns: tuple[Column, ...]
    identity: tuple[str, ...]
    event_time: str
    late: Late
    disorder_us: DurationUs

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, side by side, aligned to 1970-01-01T00:00Z: start inclusive, end exclusive."""

    size_us: DurationUs


AggregateKind = Literal["count", "sum", "min", "max", "avg"]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count` counts rows and has no column; the others pass over nulls and are null over no value."""

    kind: AggregateKind
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A column that groups a fold. `window_start` and `window_end` stand in the view's `window` instead."""

    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class Window:
    """A tumbling window over the column that holds the event time."""

    column: str
    size_us: DurationUs


@dataclass(frozen=True, slots=True)
class Measure:
    """One aggregate of a fold, with the type of the column that it reads (`long` for count)."""

    name: str
    aggregate: Aggregate
    type: ColumnType


@dataclass(frozen=True, slots=True)
class FoldView:
    """A view bound to the columns of its stream: what is grouped, and what is computed per group."""

    name: str
    stream: str
    window: Window | None
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]

    @property
    def key_columns(self) -> tuple[Key, ...]:
        """The columns readers see as the key, the window's two first."""
        stamp = ColumnType("timestamp")
        window = (Key("window_start", stamp), Key("window_end", stamp)) if self.window else ()
        return (*window, *self.keys)


@dataclass(frozen=True, slots=True)
class Stream:
    """A named function, what it reads (topics or other streams, by name), and what its plan and code are known by."""

    name: str
    reads: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A whole pipeline as it is registered; its fingerprint stands for those of all its streams."""

    name: str
    file: str
    fingerprint: str
    topics: tuple[Topic, ...]
    streams: tuple[Stream, ...]
    views: tuple[FoldView, ...]
