"""Bind a declared pipeline to Spark: try each function on empty frames, refuse what would be wrong, type the views.

The same functions, in the same order, make the frames of every batch (`streams_of`), of `plan` and of the verifier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.core.declared import (
    POSITION,
    Aggregate,
    ColumnType,
    Definition,
    FoldView,
    Key,
    Measure,
    Stream,
    Tumbling,
    Window,
)
from penstock.core.errors import CallerError, PenstockError, fail
from penstock.kernels.fold import check_measure
from penstock.pipeline.code import fingerprint_of
from penstock.pipeline.declare import Pipeline, StreamHandle, ViewRequest
from penstock.pipeline.frames import EVENT_TIME, POSITION_TYPE, empty_rows, topic_frame, with_role
from penstock.pipeline.plans import plan_text, refusals
from penstock.pipeline.spark_types import column_type


@dataclass(frozen=True, slots=True)
class Graph:
    """A pipeline whose functions were tried and whose views have types."""

    pipeline: Pipeline
    definition: Definition
    columns: Mapping[str, tuple[str, ...]]
    """What each stream's rows hold, spelled as in a schema."""


def bind(pipeline: Pipeline, *, spark: SparkSession, file: Path) -> Graph:
    """Analyse the whole pipeline without a record; every refusal names its stream or view and what to use."""
    if not pipeline.views:
        raise fail(CallerError, "pipeline-without-view", pipeline=pipeline.name)
    empty = {topic.name: topic_frame(spark, topic.topic, empty_rows(topic.topic)) for topic in pipeline.topics}
    frames = streams_of(pipeline, topics=empty)
    for stream in pipeline.streams:
        _check_frame(stream, frames[stream.name])
    views = tuple(_bind_view(view, frames[view.stream.name]) for view in pipeline.views)
    streams = tuple(_stream(stream, frames[stream.name]) for stream in pipeline.streams)
    definition = Definition(
        name=pipeline.name,
        file=str(file.absolute()),
        fingerprint=_hashed(*(stream.fingerprint for stream in streams)),
        topics=tuple(topic.topic for topic in pipeline.topics),
        streams=streams,
        views=views,
    )
    return Graph(pipeline, definition, {name: _spelled(frame) for name, frame in frames.items()})


def streams_of(pipeline: Pipeline, *, topics: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The frame of every topic and stream, made by calling each stream's function on what it reads."""
    frames = dict(topics)
    for stream in pipeline.streams:
        frames[stream.name] = _call(stream, [frames[read.name] for read in stream.reads])
    return frames


def _call(stream: StreamHandle, frames: list[DataFrame]) -> DataFrame:
    try:
        made = stream.function(*frames)
    except PenstockError:
        raise
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise fail(CallerError, "stream-refused-by-spark", stream=stream.name, reason=reason) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise fail(CallerError, "stream-function-broken", stream=stream.name, reason=reason) from error
    if not isinstance(made, DataFrame):
        raise fail(CallerError, "stream-returns-no-frame", stream=stream.name, value=type(made).__name__)
    return made


def _check_frame(stream: StreamHandle, frame: DataFrame) -> None:
    for step, instead in refusals(frame):
        raise fail(CallerError, "stream-step-refused", stream=stream.name, step=step, instead=instead)
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    if POSITION not in kinds:
        raise fail(CallerError, "stream-loses-position", stream=stream.name, column=POSITION)
    if kinds[POSITION] != POSITION_TYPE:
        raise fail(CallerError, "stream-changes-position", stream=stream.name, column=POSITION)


def _bind_view(view: ViewRequest, frame: DataFrame) -> FoldView:
    kinds = {field.name: column_type(field.dataType) for field in frame.schema.fields if field.name != POSITION}
    window = next((_bind_window(view, key, frame) for key in view.by if isinstance(key, Tumbling)), None)
    keys = tuple(Key(key, _kind(view, key, kinds)) for key in view.by if isinstance(key, str))
    measures = tuple(_bind_measure(view, name, agg, kinds) for name, agg in view.columns.items())
    bound = FoldView(view.name, view.stream.name, window, keys, measures)
    names = [key.name for key in bound.key_columns] + [measure.name for measure in measures]
    if not measures or len({name.lower() for name in names}) < len(names):
        raise fail(CallerError, "view-columns-unusable", view=view.name, columns=", ".join(names))
    return bound


def _bind_window(view: ViewRequest, tumbling: Tumbling, frame: DataFrame) -> Window:
    found = [name for name in with_role(frame, EVENT_TIME) if frame.schema[name].dataType.simpleString() == "timestamp"]
    if len(found) != 1:
        raise fail(
            CallerError, "view-without-event-time", view=view.name, stream=view.stream.name, found=", ".join(found)
        )
    return Window(found[0], tumbling.size_us)


def _bind_measure(
    view: ViewRequest, name: str, aggregate: Aggregate, kinds: Mapping[str, ColumnType | None]
) -> Measure:
    if not isinstance(aggregate, Aggregate):
        raise fail(CallerError, "view-aggregate-unusable", view=view.name, column=name, value=aggregate)
    kind = ColumnType("long") if aggregate.column is None else _kind(view, aggregate.column, kinds)
    check_measure(aggregate.kind, kind)
    return Measure(name, aggregate, kind)


def _kind(view: ViewRequest, column: str, kinds: Mapping[str, ColumnType | None]) -> ColumnType:
    kind = kinds.get(column)
    if kind is None:
        raise fail(
            CallerError,
            "view-column-unusable",
            view=view.name,
            column=column,
            stream=view.stream.name,
            known=", ".join(name for name, known in kinds.items() if known),
        )
    return kind


def _spelled(frame: DataFrame) -> tuple[str, ...]:
    return tuple(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)


def _stream(stream: StreamHandle, frame: DataFrame) -> Stream:
    known_by = _hashed(plan_text(frame), fingerprint_of(stream.function))
    return Stream(stream.name, tuple(read.name for read in stream.reads), known_by)


def _hashed(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
