"""One micro-batch, from the rows of the reading job to a batch ready to commit.

V1   Outcomes come from intake and the count of records from the source; the commit holds one against the other.
V3   Nothing here is visible outside: a batch that dies leaves no trace and may be cut differently when tried again.
A function that raises costs the records that make it raise, and no others: they are found, rejected, and the batch is
decided again without them. Where no single record is to blame, or too many are, the pipeline stops and names why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.core.declared import POSITION, FoldView
from penstock.core.errors import CallerError, fail
from penstock.kernels.fold import fold, outside_calendar
from penstock.pipeline.blame import TooManyCulprits, find_culprits
from penstock.pipeline.frames import topic_frame
from penstock.pipeline.graph import Graph, streams_of
from penstock.pipeline.intake import Collected, Judged, Known, Position, SetAside, judge

SMALL_ROWS = 10_000
"""Up to here one task is quicker than one for each core: a task costs about 5 ms."""

RESULT_LIMIT = "spark.driver.maxResultSize"
"""Spark names this setting when the rows of a batch are more than the driver may hold."""
_NOT_THE_FUNCTION = (
    RESULT_LIMIT,
    "SPARK_JOB_CANCELLED",
    "SparkContext was shut down",
    "OutOfMemoryError",
    "No space left",
)
"""What ends a job whatever its records are: no record is rejected for it."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a batch will commit: who was accepted, and what each view gains."""

    judged: Judged
    folds: Mapping[str, pa.Table]
    set_aside: SetAside


class FunctionRaised(Exception):  # carries what a user's function said to whoever looks for the culprit
    pass


def compute(
    collected: Collected, *, known: Mapping[str, Known], graph: Graph, spark: SparkSession, set_aside_max: int
) -> Computed:
    """Decide the batch and run the streams, as often as it takes to set the raising records aside."""
    aside = SetAside()
    while True:
        judged = judge(collected, known=known, aside=aside)
        room = set_aside_max - len(aside.said)
        try:
            rows = run_streams(graph, accepted=judged.accepted, spark=spark)
            found = _without_window(rows, graph=graph, most=room)
        except FunctionRaised as raised:
            found = _culprits(judged.accepted, graph=graph, spark=spark, most=room, said=str(raised))
        if not found:
            break
        aside.said.update(found)
    folds = {view.name: fold(rows[view.stream], view) for view in graph.definition.views}
    return Computed(judged, folds, aside)


def run_streams(graph: Graph, *, accepted: Mapping[str, pa.Table], spark: SparkSession) -> dict[str, pa.Table]:
    """The rows of every stream that a view reads, with the columns that its views use."""
    topics = {t.name: topic_frame(spark, t, accepted[t.name]) for t in graph.definition.topics}
    is_small = sum(rows.num_rows for rows in accepted.values()) < SMALL_ROWS
    try:
        frames = streams_of(graph.pipeline, topics=topics)
        needed = {stream: _needed(frames[stream], graph, stream) for stream in _viewed(graph)}
        return {stream: (frame.coalesce(1) if is_small else frame).toArrow() for stream, frame in needed.items()}
    except PySparkException as error:
        if any(mark in str(error) for mark in _NOT_THE_FUNCTION):
            raise
        raise FunctionRaised(what_it_said(error)) from error


def _viewed(graph: Graph) -> list[str]:
    return list(dict.fromkeys(view.stream for view in graph.definition.views))


def _needed(frame: DataFrame, graph: Graph, stream: str) -> DataFrame:
    """Only what the views of the stream read travels to the driver."""
    views = [view for view in graph.definition.views if view.stream == stream]
    return frame.select(*dict.fromkeys(name for view in views for name in _columns_of(view)), POSITION)


def _columns_of(view: FoldView) -> list[str]:
    window = [view.window.column] if view.window else []
    measured = [measure.aggregate.column for measure in view.measures if measure.aggregate.column]
    return [*window, *(key.name for key in view.keys), *measured]


def _without_window(rows: Mapping[str, pa.Table], *, graph: Graph, most: int) -> dict[Position, str]:
    """Records that a view cannot place: one of them would make it unreadable, so they are set aside like the others."""
    found: dict[Position, str] = {}
    for view in graph.definition.views:
        if view.window and rows[view.stream].num_rows:
            times = rows[view.stream][view.window.column]
            said = f"the window of view {view.name} leaves the calendar"
            outside = rows[view.stream].filter(outside_calendar(times, view.window))
            found |= {(row["topic"], row["partition"], row["offset"]): said for row in outside[POSITION].to_pylist()}
    if len(found) > most:
        first = _spelt(min(found))
        raise fail(CallerError, "function-raises-often", most=most, position=first, reason=found[min(found)])
    return found


def _culprits(
    accepted: Mapping[str, pa.Table], *, graph: Graph, spark: SparkSession, most: int, said: str
) -> dict[Position, str]:
    rows = [(topic, at) for topic, table in accepted.items() for at in range(table.num_rows)]

    def raises(some: Sequence[tuple[str, int]]) -> str | None:
        part = {t: table.take([at for topic, at in some if topic == t]) for t, table in accepted.items()}
        try:
            run_streams(graph, accepted=part, spark=spark)
        except FunctionRaised as raised:
            return str(raised)
        return None

    first = _first_position(accepted)
    try:
        found = find_culprits(rows, raises=raises, most=most)
    except TooManyCulprits:
        raise fail(CallerError, "function-raises-often", most=most, position=first, reason=said) from None
    if not found:
        raise fail(CallerError, "function-raises-alone", position=first, reason=said)
    return {_position(accepted[topic], topic=topic, at=at): text for (topic, at), text in found.items()}


def _position(rows: pa.Table, *, topic: str, at: int) -> Position:
    row = rows[POSITION][at].as_py()
    return topic, row["partition"], row["offset"]


def _spelt(position: Position) -> str:
    return "{}-{}-{}".format(*position)


def _first_position(accepted: Mapping[str, pa.Table]) -> str:
    for topic, rows in accepted.items():
        if rows.num_rows:
            return _spelt(_position(rows, topic=topic, at=0))
    return "no record"


def what_it_said(error: BaseException) -> str:
    """The user's own exception out of what Spark wraps around it.

    >>> what_it_said(ValueError("Traceback ...\\n  File x\\nKeyError: 'gold'\\n"))
    "KeyError: 'gold'"
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0][:500]
