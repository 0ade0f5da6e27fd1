"""The DataFrames that streams are written on: declared columns with their roles, and where each row came from.

A role (event time) travels as column metadata, so a window finds its column after any step that keeps the column.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from penstock.core.declared import POSITION, Topic
from penstock.kernels.columns import arrow_schema
from penstock.pipeline.spark_types import spark_type

ROLE = "penstock.role"
EVENT_TIME = "event_time"

POSITION_TYPE = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("weight", IntegerType()),
        StructField("cause", StringType()),
    ]
)
POSITION_ARROW = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("weight", pa.int32()),
        ("cause", pa.string()),
    ]
)


def topic_frame(spark: SparkSession, topic: Topic, rows: pa.Table) -> DataFrame:
    """Accepted rows of a topic as its streams see them."""
    return spark.createDataFrame(rows, schema=_frame_schema(topic))


def empty_rows(topic: Topic) -> pa.Table:
    return pa.schema([*arrow_schema(topic.columns), pa.field(POSITION, POSITION_ARROW)]).empty_table()


def with_role(frame: DataFrame, role: str) -> list[str]:
    """The columns of a frame that carry a role."""
    return [field.name for field in frame.schema.fields if field.metadata.get(ROLE) == role]


def _frame_schema(topic: Topic) -> StructType:
    fields = [
        StructField(
            column.name,
            spark_type(column.type),
            metadata={ROLE: EVENT_TIME} if column.name == topic.event_time else None,
        )
        for column in topic.columns
    ]
    return StructType([*fields, StructField(POSITION, POSITION_TYPE)])
