"""``compactor override DB.TABLE KEY=VALUE``."""

from __future__ import annotations

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, say


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.argument("assignment", metavar="KEY=VALUE")
@click.option("--remove", is_flag=True, help="Remove the override of KEY; give no value then.")
@with_context
def override(context: CliContext, table: str, assignment: str, remove: bool) -> None:
    """Override a setting for one table, in Compactor's own state.

    The override takes precedence over the table's properties. They do not change, and Hive does not see the override.
    """
    from compactor.requests import overrides

    key, equals, value = assignment.partition("=")
    if remove is bool(equals):
        raise click.UsageError("give KEY=VALUE, or KEY with --remove")
    with context.site() as site:
        if remove:
            done = overrides.remove_override(site, table, key)
        else:
            done = overrides.override(site, table, key, value, site.user)
    if context.json:
        print_json({"table": f"{done.database}.{done.table}", "key": done.key, "value": None if remove else done.value})
    elif remove:
        say(f"{done.database}.{done.table}: the override {done.key}={done.value} is removed")
    else:
        say(f"{done.database}.{done.table}: {done.key}={done.value}, whatever the table's properties say")
