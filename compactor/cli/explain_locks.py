"""``compactor explain-locks "STATEMENT"``."""

from __future__ import annotations

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, say


@click.command("explain-locks")
@click.argument("statement", metavar="STATEMENT")
@click.option("--database", metavar="DB", default="default", show_default=True, help="The current database.")
@click.option("--old", is_flag=True, help="List the S and X locks of Hive's lock manager without transactions.")
@with_context
def explain_locks(context: CliContext, statement: str, database: str, old: bool) -> None:
    """List the locks a HiveQL statement would take, like Hive's EXPLAIN LOCKS. Nothing is locked."""
    from compactor.answers import explain_locks as service

    with context.site(read_only=True) as site:
        explained = service.explain_locks(site, statement, database=database.lower(), old=old)
    if context.json:
        print_json(explained.to_json())
        return
    say("LOCK INFORMATION:")
    for lock in explained.locks:
        say(str(lock))
