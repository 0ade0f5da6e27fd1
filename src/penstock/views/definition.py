"""A pipeline's definition as the database keeps it: to JSON, back, and what differs between two.

Two definitions are the same when nothing but the path of their file differs; a stream's fingerprint stands for what
JSON cannot show, the plan and the code of its function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from penstock.core.declared import (
    Aggregate,
    Column,
    ColumnType,
    Definition,
    FoldView,
    Key,
    Late,
    Measure,
    Stream,
    Topic,
    Window,
)

if TYPE_CHECKING:
    from typing import Any

    Json = Mapping[str, Any]


def to_json(definition: Definition) -> dict[str, object]:
    return dataclasses.asdict(definition)


def view_to_json(view: FoldView) -> dict[str, object]:
    return dataclasses.asdict(view)


def from_json(value: Mapping[str, object]) -> Definition:
    """The definition that `to_json` wrote."""
    found = cast("Json", value)
    return Definition(
        name=found["name"],
        file=found["file"],
        fingerprint=found["fingerprint"],
        topics=tuple(_topic(topic) for topic in found["topics"]),
        streams=tuple(
            Stream(stream["name"], tuple(stream["reads"]), stream["fingerprint"]) for stream in found["streams"]
        ),
        views=tuple(view_from_json(view) for view in found["views"]),
    )


def view_from_json(value: Mapping[str, object]) -> FoldView:
    found = cast("Json", value)
    window = found["window"]
    return FoldView(
        name=found["name"],
        stream=found["stream"],
        window=Window(**window) if window else None,
        keys=tuple(Key(key["name"], ColumnType(**key["type"])) for key in found["keys"]),
        measures=tuple(_measure(measure) for measure in found["measures"]),
    )


def _topic(found: Json) -> Topic:
    return Topic(
        name=found["name"],
        columns=tuple(Column(column["name"], ColumnType(**column["type"])) for column in found["columns"]),
        identity=tuple(found["identity"]),
        event_time=found["event_time"],
        late=Late(**found["late"]),
        disorder_us=found["disorder_us"],
    )


def _measure(found: Json) -> Measure:
    return Measure(found["name"], Aggregate(**found["aggregate"]), ColumnType(**found["type"]))


def differences(registered: Definition, offered: Definition) -> list[str]:
    """What changed between two definitions, in words a message can hold; empty where nothing did.

    >>> a, b = (Definition("p", "p.py", f, (), (Stream("rated", ("requests",), f),), ()) for f in ("f1", "f2"))
    >>> differences(a, b)
    ['stream rated']
    """
    changed = [*_topic_differences(registered, offered), *_stream_differences(registered, offered)]
    return changed + _named_differences("view", registered.views, offered.views)


def _topic_differences(registered: Definition, offered: Definition) -> list[str]:
    before = {topic.name: topic for topic in registered.topics}
    changed = _named_differences("topic", registered.topics, offered.topics, only_presence=True)
    for topic in offered.topics:
        old = before.get(topic.name, topic)
        for field, words in _TOPIC_FIELDS.items():
            if getattr(old, field) != getattr(topic, field):
                changed.append(f"{words} of topic {topic.name}")
    return changed


_TOPIC_FIELDS = {
    "columns": "the schema",
    "identity": "the identity",
    "event_time": "the event time",
    "late": "the late policy",
    "disorder_us": "the disorder",
}


def _stream_differences(registered: Definition, offered: Definition) -> list[str]:
    return _named_differences("stream", registered.streams, offered.streams)


def _named_differences(
    kind: str,
    registered: tuple[Topic, ...] | tuple[Stream, ...] | tuple[FoldView, ...],
    offered: tuple[Topic, ...] | tuple[Stream, ...] | tuple[FoldView, ...],
    *,
    only_presence: bool = False,
) -> list[str]:
    before, after = {part.name: part for part in registered}, {part.name: part for part in offered}
    names = sorted({*before, *after})
    return [
        f"{kind} {name}"
        for name in names
        if (name in before) != (name in after) or (not only_presence and before[name] != after[name])
    ]
