"""``compactor reads …``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import cell, counted, print_either, print_json, print_table

_COLUMNS = (
    "table",
    "queries",
    "took",
    "last_read",
    "runs",
    "compared",
    "like_queries",
    "before",
    "after",
    "files_before",
    "files_after",
)


@click.group()
def reads() -> None:
    """Take in and show the queries that read tables, and what compactions brought them."""


@reads.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8", errors="surrogateescape"))
@with_context
def import_(context: CliContext, file: TextIO) -> None:
    """Take in queries: events of Trino's HTTP event listener, rows of HiveServer2's query
    history, or plain records; one JSON object a line. - reads what is piped in. Each is stored
    once, however often it is told; no text of a query is kept."""
    from compactor.requests.import_reads import import_reads

    with context.site() as site:
        done = import_reads(site, _lines(file), file.name)
    told = f"{counted(done.events, 'event')}, {counted(done.queries, 'query', 'queries')} that read tables"
    print_either(context.json, done.to_json(), f"{told}; {counted(done.stored, 'read')} of tables here stored")


def _lines(file: TextIO) -> Iterator[str]:
    """Yields lines, of which none takes more memory than an event may."""
    from compactor.insight.read_events import MOST_BYTES

    while line := file.readline(MOST_BYTES + 2):
        yield line


@reads.command("show")
@click.argument("table", metavar="[DB.TABLE]", required=False)
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="The last days.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Of read and unread tables each."
)
@with_context
def show(context: CliContext, table: str | None, days: int, limit: int) -> None:
    """Show how often tables are read, and how long like queries took before and after compactions.

    With a table: each of its compactions that can be compared.
    """
    from compactor.answers.reader_gains import reads_of, table_reads
    from compactor.site.named_tables import find_table

    with context.site(read_only=True) as site:
        if table is None:
            found = table_reads(site, days=days, limit=limit)
        else:
            wanted = find_table(site.metastore.catalog, table)
            found = [reads_of(site, wanted.database, wanted.name, days=days)]
    rows = [one.to_json() for one in found]
    of_runs = [run.to_json() for one in found for run in one.compared] if table is not None else []
    if context.json:
        print_json({"tables": rows, "compactions": of_runs})
        return
    print_table([_shown(row) for row in rows], _COLUMNS, "nobody has told of any read")
    if of_runs:
        print_table(of_runs, tuple(of_runs[0]), "")


def _shown(row: dict[str, object]) -> dict[str, object]:
    times = {name: None if row[name] is None else f"{row[name]} s" for name in ("before", "after")}
    last = "nobody reads it" if row["last_at"] is None else cell("at", row["last_at"])
    return {**row, **times, "took": f"{row['seconds']} s", "last_read": last}
