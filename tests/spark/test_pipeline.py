"""Whole pipelines on a real log, a real Spark and a real Postgres, against a small model in plain Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock import Pipeline, agg, tumbling
from penstock.core.errors import CallerError, RetryError
from penstock.pipeline.declare import StreamHandle, TopicHandle
from penstock.testing.model import MemoryLog, RowFunction, expect
from penstock.testing.streams import random_stream
from penstock.views.proof import differences, log_differences

from .conftest import Bench

SCHEMA = "id string, source string, account string, model string, quantity decimal(18,6), accepted_at timestamp"
Row = Mapping[str, object]


def event(number: int, *, account: str = "a", quantity: object = "1.5", at: str = "2026-03-01T12:00:00Z") -> bytes:
    fields = {"id": f"e{number}", "source": "gw", "account": account, "model": "m", "quantity": quantity}
    return json.dumps(fields | {"accepted_at": at}).encode()


def usage(name: str) -> tuple[Pipeline, TopicHandle, StreamHandle]:
    """The pipeline of the README under names of the test's own."""
    pipeline = Pipeline(name)
    topic = pipeline.topic(name, schema=SCHEMA, identity=["source", "id"], event_time="accepted_at")

    @pipeline.stream(topic)
    def billable(requests: DataFrame) -> DataFrame:
        return requests.where("quantity > 0")

    pipeline.view(
        f"{name}_by_account",
        billable,
        by=["account"],
        columns={"requests": agg.count(), "quantity": agg.sum("quantity"), "least": agg.min("quantity")},
    )
    pipeline.view(
        f"{name}_by_minute",
        billable,
        by=[tumbling("1 minute"), "model"],
        columns={"requests": agg.count(), "mean": agg.avg("quantity"), "last": agg.max("account")},
    )
    return pipeline, topic, billable


def plain_billable(_: str, row: Row) -> Iterable[Row]:
    quantity = row["quantity"]
    return [row] if isinstance(quantity, Decimal) and quantity > 0 else []


def check_against_model(bench: Bench, name: str, functions: Mapping[str, RowFunction], log: MemoryLog) -> None:
    held = bench.evidence(name)
    expected = expect(log, definition=held.definition, functions=functions, batches=held.ledger.batches)
    assert log_differences(expected.judged, ledger=held.ledger) == []
    for view in held.definition.views:
        found = differences(view, expected=expected.views[view.name], actual=held.views[view.name].as_mappings())
        assert found == []


@pytest.mark.parametrize(("seed", "records_max"), [(1, 400_000), (2, 37), (3, 150)])
def test_v1_v2_views_and_outcomes_equal_the_model_at_any_cut(bench: Bench, seed: int, records_max: int) -> None:
    name = f"random_{seed}"
    pipeline, topic, _ = usage(name)
    sent = random_stream(topic.topic, seed=seed, count=600, partitions=3)
    bench.create(name, partitions=3)
    bench.produce_sent(name, sent)
    bench.run(pipeline, records_max=None, batch_records_max=records_max)
    check_against_model(bench, name, {"billable": plain_billable}, MemoryLog.of({name: sent}))
    assert bench.outcomes(name)["read"] == 600


def test_v2_a_pipeline_of_several_topics_and_streams_equals_the_model(bench: Bench) -> None:
    pipeline = Pipeline("several")
    first = pipeline.topic("several.a", schema=SCHEMA, identity=["source", "id"], event_time="accepted_at")
    second = pipeline.topic("several.b", schema=SCHEMA, identity=["id"], event_time="accepted_at")

    @pipeline.stream(first, second)
    def both(a: DataFrame, b: DataFrame) -> DataFrame:
        return a.unionByName(b.withColumn("model", F.upper("model")))

    @pipeline.stream(both)
    def twice(rows: DataFrame) -> DataFrame:
        return rows.withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2)))).where("account is not null")

    pipeline.view("several_all", both, by=["model"], columns={"rows": agg.count(), "sum": agg.sum("quantity")})
    pipeline.view("several_twice", twice, by=["account", "copy"], columns={"rows": agg.count()})
    sent = {
        topic.name: random_stream(topic.topic, seed=seed, count=300, partitions=2)
        for seed, topic in ((4, first), (5, second))
    }
    for name, records in sent.items():
        bench.create(name, partitions=2)
        bench.produce_sent(name, records)
    bench.run(pipeline, batch_records_max=90)

    def upper(source: str, row: Row) -> Iterable[Row]:
        model = row["model"]
        return [row if source == "several.a" or model is None else {**row, "model": str(model).upper()}]

    def doubled(_: str, row: Row) -> Iterable[Row]:
        return [] if row["account"] is None else [{**row, "copy": 1}, {**row, "copy": 2}]

    check_against_model(bench, "several", {"both": upper, "twice": doubled}, MemoryLog.of(sent))


def test_v3_a_second_run_goes_on_from_the_ledger_and_repeats_nothing(bench: Bench) -> None:
    bench.create("resumed")
    bench.produce("resumed", [event(n) for n in range(5)])
    bench.run(usage("resumed")[0])
    bench.produce("resumed", [event(n) for n in range(3, 8)])
    bench.run(usage("resumed")[0])
    bench.run(usage("resumed")[0])
    assert bench.outcomes("resumed") == {"read": 10, "applied": 8, "duplicate": 2}
    assert bench.rows("resumed_by_account") == [
        {"account": "a", "requests": 8, "quantity": Decimal("12.000000"), "least": Decimal("1.500000")}
    ]


