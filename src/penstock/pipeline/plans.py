"""What Spark made of a stream's function: what must be refused in it, and text to know it again by.

The one module that looks behind a DataFrame at Spark's analysed plan; PySpark has no public way to it.
O1 holds for row-by-row functions only while nothing in them looks at more than one row, or at anything
that another run would answer differently: those steps are refused here, each with what to use instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol, cast

from pyspark.sql import DataFrame

from penstock.core.declared import POSITION

_REFUSED_STEPS = {
    "Aggregate": ("a native aggregate", "declare pipeline.view(..., by=[...], columns={...}) on the stream"),
    "Deduplicate": ("dropDuplicates", "declare identity=[...] on the topic: duplicates never reach the function"),
    "DeduplicateWithinWatermark": ("dropDuplicatesWithinWatermark", "declare identity=[...] on the topic"),
    "Distinct": ("distinct", "declare identity=[...] on the topic: duplicates never reach the function"),
    "Window": ("a window function", "declare a view with tumbling(...) among its keys"),
    "GlobalLimit": ("limit", "filter by a condition on the row"),
    "LocalLimit": ("limit", "filter by a condition on the row"),
    "Offset": ("offset", "filter by a condition on the row"),
    "Tail": ("tail", "filter by a condition on the row"),
    "Sort": ("an order", "order where the view is read"),
    "Sample": ("sample", "filter by a condition on the row"),
    "Except": ("exceptAll or subtract", "filter by a condition on the row"),
    "Intersect": ("intersect", "filter by a condition on the row"),
    "FlatMapGroupsInPandas": ("a function on groups", "declare a view keyed by the group"),
    "FlatMapGroupsInArrow": ("a function on groups", "declare a view keyed by the group"),
    "FlatMapCoGroupsInPandas": ("a function on groups", "declare a view keyed by the group"),
    "FlatMapCoGroupsInArrow": ("a function on groups", "declare a view keyed by the group"),
    "Pivot": ("pivot", "declare a view with the pivoted column among its keys"),
    "EventTimeWatermark": ("withWatermark", "declare disorder=... on the topic"),
}
_REFUSED_VALUES = {
    "rand",
    "randn",
    "uuid",
    "shuffle",
    "current_timestamp",
    "current_date",
    "current_time",
    "now",
    "localtimestamp",
    "monotonically_increasing_id",
    "spark_partition_id",
    "input_file_name",
}
_USE_THE_ROW = f"use the row's own columns, or the fields of {POSITION}"


class _Node(Protocol):
    """A node of Spark's plan or expression tree as Py4J shows it."""

    def nodeName(self) -> str: ...  # noqa: N802
    def children(self) -> _Nodes: ...
    def expressions(self) -> _Nodes: ...
    def output(self) -> _Nodes: ...
    def name(self) -> str: ...
    def toString(self) -> str: ...  # noqa: N802
    def prettyName(self) -> str: ...  # noqa: N802


class _Nodes(Protocol):
    def size(self) -> int: ...
    def apply(self, at: int) -> _Node: ...


def refusals(frame: DataFrame) -> list[tuple[str, str]]:
    """What a stream may not do, as pairs of the step and what to use instead."""
    found = []
    for step in _walk(_analysed(frame)):
        found += _refused_step(step)
        found += [(name, _USE_THE_ROW) for name in _value_names(step) if name in _REFUSED_VALUES]
    return list(dict.fromkeys(found))


def _refused_step(step: _Node) -> list[tuple[str, str]]:
    name = step.nodeName()
    if name == "Join" and all(_holds_position(side) for side in _items(step.children())):
        return [("a join of two streams", "read the streams in two views and join those where they are read")]
    return [_REFUSED_STEPS[name]] if name in _REFUSED_STEPS else []


def _holds_position(step: _Node) -> bool:
    return any(column.name() == POSITION for inner in _walk(step) for column in _items(inner.output()))


def plan_text(frame: DataFrame) -> str:
    """The analysed plan with the numbers taken out that differ from run to run."""
    return re.sub(r"#\d+L?", "", _analysed(frame).toString())


def _analysed(frame: DataFrame) -> _Node:
    return cast(_Node, frame._jdf.queryExecution().analyzed())


def _walk(step: _Node) -> Iterator[_Node]:
    yield step
    for child in _items(step.children()):
        yield from _walk(child)


def _value_names(step: _Node) -> Iterator[str]:
    for value in _items(step.expressions()):
        for inner in _walk(value):
            yield inner.prettyName()


def _items(nodes: _Nodes) -> Iterator[_Node]:
    return (nodes.apply(at) for at in range(nodes.size()))
