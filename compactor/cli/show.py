"""``compactor show …``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, print_table
from compactor.errors import BadSetting

#: The columns of SHOW COMPACTIONS shown to people; JSON has all of Hive's columns.
_COMPACTION = (
    "compactionid",
    "dbname",
    "tabname",
    "partname",
    "type",
    "state",
    "enqueuetime",
    "starttime",
    "duration",
    "poolname",
    "workerhost",
    "txnid",
    "highestwriteid",
    "errormessage",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionsOptions:
    """The argument and options of ``compactor show compactions``, by their names in click."""

    name: str | None
    partition: str | None
    number: int | None
    pool: str | None
    kind: str | None
    state: str | None
    order_by: str
    limit: int | None


class _Jsonable(Protocol):
    def to_json(self) -> dict[str, object]: ...


def _print(context: CliContext, rows: Iterable[_Jsonable], columns: Sequence[str], empty: str) -> None:
    values = [row.to_json() for row in rows]
    if context.json:
        print_json(values)
    else:
        print_table(values, columns, empty)


@click.group()
def show() -> None:
    """Show tables, the queue, the history and what blocks them. Nothing is written."""


@show.command()
@click.option(
    "--worst", type=click.IntRange(min=1), metavar="N", help="Only the N tables with the most deltas to merge."
)
@with_context
def tables(context: CliContext, worst: int | None) -> None:
    """Transactional tables, most urgent first, and what would happen to them now."""
    from compactor.service.answers import survey

    with context.site(read_only=True) as site:
        rows = survey.survey_tables(site, worst)
    if context.json:
        print_json([row.to_json() for row in rows])
        return
    print_table(
        [{**row.to_json(), "decision": row.decision} for row in rows],
        ("table", "partitions", "directories", "deltas", "most_deltas", "files", "bytes", "decision", "because"),
        "there are no transactional tables",
    )


@show.command()
@click.argument("name", metavar="[DB[.TABLE]]", required=False)
@click.option("--partition", metavar="NAME", help="Only of this partition, as in SHOW PARTITIONS.")
@click.option("--id", "number", type=int, metavar="ID", help="Only this one.")
@click.option("--pool", metavar="Q", help="Only of this pool; default means none.")
@click.option("--type", "kind", metavar="TYPE", help="Only of this type, such as major.")
@click.option("--state", metavar="STATE", help="Only in this state, such as 'ready for cleaning'.")
@click.option("--order-by", metavar="COLUMN [desc],...", default="", help="Sort by columns, such as 'starttime desc'.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N.")
@with_context
def compactions(context: CliContext, /, **given: Any) -> None:
    """The queue and the history, like Hive's SHOW COMPACTIONS, with its filters and its ORDER BY."""
    from compactor.service.answers import show_compactions as service

    options = CompactionsOptions(**given)
    database, _, table = (options.name or "").lower().partition(".")
    wanted = service.CompactionFilter(
        id=options.number,
        database=database or None,
        table=table or None,
        partition=options.partition,
        pool=options.pool,
        type=options.kind,
        state=options.state,
    )
    with context.site(read_only=True) as site:
        _print(
            context,
            service.show_compactions(site, wanted, order=options.order_by, limit=options.limit),
            _COMPACTION,
            "there are no compactions",
        )


@show.command()
@click.option("--table", "table", metavar="DB.TABLE", help="Only of this table.")
@with_context
def history(context: CliContext, table: str | None) -> None:
    """Compactions that have ended, newest first."""
    from compactor.compaction.entry import Entity
    from compactor.service.answers import show_compactions as service
    from compactor.service.requests.request import parse_table

    entity = None
    if table is not None:
        database, name = parse_table(table)
        entity = Entity(database=database, table=name)
    with context.site(read_only=True) as site:
        columns = (*_COMPACTION, "deltas_left", "opening_before", "opening_after")
        _print(context, service.show_history(site, entity), columns, "no compaction has ended yet")


@show.command()
@with_context
def transactions(context: CliContext) -> None:
    """Open and aborted transactions, like Hive's SHOW TRANSACTIONS."""
    from compactor.service.answers import show as service

    with context.site(read_only=True) as site:
        _print(
            context,
            service.show_transactions(site),
            service.TransactionRow.columns(),
            "no transaction is open or aborted",
        )


