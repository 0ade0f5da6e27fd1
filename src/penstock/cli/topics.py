"""`penstock topics`: list, create, describe and delete topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit
from penstock.core.clock import RealClock
from penstock.core.errors import CallerError, fail
from penstock.core.settings import read_settings
from penstock.core.units import PartitionId
from penstock.protocol.client import Client

topics = typer.Typer(no_args_is_help=True, help="List, create, describe and delete topics.")

BootstrapOption = Annotated[str | None, typer.Option("--bootstrap", help="Where the log is: host:port.")]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")]


@contextmanager
def connected(bootstrap: str | None) -> Iterator[Client]:
    """A client of the log that the settings name."""
    with Client(read_settings(bootstrap=bootstrap).bootstrap, clock=RealClock()) as client:
        yield client


@topics.command("list")
def list_topics(*, bootstrap: BootstrapOption = None, output: OutputOption = Output.TABLE) -> None:
    """Every topic with its partitions."""
    with connected(bootstrap) as client:
        found = client.topics()
    emit([{"topic": name, "partitions": len(found[name].partitions)} for name in sorted(found)], output=output)


@topics.command()
def create(
    topic: TopicArgument,
    *,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions.")] = 1,
    config: Annotated[list[str] | None, typer.Option(help="name=value, as often as needed.")] = None,
    bootstrap: BootstrapOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a topic."""
    configs = dict(map(_parse_config, config or []))
    with connected(bootstrap) as client:
        client.create_topic(topic, partitions, configs)
    emit({"topic": topic, "partitions": partitions, "configs": configs}, output=output)


@topics.command()
def describe(topic: TopicArgument, *, bootstrap: BootstrapOption = None, output: OutputOption = Output.TABLE) -> None:
    """The partitions of a topic: earliest offset, end, records."""
    with connected(bootstrap) as client:
        emit({"topic": topic, "id": _id(client, topic), "partitions": _extents(client, topic)}, output=output)


@topics.command()
def delete(
    topic: TopicArgument,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    bootstrap: BootstrapOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove a topic with all its records."""
    with connected(bootstrap) as client:
        extents = _extents(client, topic)
        if not dry_run:
            client.delete_topic(topic)
    records = sum(extent["records"] for extent in extents)
    emit({"topic": topic, "records": records, "partitions": len(extents), "deleted": not dry_run}, output=output)


def _parse_config(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name):
        raise fail(CallerError, "topic-config-unreadable", value=text)
    return name, value


def _id(client: Client, topic: str) -> str | None:
    topic_id = client.topic_id(topic)
    return topic_id.hex() if topic_id else None


def _extents(client: Client, topic: str) -> list[dict[str, int]]:
    partitions: list[PartitionId] = client.partitions(topic)
    starts = client.list_offsets(topic, dict.fromkeys(partitions, "earliest"))
    ends = client.list_offsets(topic, dict.fromkeys(partitions, "latest"))
    return [{"partition": p, "start": starts[p], "end": ends[p], "records": ends[p] - starts[p]} for p in partitions]
