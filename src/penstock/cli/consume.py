"""`penstock consume`: print the records that a topic holds now, or the first of them.

It reads up to the end that the log had at the start and then stops; partitions come one after the other. Keys and
values are shown as text where they are UTF-8; other bytes are shown as `key_base64` and `value_base64`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit
from penstock.cli.topics import BootstrapOption, TopicArgument, connected
from penstock.core.errors import CallerError, fail
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.protocol.batches import Record
from penstock.protocol.client import Client

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, object]


def consume(
    topic: TopicArgument,
    *,
    start: Annotated[str, typer.Option("--from", help="earliest, latest or an offset.")] = "earliest",
    max_records: Annotated[int | None, typer.Option("--max", min=0, help="The most records to print.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    bootstrap: BootstrapOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the records of a topic."""
    with connected(bootstrap) as client:
        ranges = _ranges(client, topic, start=start, partition=partition)
        rows = list(islice(_rows(client, ranges), max_records))
    emit(rows, output=output)


def _ranges(client: Client, topic: str, *, start: str, partition: int | None) -> list[OffsetRange]:
    wanted = client.partitions(topic)
    if partition is not None:
        wanted = [found for found in wanted if found == partition]
    if not wanted:
        raise fail(CallerError, "partition-missing", topic=topic, partition=partition)
    firsts = client.list_offsets(topic, dict.fromkeys(wanted, "earliest"))
    ends = client.list_offsets(topic, dict.fromkeys(wanted, "latest"))
    starts = {one: _start(start, first=firsts[one], end=ends[one]) for one in wanted}
    return [OffsetRange(topic, one, starts[one], ends[one]) for one in wanted if starts[one] < ends[one]]


def _start(text: str, *, first: Offset, end: Offset) -> Offset:
    if text == "earliest":
        return first
    if text == "latest":
        return end
    if not text.isdecimal():
        raise fail(CallerError, "position-unreadable", value=text)
    return Offset(int(text))


def _rows(client: Client, ranges: list[OffsetRange]) -> Iterator[Row]:
    for wanted in ranges:
        for record in client.read_records(wanted):
            yield _row(wanted.partition, record)


def _row(partition: PartitionId, record: Record) -> Row:
    row: Row = {"partition": partition, "offset": record.offset}
    row["timestamp"] = EPOCH + timedelta(milliseconds=record.timestamp_ms)
    row |= _shown("key", record.key) | _shown("value", record.value)
    if record.headers:
        row["headers"] = [_shown("name", name.encode()) | _shown("value", value) for name, value in record.headers]
    return row


def _shown(name: str, data: bytes | None) -> Row:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode()}
