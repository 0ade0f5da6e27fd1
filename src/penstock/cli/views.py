"""`penstock views`: list the views, show one with its cut and balance, prove them."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.output import Output, OutputOption, emit
from penstock.cli.verify import verify

views = typer.Typer(no_args_is_help=True, help="List, show and verify views.")
views.command("verify")(verify)


@views.command("list")
def list_views(output: OutputOption = Output.TABLE) -> None:
    """List the views of the database, each with its pipeline."""
    from penstock.core.settings import read_settings
    from penstock.views import read, server
    from penstock.views.connection import Database

    with server.database_url(read_settings()) as url, Database(url) as database:
        emit(read.list_views(database), output=output)


@views.command("show")
def show_view(
    name: Annotated[str, typer.Argument(help="The view to show.")],
    limit: Annotated[int | None, typer.Option(min=0, help="Show at most this many rows; all without it.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a view: the cut that it stands at, what became of every record read, and its rows."""
    from penstock.core.settings import read_settings
    from penstock.views import read, server
    from penstock.views.connection import Database

    with server.database_url(read_settings()) as url, Database(url) as database:
        emit(read.show(database, name, limit=limit), output=output)
