"""Declaring a pipeline: what is kept as it was said, and what is refused where it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from penstock import Pipeline, agg, correct, drop, halt, tumbling
from penstock.core.declared import Aggregate, Late, Tumbling
from penstock.core.errors import CallerError
from penstock.pipeline.declare import TopicHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "id string, source string, account string, quantity decimal(18,6), accepted_at timestamp"


def declared() -> tuple[Pipeline, TopicHandle]:
    pipeline = Pipeline("usage")
    topic = pipeline.topic(
        "usage.requests", schema=SCHEMA, identity=["source", "id"], event_time="accepted_at", late=correct("400 days")
    )
    return pipeline, topic


def test_a_topic_keeps_what_was_declared() -> None:
    _, handle = declared()
    assert handle.topic.identity == ("source", "id")
    assert handle.topic.late == Late("correct", 400 * 86_400_000_000)  # type: ignore[arg-type]
    assert handle.topic.disorder_us == 60_000_000
    assert str(handle.topic.columns[3]) == "quantity decimal(18,6)"


def test_policies_for_late_events_are_three() -> None:
    assert [correct("1 day").policy, drop().policy, halt().policy] == ["correct", "drop", "halt"]


def test_a_stream_stays_callable_as_it_was_written() -> None:
    pipeline, topic = declared()

    @pipeline.stream(topic)
    def same(frame: DataFrame) -> DataFrame:
        return frame

    frame = cast("DataFrame", object())
    assert same(frame) is frame
    assert same.name == "same"


def test_a_view_keeps_its_keys_and_aggregates() -> None:
    pipeline, topic = declared()
    pipeline.view("by_minute", topic, by=[tumbling("1 minute"), "account"], columns={"sum": agg.sum("quantity")})
    assert pipeline.views[0].by == (Tumbling(60_000_000), "account")  # type: ignore[arg-type]
    assert pipeline.views[0].columns == {"sum": Aggregate("sum", "quantity")}


def test_a_renamed_pipeline_prefixes_its_views() -> None:
    pipeline, topic = declared()
    pipeline.view("total", topic, by=[], columns={"rows": agg.count()})
    pipeline.rename("trial")
    assert (pipeline.name, pipeline.views[0].name) == ("trial", "trial_total")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"schema": "id strin"}, "schema-unreadable"),
        ({"identity": ["nobody"]}, "column-undeclared"),
        ({"identity": []}, "identity-unusable"),
        ({"identity": "id"}, "column-undeclared"),
        ({"identity": ["id", "id"]}, "identity-unusable"),
        ({"event_time": "quantity"}, "event-time-unusable"),
        ({"event_time": "at"}, "column-undeclared"),
        ({"disorder": "soon"}, "duration-unreadable"),
        ({"schema": SCHEMA + ", _penstock int"}, "column-reserved"),
    ],
)
def test_a_topic_that_cannot_work_is_refused(changed: dict[str, object], code: str) -> None:
    wanted: dict[str, object] = {"schema": SCHEMA, "identity": ["id"], "event_time": "accepted_at"}
    with pytest.raises(CallerError) as refused:
        Pipeline("usage").topic("requests", **(wanted | changed))  # type: ignore[arg-type]
    assert refused.value.code == code


@pytest.mark.parametrize("name", ["", "Usage", "a-b", "1st", "a" * 49, "ä"])
def test_a_name_that_cannot_be_a_table_is_refused(name: str) -> None:
    with pytest.raises(CallerError) as refused:
        Pipeline(name)
    assert refused.value.code == "name-unusable"


def test_what_another_pipeline_declared_is_refused() -> None:
    _, foreign = declared()
    pipeline, _ = declared()
    with pytest.raises(CallerError) as stream:
        pipeline.stream(foreign)
    with pytest.raises(CallerError) as view:
        pipeline.view("v", foreign, by=[], columns={"rows": agg.count()})
    assert (stream.value.code, view.value.code) == ("stream-reads-unknown", "view-reads-unknown")


def test_one_name_twice_and_two_windows_are_refused() -> None:
    pipeline, topic = declared()
    pipeline.view("v", topic, by=[], columns={"rows": agg.count()})
    with pytest.raises(CallerError) as twice:
        pipeline.view("v", topic, by=[], columns={"rows": agg.count()})
    with pytest.raises(CallerError) as windows:
        pipeline.view("w", topic, by=[tumbling("1 hour"), tumbling("1 day")], columns={"rows": agg.count()})
    with pytest.raises(CallerError) as nothing:
        pipeline.stream()
    with pytest.raises(CallerError) as empty:
        tumbling("0 seconds")
    codes = [refused.value.code for refused in (twice, windows, nothing, empty)]
    assert codes == ["declared-twice", "view-with-two-windows", "stream-reads-nothing", "window-empty"]
