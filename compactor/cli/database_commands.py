"""Commands about the databases: metastore … and state …."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from compactor.base.errors import BadSetting, Refused
from compactor.base.utc import utc_text
from compactor.cli.context import CliContext, with_context
from compactor.cli.doubtful_directories import advance
from compactor.cli.output import print_either, print_json, say

if TYPE_CHECKING:
    from compactor.requests.accept_database import BothSides


@click.group()
def metastore() -> None:
    """Create an embedded metastore, look at a metastore, and repair a restored one."""


metastore.add_command(advance)


@metastore.command("init")
@click.option("--warehouse", metavar="PLACE", help="Directory of the database default. Default: COMPACTOR_WAREHOUSE.")
@with_context
def init(context: CliContext, warehouse: str | None) -> None:
    """Create an embedded metastore (SQLite) with Hive 4's schema and our state, unless they exist.

    With a warehouse it has the database default there, and CREATE DATABASE puts others below it.
    """
    from compactor.database.engine import make_folder, open_database
    from compactor.metastore.metastore import open_metastore
    from compactor.metastore.schema import create, detect
    from compactor.state.state_upgrade import init as init_state

    configuration = context.configuration()
    if not configuration.is_embedded:
        raise Refused(
            f"metastore {configuration.name}: Compactor only creates an embedded metastore (sqlite:///…); create the schema "
            "of a Hive metastore with Hive's schematool"
        )
    place = (warehouse or configuration.warehouse or "").rstrip("/")
    if place and not (place.startswith("/") or ":/" in place):
        raise BadSetting(f"warehouse {place!r}: expected an absolute path or a URI, since every process uses it")
    make_folder(configuration.url)
    database = open_database(configuration.url)
    try:
        create.create(database)
        version = detect.version(database)
    finally:
        database.close()
    store = open_metastore(configuration.name, configuration.url)
    try:
        databases = store.catalog.databases()
        if place and "default" not in databases:
            store.embedded_catalog.create_database("default", place)
        elif warehouse and (known := store.catalog.database_location("default").rstrip("/")) != place:
            raise Refused(
                f"metastore {configuration.name}: its database default is at {known}, not at {place}; both stay"
            )
    finally:
        store.close()
    state = configuration.own_state_url
    if state is not None:
        init_state(state).close()
    print_either(
        context.json,
        {"metastore": configuration.name, "url": database.url, "schema_version": version, "state": state is not None},
        f"metastore {configuration.name}: {database.url}, schema {version}"
        + ("" if state is None else ", with our state"),
    )


@metastore.command("info")
@with_context
def info(context: CliContext) -> None:
    """Show which metastore this is and how much it contains."""
    from compactor.site.mode import Mode, modes_of_databases

    with context.site(read_only=True) as site:
        tables = site.metastore.catalog.tables()
        modes = modes_of_databases(site.settings, site.metastore.catalog.databases())
        facts = {
            "metastore": site.name,
            "url": site.metastore.database.url,
            "schema_version": site.metastore.schema_version,
            "mode": site.settings.mode,
            "open_databases": [name for name, mode in modes.items() if mode is not Mode.OBSERVE],
            "state_url": None if site.state is None else site.state.database.url,
            "memory": None if site.memory is None else site.memory.place,
            "databases": len(modes),
            "tables": len(tables),
            "transactional_tables": sum(table.is_transactional for table in tables),
            "newest_transaction": site.metastore.transactions.newest(),
            "open_transactions": len(site.metastore.transactions.open_transactions()),
            "queue": len(site.metastore.entries.queue()),
        }
    texts = {key: ", ".join(value) if isinstance(value, list) else value for key, value in facts.items()}
    text = "\n".join(f"{key}: {'-' if value in (None, '') else value}" for key, value in texts.items())
    print_either(context.json, facts, text)


@metastore.command("agree")
@click.option("--yes", is_flag=True, help="Accept the database. Without it, only show both sides.")
@with_context
def agree(context: CliContext, yes: bool) -> None:
    """Accept a database that is older than our record of it, for example after an intended restore.

    Until then nothing is timed out, compacted or removed. Afterwards only the database counts, and its open transactions
    time out. Refused while a table has directories with numbers that this database has not allocated yet: decide about
    them with `compactor metastore advance` before the database gives the same numbers to another writer.
    """
    from compactor.requests import accept_database as service

    with context.site(read_only=not yes) as site:
        sides = service.agree(site, site.user) if yes else service.both_sides(site)
    if context.json:
        print_json(sides.to_json())
        return
    for line in _side_lines(sides):
        say(line)


def _side_lines(sides: BothSides) -> Iterator[str]:
    database, marks = sides.database, sides.database.marks
    yield (
        f"database: newest transaction {database.newest}, {marks.unfinished} open, next lock {marks.next_lock}, next "
        f"compaction {marks.next_compaction}, at {utc_text(database.now_ms)}"
    )
    for file in sides.remembered:
        remembered = file.marks
        yield (
            f"remembered: newest transaction {remembered.newest}, {remembered.unfinished} open, next lock "
            f"{remembered.next_lock}, next compaction {remembered.next_compaction}, at {utc_text(file.token.at)}, in "
            f"{sides.place}"
        )
    if not sides.remembered:
        yield f"remembered: nothing in {sides.place}"
    if sides.unreadable is not None:
        yield f"unreadable: {sides.unreadable}"
    for contradiction in sides.doubt.contradictions if sides.doubt is not None else ():
        yield f"contradiction: {contradiction}"
    for write in sides.written:
        yield (
            f"{write.state}: transaction {write.txn} of {write.user} since {utc_text(write.started)} has write ID "
            f"{write.write_id} of {write.table}: {write.found}"
        )
    if sides.agreed is not None:
        yield f"the database is accepted as it is; the old record is in {sides.agreed}"
    elif not sides.is_doubtful:
        yield "both agree; nothing was changed"
    else:
        yield (
            f"nothing was changed. `compactor metastore agree --yes` accepts this database: its {marks.unfinished} open "
            "transactions then time out, and the cleaner removes their writes, even if they had committed. Look first at "
            "the lines that begin with open: or aborted:, or put the right database back"
        )


@click.group()
def state() -> None:
    """Create and upgrade our own tables (COMPACTOR_…)."""


@state.command("init")
@with_context
def state_init(context: CliContext) -> None:
    """Create our tables at state_url, or else in the metastore's database, unless they exist."""
    _upgrade_state(context)


@state.command("upgrade")
@with_context
def state_upgrade(context: CliContext) -> None:
    """Upgrade our tables to this release's version."""
    _upgrade_state(context)


def _upgrade_state(context: CliContext) -> None:
    from compactor.database.engine import make_folder, open_database
    from compactor.state.state_upgrade import upgrade

    configuration = context.configuration()
    if configuration.own_state_url is None:
        raise BadSetting(
            f"metastore {configuration.name}: in mode observe, Compactor stores nothing in the metastore's database; set "
            "state_url to another database"
        )
    make_folder(configuration.own_state_url)
    database = open_database(configuration.own_state_url)
    try:
        version = upgrade(database)
    finally:
        database.close()
    print_either(context.json, {"url": database.url, "version": version}, f"state {database.url}: version {version}")
