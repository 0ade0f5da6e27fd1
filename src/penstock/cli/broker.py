"""`penstock broker`: run the log until SIGTERM or Ctrl-C.

The first line on standard output is `listening on HOST:PORT`, or `{"listening": "HOST:PORT"}` with `--output json`;
from then on clients are served.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from penstock.broker.config import BrokerConfig, parse_listen
from penstock.cli.output import Output, OutputOption, emit
from penstock.core.clock import RealClock
from penstock.core.settings import Settings, read_settings


def broker(
    *,
    data: Annotated[Path | None, typer.Option(help="The folder of the log; unset means `log` under home.")] = None,
    listen: Annotated[str | None, typer.Option(help="host:port to accept connections on; port 0 picks one.")] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen beyond this machine, without passwords.")
    ] = False,
    auto_create_topics: Annotated[bool | None, typer.Option(help="Make a topic when it is first asked for.")] = None,
    default_partitions: Annotated[int | None, typer.Option(help="Partitions of a topic made without a number.")] = None,
    segment_bytes: Annotated[str | None, typer.Option(help="A log file is closed at this size.")] = None,
    max_message_bytes: Annotated[str | None, typer.Option(help="The largest record batch.")] = None,
    max_request_bytes: Annotated[str | None, typer.Option(help="The largest request.")] = None,
    max_connections: Annotated[int | None, typer.Option(help="Open connections at most.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the log for Kafka clients."""
    settings = read_settings(
        listen=listen,
        auto_create_topics=auto_create_topics,
        default_partitions=default_partitions,
        segment_bytes=segment_bytes,
        max_message_bytes=max_message_bytes,
        max_request_bytes=max_request_bytes,
        max_connections=max_connections,
    )
    from penstock.broker.server import check_loopback, run

    config = _config(settings, data=data)
    check_loopback(config.host, allow_remote=allow_remote)
    run(config, clock=RealClock(), announce=partial(_announce, output=output))


def _config(settings: Settings, *, data: Path | None) -> BrokerConfig:
    host, port = parse_listen(settings.listen)
    return BrokerConfig(
        (data or settings.home / "log").expanduser().absolute(),
        host=host,
        port=port,
        auto_create_topics=settings.auto_create_topics,
        default_partitions=settings.default_partitions,
        segment_bytes=settings.segment_bytes,
        max_message_bytes=settings.max_message_bytes,
        max_request_bytes=settings.max_request_bytes,
        max_connections=settings.max_connections,
    )


def _announce(host: str, port: int, *, output: Output) -> None:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if output is Output.JSON:
        emit({"listening": address}, output=output)
    else:
        sys.stdout.write(f"listening on {address}\n")
    sys.stdout.flush()
