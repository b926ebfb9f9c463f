"""``compactor metastore …`` and ``compactor state …``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json
from compactor.cli.resolve import advance
from compactor.errors import BadSetting, Refused


@click.group()
def metastore() -> None:
    """The metastore: make an embedded one, look at it, and put one right that was restored."""


metastore.add_command(advance)


@metastore.command("init")
@with_context
def metastore_init(context: CliContext) -> None:
    """Create an embedded metastore (SQLite) with Hive 4's schema and our state, unless they exist."""
    from compactor.database.engine import open_database
    from compactor.metastore.schema import create
    from compactor.state import store

    configuration = context.configuration()
    if not configuration.is_embedded:
        raise Refused(
            f"metastore {configuration.name}: we only create an embedded metastore (sqlite:///…); create the schema of a "
            "Hive metastore with Hive's schematool"
        )
    database = open_database(configuration.url)
    try:
        create.create(database)
        version = create.version(database)
    finally:
        database.close()
    state = configuration.own_state_url
    if state is not None:
        store.init(state).close()
    _print(
        context,
        {"metastore": configuration.name, "url": database.url, "schema_version": version, "state": state is not None},
        f"metastore {configuration.name}: {database.url}, schema {version}"
        + ("" if state is None else ", with our state"),
    )


@metastore.command("info")
@with_context
def metastore_info(context: CliContext) -> None:
    """Show which metastore this is and how much it contains."""
    with context.site(read_only=True) as site:
        tables = site.metastore.catalog.tables()
        found = {
            "metastore": site.name,
            "url": site.metastore.database.url,
            "schema_version": site.metastore.schema_version,
            "mode": site.settings.mode,
            "state_url": None if site.state is None else site.state.database.url,
            "databases": len(site.metastore.catalog.databases()),
            "tables": len(tables),
            "transactional_tables": sum(table.is_transactional for table in tables),
            "newest_transaction": site.metastore.transactions.newest(),
            "open_transactions": len(site.metastore.transactions.open_transactions()),
            "queue": len(site.metastore.entries.queue()),
        }
    _print(context, found, "\n".join(f"{key}: {'-' if value is None else value}" for key, value in found.items()))


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
    from compactor.state import store

    configuration = context.configuration()
    if configuration.own_state_url is None:
        raise BadSetting(
            f"metastore {configuration.name}: mode observe stores nothing in the metastore's database; set state_url to "
            "a database of our own"
        )
    database = open_database(configuration.own_state_url)
    try:
        version = store.upgrade(database)
    finally:
        database.close()
    _print(context, {"url": database.url, "version": version}, f"state {database.url}: version {version}")


def _print(context: CliContext, value: Mapping[str, object], text: str) -> None:
    if context.json:
        print_json(value)
    else:
        click.echo(text)
