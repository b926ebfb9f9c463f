"""``compactor state …``."""

from __future__ import annotations

import click

from compactor.base.errors import BadSetting
from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_either


@click.group()
def state() -> None:
    """Our own tables (COMPACTOR_…)."""


@state.command("init")
@with_context
def state_init(context: CliContext) -> None:
    """Create our tables at state_url, or else in the metastore's database, unless they exist."""
    _upgrade(context)


@state.command("upgrade")
@with_context
def state_upgrade(context: CliContext) -> None:
    """Upgrade our tables to this release's version."""
    _upgrade(context)


def _upgrade(context: CliContext) -> None:
    from compactor.database.engine import open_database
    from compactor.state import state_database

    configuration = context.configuration()
    if configuration.own_state_url is None:
        raise BadSetting(
            f"metastore {configuration.name}: mode observe stores nothing in the metastore's database; set state_url to "
            "a database of our own"
        )
    database = open_database(configuration.own_state_url)
    try:
        version = state_database.upgrade(database)
    finally:
        database.close()
    print_either(context.json, {"url": database.url, "version": version}, f"state {database.url}: version {version}")
