"""`penstock produce`: append lines to a topic, and answer with a token of the cut just after them.

Every line is a record; with `--key-separator` what stands before it is the key. The token names, for each partition
that got a record, the offset behind its last one: whoever reads at least there has seen all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from confluent_kafka import KafkaError, Message, Producer

from penstock.cli.output import Output, OutputOption, emit
from penstock.cli.topics import BootstrapOption, TopicArgument, connected
from penstock.core.errors import CallerError, RetryError, fail
from penstock.core.settings import read_settings
from penstock.core.units import Offset, PartitionId
from penstock.core.values import cut_to_token

FLUSH_SECONDS = 30.0
DELIVERY_MS = 30_000

Ends = dict[PartitionId, Offset]
Delivered = Callable[[KafkaError | None, Message], None]


def produce(
    topic: TopicArgument,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Read this instead of standard input.")] = None,
    *,
    key_separator: Annotated[str | None, typer.Option(help="What parts key and value in a line.")] = None,
    bootstrap: BootstrapOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Append the lines of standard input, or of FILE, to a topic."""
    address = read_settings(bootstrap=bootstrap).bootstrap
    with connected(address) as client:
        client.partitions(topic)
    with _opened(file) as source:
        sent, ends = _send(address, topic, _records(source, key_separator))
    emit({"topic": topic, "records": sent, "token": cut_to_token({topic: ends})}, output=output)


def _opened(file: Path | None) -> BinaryIO:
    if file is None:
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise fail(CallerError, "input-unreadable", path=file, reason=error.strerror) from error


def _records(lines: Iterable[bytes], separator: str | None) -> Iterator[tuple[bytes | None, bytes]]:
    for line in lines:
        text = line.rstrip(b"\r\n")
        if separator is None:
            yield None, text
            continue
        key, found, value = text.partition(separator.encode())
        if not found:
            raise fail(CallerError, "key-missing", line=text.decode(errors="replace")[:80], separator=separator)
        yield key, value


def _send(address: str, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> tuple[int, Ends]:
    """Send all; gives their number and, for each partition, the offset behind the last one."""
    ends: Ends = {}
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            failures.append(str(error))
        else:
            ends[PartitionId(partition)] = Offset(max(ends.get(PartitionId(partition), 0), offset + 1))

    options = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": DELIVERY_MS, "log_level": 0}
    producer = Producer({"bootstrap.servers": address, **options})
    sent = 0
    for key, value in records:
        while not _queued(producer, topic, key=key, value=value, delivered=delivered):
            producer.poll(0.1)
        producer.poll(0)
        sent += 1
    unsent = producer.flush(FLUSH_SECONDS + DELIVERY_MS / 1000)
    if failures or unsent:
        raise fail(
            RetryError, "produce-failed", topic=topic, failed=len(failures) + unsent, sent=sent, reason=failures[:1]
        )
    return sent, ends


def _queued(producer: Producer, topic: str, *, key: bytes | None, value: bytes, delivered: Delivered) -> bool:
    """Whether the producer had room for the record."""
    try:
        producer.produce(topic, value, key=key, on_delivery=delivered)
    except BufferError:
        return False
    return True
