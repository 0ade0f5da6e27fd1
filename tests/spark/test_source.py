"""The data source `penstock` as a user reads it: raw or typed, from any codec, between two cuts, as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.core.units import PartitionId, TimestampMs
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.compression import Codec

from .conftest import Bench

SCHEMA = "id string, quantity decimal(9,2), at timestamp"
POSITION = "_penstock struct<topic string, partition int, offset bigint>"
MARCH = TimestampMs(1_772_366_400_000)  # 2026-03-01T12:00:00Z


def usage(number: int) -> bytes:
    fields = {"id": f"e{number}", "quantity": f"{number}.5", "at": "2026-03-01T12:00:00Z", "unasked": [1]}
    return json.dumps(fields).encode()


def send(
    bench: Bench, topic: str, values: Sequence[bytes | None], *, partition: int = 0, codec: Codec = Codec.NONE
) -> None:
    batch = build_batch([Record(b"k", value, MARCH) for value in values], codec=codec)
    with bench.client() as client:
        client.produce(topic, PartitionId(partition), batch)


def read(bench: Bench, topic: str, *, schema: str | None = None, **options: str) -> DataFrame:
    reader = bench.spark.read.format("penstock").options(bootstrap=bench.bootstrap, topic=topic, **options)
    return (reader.schema(schema) if schema else reader).load()


def ids(frame: DataFrame) -> list[str]:
    return sorted(row["id"] for row in frame.collect())


def test_without_a_schema_the_rows_are_the_raw_records_of_every_partition(bench: Bench) -> None:
    bench.create("raw", partitions=3)
    send(bench, "raw", [b"\xff\x00", None])
    send(bench, "raw", [b"c"], partition=2)
    frame = read(bench, "raw")
    assert frame.rdd.getNumPartitions() == 2
    assert sorted(tuple(row) for row in frame.select("topic", "partition", "offset", "key", "value").collect()) == [
        ("raw", 0, 0, b"k", b"\xff\x00"),
        ("raw", 0, 1, b"k", None),
        ("raw", 2, 0, b"k", b"c"),
    ]
    times = [row[0] for row in frame.selectExpr("unix_millis(timestamp)").collect()]
    assert times == [MARCH, MARCH, MARCH]


def test_with_a_schema_the_rows_are_the_typed_columns_asked_for(bench: Bench) -> None:
    bench.create("typed")
    send(bench, "typed", [usage(1), b'{"quantity": 2}'])
    frame = read(bench, "typed", schema=f"at timestamp, {POSITION}, quantity decimal(9,2)")
    rows = frame.toArrow().to_pylist()
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert rows == [
        {"at": noon, "_penstock": {"topic": "typed", "partition": 0, "offset": 0}, "quantity": Decimal("1.50")},
        {"at": None, "_penstock": {"topic": "typed", "partition": 0, "offset": 1}, "quantity": Decimal("2.00")},
    ]


def test_v1_a_record_that_does_not_decode_is_a_row_with_its_problem(bench: Bench) -> None:
    bench.create("problems")
    send(bench, "problems", [usage(1), b"no json", None, b'{"quantity": true}'])
    frame = read(bench, "problems", schema=f"{SCHEMA}, _problem string, {POSITION}")
    found = [(row["id"], row["_problem"], row["_penstock"]["offset"]) for row in frame.collect()]
    assert found == [
        ("e1", None, 0),
        (None, "not JSON", 1),
        (None, "null value", 2),
        (None, "field quantity is not a decimal(9,2)", 3),
    ]


def test_v1_without_a_column_for_problems_such_a_record_stops_the_read_and_is_named(bench: Bench) -> None:
    bench.create("stopping", partitions=2)
    send(bench, "stopping", [usage(1), b"no json"], partition=1)
    with pytest.raises(PySparkException, match="record stopping-1-1 does not decode: not JSON"):
        read(bench, "stopping", schema=SCHEMA).collect()


def test_records_of_every_codec_are_read_alike(bench: Bench) -> None:
    bench.create("codecs")
    for number, codec in enumerate(Codec):
        send(bench, "codecs", [usage(10 * number + n) for n in range(3)], codec=codec)
    assert ids(read(bench, "codecs", schema=SCHEMA)) == sorted(f"e{10 * c + n}" for c in range(5) for n in range(3))


def test_a_read_goes_from_one_cut_to_another_and_through_what_no_cut_names(bench: Bench) -> None:
    bench.create("cuts", partitions=2)
    for partition in (0, 1):
        send(bench, "cuts", [usage(10 * partition + n) for n in range(5)], partition=partition)
    start, end = json.dumps({"cuts": {"0": 2}}), json.dumps({"cuts": {"0": 4}})
    assert ids(read(bench, "cuts", schema=SCHEMA, start=start)) == ["e10", "e11", "e12", "e13", "e14", "e2", "e3", "e4"]
    assert ids(read(bench, "cuts", schema=SCHEMA, start=start, end=end)) == [
        *("e10", "e11", "e12", "e13", "e14"),
        *("e2", "e3"),
    ]
    nothing = json.dumps({"cuts": {"0": 2, "1": 0}})
    assert ids(read(bench, "cuts", schema=SCHEMA, start=nothing, end=nothing)) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"start": '{"others": {"0": 1}}'}, "start"),
        ({"end": '{"others": {"0": 1}}'}, "end"),
        ({"end": "3"}, "end"),
        ({"start": "{"}, "start"),
        ({"end": '{"options": {"0": "late"}}'}, "end"),
        ({"records_max": "many"}, "records_max"),
        ({"records_max": "-1"}, "records_max"),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(bench: Bench, options: dict[str, str], told: str) -> None:
    """Another topic in a cut would be read, or passed over, without a word."""
    with pytest.raises(PySparkException, match=f"option {told} of the data source"):
        read(bench, "options", schema=SCHEMA, **options).collect()


def test_a_source_without_a_topic_says_what_to_add(bench: Bench) -> None:
    with pytest.raises(PySparkException, match=r"\.option\('topic', NAME\)"):
        bench.spark.read.format("penstock").options(bootstrap=bench.bootstrap).load().collect()


def stream(bench: Bench, topic: str, *, checkpoint: Path, take: Callable[[DataFrame, int], None], most: int) -> None:
    """Read through all that the log holds now, as `trigger(availableNow=True)` does."""
    reader = bench.spark.readStream.format("penstock").options(
        bootstrap=bench.bootstrap, topic=topic, records_max=str(most)
    )
    writer = reader.schema(f"id string, {POSITION}").load().writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def test_v3_a_stream_admits_so_many_records_a_batch_and_goes_on_from_its_checkpoint(
    bench: Bench, tmp_path: Path
) -> None:
    bench.create("streamed", partitions=3)
    send(bench, "streamed", [usage(n) for n in range(20)])
    send(bench, "streamed", [usage(n) for n in range(20, 23)], partition=2)
    batches: list[list[str]] = []

    def take(frame: DataFrame, _: int) -> None:
        batches.append(ids(frame))

    stream(bench, "streamed", checkpoint=tmp_path / "c", take=take, most=8)
    # The first batch shares eight out: three to the partition that has no more, five to the other.
    assert [len(batch) for batch in batches] == [8, 8, 7]
    assert sorted(one for batch in batches for one in batch) == sorted(f"e{n}" for n in range(23))
    send(bench, "streamed", [usage(23)], partition=1)
    batches.clear()
    stream(bench, "streamed", checkpoint=tmp_path / "c", take=take, most=8)
    assert batches == [["e23"]]


def test_a_stream_waits_for_records_and_takes_them_as_they_come(bench: Bench, tmp_path: Path) -> None:
    bench.create("live")
    send(bench, "live", [usage(1)])
    seen: list[str] = []

    def take(frame: DataFrame, _: int) -> None:
        seen.extend(ids(frame))
        if len(seen) == 1:
            send(bench, "live", [usage(2)])

    reader = bench.spark.readStream.format("penstock").options(bootstrap=bench.bootstrap, topic="live")
    writer = reader.schema("id string").load().writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(processingTime="0 seconds").start()
    try:
        for _ in range(60):
            if len(seen) < 2:
                query.awaitTermination(1)
    finally:
        query.stop()
    assert seen == ["e1", "e2"]
