"""``compactor override DB.TABLE KEY=VALUE``."""

from __future__ import annotations

import click

from compactor.cli.context import Face, faced
from compactor.cli.output import print_json


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.argument("said", metavar="KEY=VALUE")
@click.option("--remove", is_flag=True, help="Forget the override of KEY; no value is given then.")
@faced
def override(face: Face, table: str, said: str, remove: bool) -> None:
    """Keep a setting for one table in Compactor's own state, over the table's properties.

    The properties in the metastore stay as they are, and Hive knows nothing of it.
    """
    from compactor.service.requests.overrides import override as overridden
    from compactor.service.requests.overrides import remove_override

    key, equals, value = said.partition("=")
    if remove is bool(equals):
        raise click.UsageError("give KEY=VALUE, or KEY with --remove")
    with face.site() as site:
        done = remove_override(site, table, key) if remove else overridden(site, table, key, value, site.user)
    if face.json:
        print_json({"table": f"{done.database}.{done.table}", "key": done.key, "value": None if remove else done.value})
    elif remove:
        click.echo(f"{done.database}.{done.table}: the override {done.key}={done.value} is removed")
    else:
        click.echo(f"{done.database}.{done.table}: {done.key}={done.value}, whatever the table's properties say")
