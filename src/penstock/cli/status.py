"""`penstock status`: every pipeline, who runs it, how far it is, and what became of what it read."""

from __future__ import annotations

from penstock.cli.output import Output, OutputOption, emit


def status(output: OutputOption = Output.TABLE) -> None:
    """Show pipelines: position, outcomes, last batch."""
    from penstock.core.settings import read_settings
    from penstock.views import read, server
    from penstock.views.connection import Database

    with server.database_url(read_settings()) as url, Database(url) as database:
        emit({"database": database.where, "pipelines": read.status(database)}, output=output)
