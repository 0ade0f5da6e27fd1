"""Binding a pipeline to Spark: types of views, roles that survive every step, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from penstock import Pipeline, agg, tumbling
from penstock.core.declared import ColumnType
from penstock.core.errors import CallerError
from penstock.pipeline.declare import StreamHandle, TopicHandle
from penstock.pipeline.frames import EVENT_TIME, empty_rows, topic_frame, with_role
from penstock.pipeline.graph import Graph, bind

SCHEMA = "id string, account string, quantity decimal(18,6), weight double, n int, accepted_at timestamp"
Step = Callable[[DataFrame], DataFrame]


def declared(step: Step, *, keys: list[object] | None = None) -> Pipeline:
    pipeline = Pipeline("usage")
    topic = pipeline.topic("usage.requests", schema=SCHEMA, identity=["id"], event_time="accepted_at")

    @pipeline.stream(topic)
    def made(requests: DataFrame) -> DataFrame:
        return step(requests)

    by = ["account"] if keys is None else keys
    pipeline.view("totals", made, by=by, columns={"rows": agg.count()})  # type: ignore[arg-type]
    return pipeline


def bound(pipeline: Pipeline, spark: SparkSession) -> Graph:
    return bind(pipeline, spark=spark, file=Path("usage.py"))


def refused(step: Step, spark: SparkSession) -> CallerError:
    with pytest.raises(CallerError) as caught:
        bound(declared(step), spark)
    return caught.value


KEEPING: dict[str, Step] = {
    "where": lambda frame: frame.where("quantity > 0"),
    "withColumn": lambda frame: frame.withColumn("more", F.col("quantity") * 2),
    "select": lambda frame: frame.select("account", "accepted_at", "_penstock"),
    "rename": lambda frame: frame.withColumnRenamed("accepted_at", "at"),
    "alias": lambda frame: frame.select("account", F.col("accepted_at").alias("at"), "_penstock"),
    "drop": lambda frame: frame.drop("id"),
    "explode": lambda frame: frame.withColumn("each", F.explode(F.array(F.lit(1), F.lit(2)))),
    "udf": lambda frame: frame.withColumn("upper", F.udf(lambda text: text.upper())("account")),
    "union": lambda frame: frame.where("n = 1").unionByName(frame.where("n = 2")),
    "mapInArrow": lambda frame: frame.mapInArrow(lambda batches: batches, frame.schema),
    "fillna": lambda frame: frame.fillna("nobody"),
    "lookup": lambda frame: frame.join(
        F.broadcast(frame.sparkSession.createDataFrame([("a", 1)], "account string, rank int")), "account"
    ),
}


@pytest.mark.parametrize("name", KEEPING)
def test_the_role_of_the_event_time_survives(name: str, spark: SparkSession) -> None:
    graph = bound(declared(KEEPING[name], keys=[tumbling("1 minute"), "account"]), spark)
    window = graph.definition.views[0].window
    assert window is not None
    assert window.column == ("at" if name in {"rename", "alias"} else "accepted_at")


REFUSED: dict[str, tuple[Step, str]] = {
    "groupBy": (lambda frame: frame.groupBy("account").count(), "a native aggregate"),
    "distinct": (lambda frame: frame.distinct(), "dropDuplicates"),
    "dropDuplicates": (lambda frame: frame.dropDuplicates(["account"]), "dropDuplicates"),
    "join": (lambda frame: frame.join(frame.select("id", "_penstock"), "id"), "a join of two streams"),
    "window": (
        lambda frame: frame.withColumn("rank", F.row_number().over(Window.orderBy("id"))),
        "a window function",
    ),
    "limit": (lambda frame: frame.limit(3), "limit"),
    "orderBy": (lambda frame: frame.orderBy("id"), "an order"),
    "sample": (lambda frame: frame.sample(0.5), "sample"),
    "rand": (lambda frame: frame.withColumn("r", F.rand()), "rand"),
    "uuid": (lambda frame: frame.withColumn("r", F.expr("uuid()")), "uuid"),
    "current_timestamp": (lambda frame: frame.where(F.col("accepted_at") < F.current_timestamp()), "current_timestamp"),
    "current_date": (lambda frame: frame.withColumn("day", F.current_date()), "current_date"),
    "row number": (lambda frame: frame.withColumn("r", F.monotonically_increasing_id()), "monotonically_increasing_id"),
    "groups": (
        lambda frame: frame.groupBy("account").applyInPandas(lambda rows: rows, frame.schema),
        "a function on groups",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_without_exact_meaning_is_refused_with_what_to_use(name: str, spark: SparkSession) -> None:
    step, told = REFUSED[name]
    error = refused(step, spark)
    assert error.code == "stream-step-refused"
    assert error.fields["step"] == told
    assert "stream made uses" in str(error)
    assert len(error.next_step) > 10


def test_a_select_that_loses_the_position_is_told_what_to_add(spark: SparkSession) -> None:
    error = refused(lambda frame: frame.select("account"), spark)
    assert error.code == "stream-loses-position"
    assert "_penstock" in error.next_step


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (lambda frame: frame.select("nobody"), "stream-refused-by-spark"),
        (lambda frame: frame.select(int("nobody")), "stream-function-broken"),
        (lambda _: 3, "stream-returns-no-frame"),
        (lambda frame: frame.withColumn("_penstock", F.lit(1)), "stream-changes-position"),
    ],
)
def test_a_broken_function_is_named_before_a_record_is_read(step: Step, code: str, spark: SparkSession) -> None:
    error = refused(step, spark)
    assert (error.code, error.fields["stream"]) == (code, "made")


def view_of(spark: SparkSession, **changed: object) -> Graph:
    pipeline = Pipeline("usage")
    topic = pipeline.topic("usage.requests", schema=SCHEMA, identity=["id"], event_time="accepted_at")
    wanted: dict[str, object] = {"by": ["account"], "columns": {"rows": agg.count()}}
    pipeline.view("totals", topic, **(wanted | changed))  # type: ignore[arg-type]
    return bound(pipeline, spark)


def test_a_view_takes_its_types_from_the_stream(spark: SparkSession) -> None:
    columns = {"sum": agg.sum("quantity"), "most": agg.max("n"), "rows": agg.count()}
    view = view_of(spark, by=[tumbling("1 hour"), "account"], columns=columns).definition.views[0]
    assert [str(key.type) for key in view.key_columns] == ["timestamp", "timestamp", "string"]
    assert [measure.type for measure in view.measures] == [
        ColumnType("decimal", 18, 6),
        ColumnType("int"),
        ColumnType("long"),
    ]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"by": ["nobody"]}, "view-column-unusable"),
        ({"columns": {"sum": agg.sum("nobody")}}, "view-column-unusable"),
        ({"columns": {"sum": agg.sum("weight")}}, "float-sum-refused"),
        ({"columns": {}}, "view-columns-unusable"),
        ({"columns": {"account": agg.count()}}, "view-columns-unusable"),
        ({"columns": {"rows": "count"}}, "view-aggregate-unusable"),
    ],
)
def test_a_view_that_cannot_be_is_refused(changed: dict[str, object], code: str, spark: SparkSession) -> None:
    with pytest.raises(CallerError) as caught:
        view_of(spark, **changed)
    assert caught.value.code == code


def test_a_window_needs_exactly_one_event_time(spark: SparkSession) -> None:
    keys: list[object] = [tumbling("1 minute")]
    steps: list[Step] = [lambda f: f.drop("accepted_at"), lambda f: f.withColumn("again", F.col("accepted_at"))]
    for step in steps:
        with pytest.raises(CallerError) as caught:
            bound(declared(step, keys=keys), spark)
        assert caught.value.code == "view-without-event-time"


def test_the_fingerprint_changes_with_the_function_and_not_with_the_run(spark: SparkSession) -> None:
    def fingerprint(step: Step) -> str:
        return bound(declared(step), spark).definition.fingerprint

    one = fingerprint(lambda frame: frame.where("n > 1"))
    assert fingerprint(lambda frame: frame.where("n > 1")) == one
    assert fingerprint(lambda frame: frame.where("n > 2")) != one

    def marked(mark: str) -> Step:
        return lambda frame: frame.withColumn("x", F.udf(lambda text: text + mark)("account"))

    assert fingerprint(marked("a")) != fingerprint(marked("b"))


def test_the_event_time_is_found_by_its_role(spark: SparkSession) -> None:
    handle: TopicHandle | StreamHandle = declared(lambda frame: frame).topics[0]
    assert isinstance(handle, TopicHandle)
    frame = topic_frame(spark, handle.topic, empty_rows(handle.topic))
    assert with_role(frame, EVENT_TIME) == ["accepted_at"]