@show.command()
@click.argument("name", metavar="[DB[.TABLE]]", required=False)
@click.option("--partition", metavar="SPEC", help="Only of this partition: as in SHOW PARTITIONS, or k=v,k=v.")
@click.option("--extended", is_flag=True, help="Also show ages, and what blocks the locks that wait.")
@click.option(
    "--zookeeper", metavar="HOSTS", help="Locks of Hive's lock manager without transactions, at HOST:PORT,..."
)
@click.option("--namespace", metavar="NAME", default="hive_zookeeper_namespace", show_default=True)
@with_context
def locks(
    context: CliContext, name: str | None, partition: str | None, extended: bool, zookeeper: str | None, namespace: str
) -> None:
    """All locks, or those on a database, table or partition, like Hive's SHOW LOCKS."""
    from compactor.service.answers import show_locks as service

    database, _, table = (name or "").lower().partition(".")
    if partition is not None and not table:
        raise BadSetting("--partition names a partition of a table; give the table too, as DB.TABLE")
    where = (database or None, table or None)
    if zookeeper is not None:
        from compactor.metastore.locks.zookeeper import open_zookeeper_locks

        with closing(open_zookeeper_locks(zookeeper, namespace=namespace)) as manager:
            found = service.show_foreign_locks(manager.show(*where, partition))
        _print(context, found, service.LockShown.columns(), "there are no locks")
        return
    with context.site(read_only=True) as site:
        if partition is not None:
            catalog = site.metastore.catalog
            partition = catalog.resolve_partition(catalog.table(database, table), partition)
        if extended:
            rows: Sequence[_Jsonable] = service.show_locks_extended(site, *where, partition)
            _print(context, rows, service.LockExtended.columns(), "there are no locks")
        else:
            _print(
                context, service.show_locks(site, *where, partition), service.LockShown.columns(), "there are no locks"
            )


@show.command()
@click.argument("name", metavar="[DB[.TABLE]]", required=False)
@click.option("--partition", metavar="NAME", help="Only of this partition, as in SHOW PARTITIONS.")
@click.option("--id", "number", type=int, metavar="ID", help="Only of this compaction.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N.")
@with_context
def quarantine(
    context: CliContext, name: str | None, partition: str | None, number: int | None, limit: int | None
) -> None:
    """Directories that compactions replaced and that are kept for a while, what is erased next first."""
    from compactor.service.answers import show_quarantine as service

    database, _, table = (name or "").lower().partition(".")
    wanted = service.QuarantineFilter(id=number, database=database or None, table=table or None, partition=partition)
    with context.site(read_only=True) as site:
        rows = service.show_quarantine(site, wanted, limit=limit)
    _print(context, rows, service.QuarantineRow.columns()[:-1], "nothing is in quarantine")


@show.command()
@with_context
def blockers(context: CliContext) -> None:
    """Transactions that block the cleaner, and what they block."""
    from compactor.service.answers import show as service

    with context.site(read_only=True) as site:
        _print(context, service.show_blockers(site), service.BlockerRow.columns(), "nothing blocks the cleaner")


@show.command()
@with_context
def alarms(context: CliContext) -> None:
    """Conditions that need attention (ages, counts, failures), and what to do about them."""
    from compactor.service.doctor import alarms as service

    with context.site(read_only=True) as site:
        found = service.raised_alarms(service.take_readings(site), site.settings)
    _print(context, found, ("level", "name", "value", "limit", "message", "fix"), "nothing is amiss")


@show.command()
@with_context
def settings(context: CliContext) -> None:
    """Every setting with its value and its source."""
    from compactor.service.answers import show as service

    configuration = context.configuration()  # showing the configuration needs no database
    _print(
        context, service.show_settings(configuration.settings), service.SettingRow.columns(), "there are no settings"
    )


@show.command()
@with_context
def decisions(context: CliContext) -> None:
    """The decisions of the initiator's newest pass, and their reasons."""
    from compactor.service.answers import show as service

    with context.site(read_only=True) as site:
        _print(
            context,
            service.show_decisions(site),
            ("at", "table", "outcome", "because"),
            "no pass has decided anything yet",
        )