def test_a_record_on_which_the_function_raises_is_rejected_alone(bench: Bench) -> None:
    pipeline = Pipeline("raising")
    topic = pipeline.topic("raising", schema=SCHEMA, identity=["source", "id"], event_time="accepted_at")

    @F.udf("string")
    def strict(account: str) -> str:
        if account == "broken":
            raise ValueError("no such account")
        return account

    @pipeline.stream(topic)
    def checked(requests: DataFrame) -> DataFrame:
        return requests.withColumn("account", strict("account"))

    pipeline.view("raising_by_account", checked, by=["account"], columns={"requests": agg.count()})
    bench.create("raising")
    accounts = ["a", "broken", "b", "a", "broken"]
    bench.produce("raising", [event(n, account=account) for n, account in enumerate(accounts)])
    bench.produce("raising", [event(1, account="a")])
    bench.run(pipeline)
    assert bench.rows("raising_by_account") == [{"account": "a", "requests": 3}, {"account": "b", "requests": 1}]
    assert bench.outcomes("raising") == {"read": 6, "applied": 4, "rejected (function raised)": 2}
    with bench.client() as client:
        from penstock.core.units import Offset, PartitionId
        from penstock.core.values import OffsetRange

        place = OffsetRange("raising.rejected", PartitionId(0), Offset(0), Offset(2))
        records = list(client.read_records(place))
    assert [dict(record.headers)["reason"] for record in records] == [b"function raised"] * 2
    assert b"ValueError: no such account" in (dict(records[0].headers)["detail"] or b"")
    assert [record.value for record in records] == [event(1, account="broken"), event(4, account="broken")]


def test_v1_v2_a_record_whose_window_no_calendar_holds_is_rejected_and_the_view_stays_readable(bench: Bench) -> None:
    bench.create("last_minute")
    bench.produce("last_minute", [event(1), event(2, at="9999-12-31T23:59:30Z")])
    pipeline, _, _ = usage("last_minute")
    bench.run(pipeline)
    assert bench.outcomes("last_minute") == {"read": 2, "applied": 1, "rejected (function raised)": 1}
    assert [row["requests"] for row in bench.rows("last_minute_by_minute")] == [1]


def test_a_function_that_raises_on_every_record_stops_the_pipeline_and_commits_nothing(bench: Bench) -> None:
    pipeline = Pipeline("hopeless")
    topic = pipeline.topic("hopeless", schema=SCHEMA, identity=["source", "id"], event_time="accepted_at")

    @F.udf("string")
    def never(_: str) -> str:
        raise KeyError("gold")

    @pipeline.stream(topic)
    def broken(requests: DataFrame) -> DataFrame:
        return requests.withColumn("account", never("account"))

    pipeline.view("hopeless_total", broken, by=["account"], columns={"requests": agg.count()})
    bench.create("hopeless")
    bench.produce("hopeless", [event(n) for n in range(40)])
    with pytest.raises(CallerError) as stopped:
        bench.run(pipeline, set_aside_max=5)
    assert stopped.value.code == "function-raises-often"
    assert "KeyError: 'gold'" in str(stopped.value)
    assert "hopeless-0-0" in str(stopped.value)
    assert bench.outcomes("hopeless") == {"read": 0}


def test_rejected_records_and_conflicts_go_to_topics_of_their_own(bench: Bench) -> None:
    bench.create("refused")
    changed = event(1, quantity="2.5")
    values = [event(1), b"no json", event(1), changed, None, event(2, quantity=True)]
    bench.produce("refused", values)
    bench.run(usage("refused")[0])
    assert bench.outcomes("refused") == {
        "read": 6,
        "applied": 1,
        "duplicate": 1,
        "conflict": 1,
        "rejected (undecodable)": 3,
    }
    with bench.client() as client:
        from penstock.core.values import OffsetRange

        found = {}
        for topic in ("refused.rejected", "refused.conflicts"):
            ends = client.list_offsets(topic, dict.fromkeys(client.partitions(topic), "latest"))
            for partition, end in ends.items():
                found[topic] = list(client.read_records(OffsetRange(topic, partition, type(end)(0), end)))
    assert [record.value for record in found["refused.conflicts"]] == [changed]
    assert [record.value for record in found["refused.rejected"]] == [b"no json", None, values[5]]
    details = [dict(record.headers)["detail"] for record in found["refused.rejected"]]
    assert details == [b"not JSON", b"null value", b"field quantity is not a decimal(18,6)"]
    assert dict(found["refused.conflicts"][0].headers)["source-position"] == b"refused-0@3"


def test_a_topic_that_is_not_there_is_named(bench: Bench) -> None:
    pipeline, _, _ = usage("nowhere")
    with pytest.raises(CallerError) as missing:
        bench.run(pipeline)
    assert missing.value.code == "topic-unknown"
    assert "nowhere" in str(missing.value)


def test_a_log_that_does_not_answer_is_named_after_a_few_tries(bench: Bench) -> None:
    pipeline, _, _ = usage("away")
    bench.bootstrap = "127.0.0.1:1"
    with pytest.raises(RetryError) as away:
        bench.run(pipeline)
    assert "127.0.0.1:1" in str(away.value)


def test_each_topic_is_fetched_once_per_batch_whatever_reads_it(bench: Bench) -> None:
    """Two streams and three views share one reading job: the source's own count is the number of records sent."""
    pipeline, topic, _ = usage("once")

    @pipeline.stream(topic)
    def another(requests: DataFrame) -> DataFrame:
        return requests.where("quantity < 100")

    pipeline.view("once_more", another, by=["model"], columns={"requests": agg.count()})
    bench.create("once", partitions=2)
    bench.produce("once", [event(n) for n in range(10)])
    bench.produce("once", [event(n) for n in range(10, 14)], partition=1)
    tracker = bench.spark.sparkContext.statusTracker()
    bench.run(pipeline)
    assert tracker is not None
    assert bench.outcomes("once") == {"read": 14, "applied": 14}
    assert len(bench.done) == 1
