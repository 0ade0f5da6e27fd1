"""The Arrow type of every column type: what decoding makes, kernels take, and Spark is handed unchanged."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.core.declared import Column, ColumnType, TypeName

_PLAIN: Mapping[TypeName, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type of one column type.

    >>> arrow_type(ColumnType("decimal", 18, 6))
    Decimal128Type(decimal128(18, 6))
    """
    return pa.decimal128(kind.precision, kind.scale) if kind.name == "decimal" else _PLAIN[kind.name]


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
