"""Our column types as Spark's, and back."""

from __future__ import annotations

from pyspark.sql import types as spark

from penstock.core.declared import ColumnType, TypeName, parse_schema

_NAMES: dict[TypeName, spark.DataType] = {
    "string": spark.StringType(),
    "boolean": spark.BooleanType(),
    "byte": spark.ByteType(),
    "short": spark.ShortType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
}


def spark_type(column: ColumnType) -> spark.DataType:
    return spark.DecimalType(column.precision, column.scale) if column.name == "decimal" else _NAMES[column.name]


def column_type(kind: spark.DataType) -> ColumnType | None:
    """The type in our words, or None where a view cannot hold it."""
    if not isinstance(kind, (spark.DecimalType, *(type(known) for known in _NAMES.values()))):
        return None
    return parse_schema(f"c {kind.simpleString()}")[0].type
