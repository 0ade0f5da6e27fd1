"""Raw JSON records to typed columns: ours beside DuckDB's lenient reading and, with --spark, Spark's from_json.

One core, the same bytes, interleaved rounds, the best of each counts. The answer of every reader is checked against the
values that the records were made from before its number is printed. Run: python perf/decode.py [--records N] [--spark]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.declared import parse_schema
from penstock.kernels.columns import arrow_schema
from penstock.kernels.decode import decode
from penstock.kernels.hashing import hash_rows

SCHEMA = "id string, source string, account string, model string, quantity decimal(18,6), accepted_at timestamp"
DUCKDB_SHAPE = json.dumps(
    {
        "id": "VARCHAR",
        "source": "VARCHAR",
        "account": "VARCHAR",
        "model": "VARCHAR",
        "quantity": "DECIMAL(18,6)",
        "accepted_at": "TIMESTAMP",
    }
)
START = datetime(2026, 3, 4, tzinfo=UTC)
ROUNDS = 5


def events(count: int) -> pa.Table:
    """The values, drawn from a seed."""
    draw = random.Random(1)
    rows = [
        {
            "id": f"req-{draw.getrandbits(64):016x}",
            "source": f"gateway-{n % 4}",
            "account": f"account-{draw.randrange(1000):04d}",
            "model": draw.choice(["small", "medium", "large"]),
            "quantity": Decimal(draw.randrange(10**9)).scaleb(-6),
            "accepted_at": START + timedelta(microseconds=draw.randrange(10**12)),
        }
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(parse_schema(SCHEMA)))


def records(table: pa.Table) -> list[bytes]:
    """The same as a gateway would send them, with fields that nobody asked for: about 280 bytes each."""
    draw = random.Random(2)
    return [json.dumps(_spelt(row, draw), separators=(",", ":")).encode() for row in table.to_pylist()]


def _spelt(row: Mapping[str, object], draw: random.Random) -> dict[str, object]:
    at = row["accepted_at"]
    assert isinstance(at, datetime)
    known = {**row, "quantity": f"{row['quantity']:f}", "accepted_at": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"}
    trace = f"{draw.getrandbits(128):032x}"
    more = {"region": "eu-central-1", "trace": trace, "attempt": draw.randrange(3)}
    return {**known, **more, "client": {"sdk": "python", "version": "1.24.3"}}


def ours(payload: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Callable[[], pa.Table]:
    columns = parse_schema(SCHEMA)
    return lambda: pa.Table.from_batches([decode(payload, starts, lengths, columns).columns])


def by_duckdb(text: pa.Table) -> Callable[[], pa.Table]:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("raw", text)
    query = f"SELECT unnest(json_transform(value, '{DUCKDB_SHAPE}')) FROM raw"
    return lambda: connection.sql(query).to_arrow_table()


def by_spark(text: pa.Table) -> tuple[Callable[[], pa.Table], Callable[[], float]]:
    """Spark's answer, and its time to read without handing the answer to anybody."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .getOrCreate()
    )
    raw = spark.createDataFrame(text.to_pandas()).repartition(1).cache()
    raw.count()
    read = raw.select(F.from_json("value", SCHEMA).alias("row")).select("row.*")

    def timed() -> float:
        start = time.perf_counter()
        read.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    return read.toArrow, timed


def same(found: pa.Table, expected: pa.Table) -> bool:
    return bool(found.cast(expected.schema).equals(expected))


def timed(run: Callable[[], object]) -> Callable[[], float]:
    def once() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    expected = events(given.records)
    lines = records(expected)
    lengths = np.array([len(line) for line in lines], np.int64)
    data = b"".join(lines)
    text = pa.table({"value": pa.array(lines, pa.binary()).cast(pa.string())})
    read = ours(np.frombuffer(data, np.uint8), np.cumsum(lengths) - lengths, lengths)
    lenient = by_duckdb(text)
    ways: dict[str, Callable[[], float]] = {}
    if given.spark:
        spark, ways["Spark from_json, noop sink"] = by_spark(text)
        assert same(spark(), expected), "Spark's answer differs"
    ways["DuckDB json_transform, lenient"] = timed(lenient)
    ways["penstock decode"] = timed(read)
    ways["penstock decode and two hashes"] = timed(lambda: _hashed(read()))
    assert same(read(), expected), "our answer differs"
    assert same(lenient(), expected), "DuckDB's answer differs"
    print(f"{given.records} records, {lengths.mean():.0f} bytes each, sha256 {hashlib.sha256(data).hexdigest()[:16]}")
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            best[name] = min(best[name], way())
    base = best["DuckDB json_transform, lenient"]
    for name, seconds in best.items():
        rate, share = given.records / seconds / 1e6, len(data) / seconds / 1e6
        print(f"{name:32} {rate:6.2f} M records/s {share:7.0f} MB/s {base / seconds:6.2f} x DuckDB")


def _hashed(table: pa.Table) -> int:
    ids = hash_rows(table, ["source", "id"], key=bytes(16))
    contents = hash_rows(table, table.column_names, key=bytes(16))
    return int(pc.count(ids).as_py() + pc.count(contents).as_py())


if __name__ == "__main__":
    main()
