"""How a pipeline is declared: topics, streams, views. Nothing runs here, and Spark is not loaded.

A stream's function is plain DataFrame in, DataFrame out, and stays callable as it was written.
A pipeline is one query: its streams and views share one read of the log, one transaction, one cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.declared import POSITION, Aggregate, Column, Late, Topic, Tumbling, parse_schema
from penstock.core.errors import CallerError, fail
from penstock.core.units import parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    StreamFunction = Callable[..., DataFrame]


def correct(horizon: str) -> Late:
    """Accept late events back to `horizon` and correct what was published.

    >>> correct("400 days").policy
    'correct'
    """
    return Late("correct", parse_duration(horizon))


def drop() -> Late:
    """Leave late events out, counted and kept."""
    return Late("drop")


def halt() -> Late:
    """Stop at the first late event and ask."""
    return Late("halt")


def tumbling(size: str) -> Tumbling:
    """Windows of one size side by side, as a key of a view: the columns `window_start` and `window_end`.

    >>> tumbling("1 minute").size_us
    60000000
    """
    us = parse_duration(size)
    if us == 0:
        raise fail(CallerError, "window-empty", value=size)
    return Tumbling(us)


@dataclass(frozen=True, slots=True, eq=False)
class StreamHandle:
    """A declared stream; calling it calls the function that was decorated."""

    name: str
    reads: tuple[TopicHandle | StreamHandle, ...]
    function: StreamFunction

    def __call__(self, *frames: DataFrame) -> DataFrame:
        return self.function(*frames)


@dataclass(frozen=True, slots=True, eq=False)
class TopicHandle:
    """A declared topic, to be named in `@pipeline.stream(...)` or read by a view as it is."""

    topic: Topic

    @property
    def name(self) -> str:
        return self.topic.name


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A view as it was asked for; it is bound to the columns of its stream when the pipeline is planned."""

    name: str
    stream: TopicHandle | StreamHandle
    by: tuple[str | Tumbling, ...]
    columns: Mapping[str, Aggregate]


class Pipeline:
    """What one process runs: one read of its topics, one transaction per batch.

    >>> pipeline = Pipeline("usage")
    >>> requests = pipeline.topic("requests", schema="id string, at timestamp", identity=["id"], event_time="at")
    >>> @pipeline.stream(requests)
    ... def billable(requests):
    ...     return requests.where("id <> ''")
    >>> pipeline.view("total", billable, by=[], columns={"requests": Aggregate("count")})
    """

    def __init__(self, name: str) -> None:
        self.name = _checked_name(name, kind="pipeline")
        self.topics: list[TopicHandle] = []
        self.streams: list[StreamHandle] = []
        self.views: list[ViewRequest] = []

    def topic(
        self,
        name: str,
        *,
        schema: str,
        identity: Sequence[str],
        event_time: str,
        late: Late | None = None,
        disorder: str = "1 minute",
    ) -> TopicHandle:
        """Declare a topic of events: JSON objects, each known by its identity and placed by its event time."""
        columns = parse_schema(schema)
        _check_topic(name, columns=columns, identity=identity, event_time=event_time)
        self._check_unused(name, taken=[topic.name for topic in self.topics], kind="topic")
        policy = late or correct("400 days")
        topic = Topic(name, columns, tuple(identity), event_time, policy, parse_duration(disorder))
        self.topics.append(TopicHandle(topic))
        return self.topics[-1]

    def stream(self, *reads: TopicHandle | StreamHandle) -> Callable[[StreamFunction], StreamHandle]:
        """Declare a stream by its function, which gets one DataFrame for each of `reads`."""
        for read in reads:
            if read not in self.topics and read not in self.streams:
                raise fail(CallerError, "stream-reads-unknown", pipeline=self.name, value=getattr(read, "name", read))
        if not reads:
            raise fail(CallerError, "stream-reads-nothing", pipeline=self.name)

        def declare(function: StreamFunction) -> StreamHandle:
            self._check_unused(function.__name__, taken=[stream.name for stream in self.streams], kind="stream")
            self.streams.append(StreamHandle(function.__name__, reads, function))
            return self.streams[-1]

        return declare

    def view(
        self,
        name: str,
        stream: TopicHandle | StreamHandle,
        *,
        by: Sequence[str | Tumbling],
        columns: Mapping[str, Aggregate],
    ) -> None:
        """Declare a view: the stream's rows grouped by `by`, with one aggregate for each of `columns`."""
        _checked_name(name, kind="view")
        self._check_unused(name, taken=[view.name for view in self.views], kind="view")
        if stream not in self.topics and stream not in self.streams:
            raise fail(CallerError, "view-reads-unknown", view=name, value=getattr(stream, "name", stream))
        if sum(isinstance(key, Tumbling) for key in by) > 1:
            raise fail(CallerError, "view-with-two-windows", view=name)
        self.views.append(ViewRequest(name, stream, tuple(by), dict(columns)))

    def rename(self, name: str) -> None:
        """Run the same file as another pipeline beside the first: its views get the name as a prefix."""
        self.name = _checked_name(name, kind="pipeline")
        self.views = [replace(view, name=_checked_name(f"{name}_{view.name}", kind="view")) for view in self.views]

    def _check_unused(self, name: str, *, taken: Sequence[str], kind: str) -> None:
        if name in taken:
            raise fail(CallerError, "declared-twice", kind=kind, name=name, pipeline=self.name)


def _checked_name(name: str, *, kind: str) -> str:
    """Names become tables and settings, so they are plain words."""
    if not (name.isascii() and name.isidentifier() and name == name.lower() and len(name) <= 48):
        raise fail(CallerError, "name-unusable", kind=kind, name=name)
    return name


def _check_topic(name: str, *, columns: tuple[Column, ...], identity: Sequence[str], event_time: str) -> None:
    known = {column.name: column.type for column in columns}
    for column in (*identity, event_time):
        if column not in known:
            raise fail(CallerError, "column-undeclared", topic=name, column=column, known=", ".join(known))
    if not identity or isinstance(identity, str) or len(set(identity)) < len(identity):
        raise fail(CallerError, "identity-unusable", topic=name, value=identity)
    if known[event_time].name != "timestamp":
        raise fail(CallerError, "event-time-unusable", topic=name, column=event_time, type=known[event_time])
    if POSITION in known:
        raise fail(CallerError, "column-reserved", topic=name, column=POSITION)
