"""What a command prints: its result on standard output, everything else on standard error.

With `--output json` the result is exactly one JSON document: decimals and other exact numbers as strings, times as
ISO 8601 in UTC. Without it the same document is shown as a table.
Limit: a document is built whole in memory; a command that prints without end writes its own lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from rich.table import Table

Document = Mapping[str, object] | Sequence[Mapping[str, object]]


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", help="A table to read, or one JSON document.")]


def emit(document: Document, *, output: Output) -> None:
    """Print the result of a command."""
    if output is Output.JSON:
        sys.stdout.write(as_json(document) + "\n")
    else:
        _print_table(document)


def say(message: str) -> None:
    """Tell the reader something that is not the result: progress, notes, warnings."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def as_json(document: object) -> str:
    """The document as one line of JSON.

    >>> as_json({"amount": Decimal("1.50"), "at": datetime(2026, 1, 2, tzinfo=UTC)})
    '{"amount": "1.50", "at": "2026-01-02T00:00:00Z"}'
    """
    return json.dumps(document, default=_spell, ensure_ascii=False, allow_nan=False)


def _spell(value: object) -> object:
    match value:
        case Decimal():
            return f"{value:f}"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() if not isinstance(value, datetime):
            return value.isoformat()
        case bytes():
            return value.decode("utf-8", errors="backslashreplace")
        case PurePath():
            return str(value)
    raise TypeError(f"a document cannot hold a {type(value).__name__}")


def _print_table(document: Document) -> None:
    # rich takes 50 ms to import, and JSON output has no use for it.
    from rich.console import Console

    # A pipe has no width: nothing may be cut there. Brackets in a value are text, never markup.
    wide = None if sys.stdout.isatty() else 10_000
    console = Console(width=wide, markup=False, emoji=False, highlight=False)
    if not isinstance(document, Mapping):
        console.print(_table(document) if document else "nothing")
        return
    nested = {name: value for name, value in document.items() if _is_rows(value)}
    console.print(_pairs({name: value for name, value in document.items() if name not in nested}))
    for name, rows in nested.items():
        console.print(f"\n{name}")
        console.print(_table(cast(Sequence[Mapping[str, object]], rows)))


def _is_rows(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _pairs(document: Mapping[str, object]) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in document.items():
        table.add_row(name, _cell(value))
    return table


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        is_number = all(isinstance(row.get(name), int | float | Decimal) for row in rows)
        table.add_column(name, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    return table


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping | list | tuple):
        return as_json(value)
    return value if isinstance(value, str) else as_json(value).strip('"')
