"""Every column type has its Arrow type, spelt as Spark takes it."""

from __future__ import annotations

import pyarrow as pa

from penstock.core.declared import parse_schema
from penstock.kernels.columns import arrow_schema


def test_a_schema_of_every_type_is_sparks_own() -> None:
    schema = arrow_schema(
        parse_schema(
            "a string, b boolean, c byte, d short, e int, f long, g float, h double,"
            " i decimal(38,18), j date, k timestamp"
        )
    )
    assert schema.names == list("abcdefghijk")
    assert schema.types == [
        pa.string(),
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(38, 18),
        pa.date32(),
        pa.timestamp("us", tz="UTC"),
    ]
