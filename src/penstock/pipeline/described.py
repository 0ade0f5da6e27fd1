"""A bound pipeline in words, for `penstock plan`."""

from __future__ import annotations

from penstock.core.declared import FoldView, Measure, Topic
from penstock.pipeline.graph import Graph


def describe(graph: Graph) -> dict[str, object]:
    """The graph from topics to views, with columns and policies."""
    definition = graph.definition
    return {
        "pipeline": definition.name,
        "fingerprint": definition.fingerprint,
        "topics": [_topic(topic) for topic in definition.topics],
        "streams": [
            {"stream": stream.name, "reads": list(stream.reads), "columns": list(graph.columns[stream.name])}
            for stream in definition.streams
        ],
        "views": [_view(view) for view in definition.views],
    }


def _topic(topic: Topic) -> dict[str, object]:
    return {
        "topic": topic.name,
        "columns": [str(column) for column in topic.columns],
        "identity": list(topic.identity),
        "event_time": topic.event_time,
        "late": _late(topic),
        "disorder_seconds": topic.disorder_us / 1_000_000,
    }


def _late(topic: Topic) -> str:
    if topic.late.horizon_us is None:
        return topic.late.policy
    return f"{topic.late.policy} back to {topic.late.horizon_us / 86_400_000_000:g} days"


def _view(view: FoldView) -> dict[str, object]:
    return {
        "view": view.name,
        "reads": view.stream,
        "keys": [f"{key.name} {key.type}" for key in view.key_columns],
        "columns": [f"{measure.name} {_spelled(measure)}" for measure in view.measures],
    }


def _spelled(measure: Measure) -> str:
    aggregate = measure.aggregate
    return f"{aggregate.kind}({aggregate.column or ''})"
