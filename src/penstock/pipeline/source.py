"""The data source `penstock`: a topic of the log as a batch or streaming DataFrame.

    spark.read.format("penstock").option("topic", "usage.requests").schema("id string, at timestamp").load()

It speaks the Kafka protocol, so it reads Penstock and Apache Kafka alike, and never past the high watermark. Each
range of one partition is one Spark task, fetched as whole batches and decoded into Arrow: only the columns that the
schema names are built. Without a schema the rows are the raw records: key, value, topic, partition, offset, timestamp.
A schema may add `_penstock struct<topic string, partition int, offset bigint>` and `_problem string`; without
`_problem` a record that does not decode stops the read, so nothing vanishes unseen.

Spark plans a streaming source in a process of its own, apart from the one that runs `foreachBatch`: the bounds of a
batch therefore travel with its rows.
Limit: offsets of a topic that is deleted and made anew during a query are not recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.core.clock import RealClock
from penstock.core.errors import CallerError, RetryError, fail
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange, cut_from_json, cut_to_json
from penstock.pipeline.intake_rows import Intake, range_row, record_rows
from penstock.pipeline.plain_rows import RAW_SCHEMA, plain_rows
from penstock.protocol.client import Client
from penstock.protocol.scan import scan

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Positions = dict[str, dict[str, int]]
"""A cut as Spark keeps it: JSON, partitions as text."""

IDLE_WAIT_MS = 250
"""How long the log may hold a request of an idle reader: new records end the wait at once."""
FETCH_BYTES = 8 * 1024 * 1024


class PenstockSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return Intake.from_json(self.options["intake"]).ddl if "intake" in self.options else RAW_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(Reading(dict(self.options), schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark calls it
        return StreamReader(Reading(dict(self.options), schema))


class Reading:
    """What both readers do: find positions, cut them into ranges, read one range."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self.bootstrap = options.get("bootstrap", "127.0.0.1:9092")
        self.intake = Intake.from_json(options["intake"]) if "intake" in options else None
        self.schema = schema
        self.topics = [topic.name for topic in self.intake.topics] if self.intake else _named_topics(options)
        self.start = _positions_option(options, "start", topics=self.topics)
        self.end = _positions_option(options, "end", topics=self.topics)
        self.records_max = _count_option(options, "records_max")

    def first(self) -> Positions:
        """Where a new query begins: the offsets it was given, else the earliest there are."""
        return {topic: ends | self.start.get(topic, {}) for topic, ends in self._positions("earliest").items()}

    def last(self) -> Positions:
        return self._positions("latest")

    def given_end(self) -> Positions:
        """Where a read ends: at the offsets it was given, else at the end of the log as it is now."""
        return {topic: ends | self.end.get(topic, {}) for topic, ends in self.last().items()}

    def _positions(self, where: Literal["earliest", "latest"]) -> Positions:
        client = connected(self.bootstrap)
        return {
            topic: {str(p): int(o) for p, o in client.list_offsets(topic, _every(client, topic, where)).items()}
            for topic in self.topics
        }

    def ranges(self, start: Positions, end: Positions) -> list[OffsetRange]:
        return [
            OffsetRange(topic, PartitionId(int(p)), Offset(start.get(topic, {}).get(p, 0)), Offset(stop))
            for topic, ends in end.items()
            for p, stop in ends.items()
            if stop > start.get(topic, {}).get(p, 0)
        ]

    def read(self, place: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Rows of one range, chunk by chunk; the intake's ranges end with the row that counts them."""
        read = 0
        for batches in connected(self.bootstrap).read_range(place, max_bytes=FETCH_BYTES):
            records = scan([batches], start=place.start, end=place.end)
            read += len(records.offsets)
            if self.intake:
                yield record_rows(records, intake=self.intake, place=place)
            else:
                yield plain_rows(records, schema=self.schema, place=place)
        if self.intake:
            yield range_row(place, read=read, intake=self.intake)


class BatchReader(DataSourceReader):
    """All records between two cuts: a partition that `end` does not name is read through what is there now."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(place) for place in self.reading.ranges(self.reading.first(), self.reading.given_end())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is no range, Spark makes up one partition of nothing.
        return self.reading.read(partition.value) if partition.value else iter(())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Admits at most `records_max` records a batch, shared out among the partitions that have some."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.final: Positions | None = None

    def initialOffset(self) -> Positions:  # noqa: N802
        return self.reading.first()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self.reading.records_max
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.final = self.reading.last()

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:  # noqa: N802
        try:
            end = self.final or self._next_end(start)
        except RetryError:
            # The log is away: nothing is new. The wait between two tries is the client's own.
            return start
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return admit(start, end, records_max=records_max)

    def _next_end(self, start: Positions) -> Positions:
        """The end of the log; where nothing is new, wait a moment for it without asking again and again."""
        end = self.reading.last()
        if self.reading.ranges(start, end):
            return end
        ends = {t: {PartitionId(int(p)): Offset(o) for p, o in stops.items()} for t, stops in end.items()}
        connected(self.reading.bootstrap).wait_for_data(ends, max_wait_ms=IDLE_WAIT_MS)
        return self.reading.last()

    def partitions(self, start: Positions, end: Positions) -> Sequence[InputPartition]:
        return [InputPartition(place) for place in self.reading.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.read(partition.value)


def admit(start: Positions, end: Positions, *, records_max: int | None) -> Positions:
    """The end of the next batch: all there is, or a fair share of each partition where that is too much.

    >>> admit({"a": {"0": 0, "1": 0}}, {"a": {"0": 90, "1": 4}}, records_max=10)
    {'a': {'0': 6, '1': 4}}
    """
    waiting = {
        (topic, p): max(0, stop - start.get(topic, {}).get(p, 0))
        for topic, ends in end.items()
        for p, stop in ends.items()
    }
    granted = _shares(waiting, total=records_max) if records_max else waiting
    return {topic: {p: start.get(topic, {}).get(p, 0) + granted[topic, p] for p in ends} for topic, ends in end.items()}


def _shares(waiting: dict[tuple[str, str], int], *, total: int) -> dict[tuple[str, str], int]:
    """Share `total` out: who needs less than an even share leaves the rest to the others."""
    granted: dict[tuple[str, str], int] = {}
    left = total
    for place, (who, wanted) in enumerate(sorted(waiting.items(), key=lambda item: (item[1], item[0]))):
        share = -(-left // (len(waiting) - place))
        granted[who] = min(wanted, share)
        left -= granted[who]
    return granted


@cache
def connected(bootstrap: str) -> Client:
    """One connection for each process of Spark: a Python worker serves many tasks."""
    return Client(bootstrap, clock=RealClock(), client_id="penstock-source")


def _named_topics(options: dict[str, str]) -> list[str]:
    topic = options.get("topic")
    if not topic:
        raise fail(CallerError, "source-without-topic")
    return [topic]


def _positions_option(options: dict[str, str], name: str, *, topics: Sequence[str]) -> Positions:
    """A cut of the topics that are read; one of another topic would be passed over without a word."""
    try:
        given = cut_to_json(cut_from_json(json.loads(options.get(name, "{}"))))
    except (ValueError, TypeError, AttributeError):
        given = {"": {}}
    if not set(given) <= set(topics) or any(offset < 0 for ends in given.values() for offset in ends.values()):
        form = json.dumps({topics[0]: {"0": 42}})
        raise fail(CallerError, "source-option-unreadable", option=name, value=options[name], form=form)
    return given


def _count_option(options: dict[str, str], name: str) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and int(value) > 0):
        raise fail(CallerError, "source-option-unreadable", option=name, value=value, form="100000")
    return int(value)


def _every(
    client: Client, topic: str, where: Literal["earliest", "latest"]
) -> dict[PartitionId, Literal["earliest", "latest"] | int]:
    return dict.fromkeys(client.partitions(topic), where)
