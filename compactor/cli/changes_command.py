"""``compactor changes TABLE --since VERSION``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json_line, print_table


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.option("--since", type=int, required=True, metavar="VERSION", help="Print the changes after this version.")
@click.option(
    "--until", type=int, metavar="VERSION", help="Print the changes up to this version. Default: the current one."
)
@click.option("--key", multiple=True, metavar="COLUMN", help="A column that identifies rows; may be repeated.")
@click.option("--net", is_flag=True, help="Leave out rows that were inserted and deleted within the range.")
@with_context
def changes(context: CliContext, table: str, since: int, until: int | None, key: tuple[str, ...], net: bool) -> None:
    """Print the rows that were inserted into and deleted from DB.TABLE since a version.

    A version is a write ID. docs/changes.md says which versions there are, and how far back changes are complete. With
    --key, a delete and an insert of one key in one commit are printed as an update.
    """
    from compactor.tables import Store
    from compactor.tables.sql.run_queries import change_rows

    with context.site() as site:
        columns, rows = change_rows(Store(site).load_table(table), since, until, key=key, net=net)
        if context.json:
            _print_lines(rows)
        else:
            print_table(list(rows), columns, "nothing has changed", whole=True, of_table=True)


def _print_lines(rows: Iterator[Mapping[str, object]]) -> None:
    for row in rows:
        print_json_line(row, of_table=True)
