"""``compactor explain-locks "STATEMENT"``."""

from __future__ import annotations

import click

from compactor.cli.context import Face, faced
from compactor.cli.output import print_json


@click.command("explain-locks")
@click.argument("statement", metavar="STATEMENT")
@click.option("--database", metavar="DB", default="default", show_default=True, help="The current database.")
@click.option("--old", is_flag=True, help="The S and X locks of Hive's lock manager without transactions.")
@faced
def explain_locks(face: Face, statement: str, database: str, old: bool) -> None:
    """Say which locks a statement of HiveQL would take, like Hive's EXPLAIN LOCKS. Nothing is locked."""
    from compactor.service.answers.explain_locks import explain_locks as explained

    with face.site(read_only=True) as site:
        told = explained(site, statement, database=database.lower(), old=old)
    if face.json:
        print_json(told.to_json())
        return
    click.echo("LOCK INFORMATION:")
    for lock in told.locks:
        click.echo(str(lock))
