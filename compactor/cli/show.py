"""``compactor show …``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, Protocol, TypeVar

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, print_table, with_progress

_TABLES = (
    "table",
    "health",
    "partitions",
    "directories",
    "deltas",
    "most_deltas",
    "files",
    "bytes",
    "obsolete",
    "last_compacted",
    "decision",
    "because",
)

_AFTERMATH = ("removed_at", "kept_until", "undone_at", "removed_files", "removed_bytes")
_NAME = "[DB.TABLE | DB.*]"
_PARTITION = "Only of this partition: as in SHOW PARTITIONS, or k=v,k=v."
_F = TypeVar("_F", bound=Callable[..., object])


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


def _add_filters(command: _F) -> _F:
    """Adds the options that filter compactions, by the names of ``CompactionWords``."""
    for decorate in (
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N."),
        click.option("--state", metavar="STATE", help="Only in this state, such as 'ready for cleaning'."),
        click.option("--id", type=int, metavar="ID", help="Only this compaction."),
    ):
        command = decorate(command)
    return _add_common_filters(command)


def _add_common_filters(command: _F) -> _F:
    """Adds the options that filter tables and compactions alike, by the names of ``CompactionWords``."""
    for decorate in (
        click.option("--type", metavar="TYPE", help="Only of this type, such as major."),
        click.option("--pool", metavar="Q", help="Only of this pool; default means none."),
        click.option("--partition", metavar="SPEC", help=_PARTITION),
        click.argument("name", metavar=_NAME, required=False),
    ):
        command = decorate(command)
    return command


@show.command()
@_add_common_filters
@click.option("--worst", type=click.IntRange(min=1), metavar="N", help="Only the N least healthy tables.")
@with_context
def tables(context: CliContext, /, worst: int | None, **words: Any) -> None:
    """Transactional tables, the least healthy first, and what would happen to them now.

    --type keeps tables where a compaction of this type is due.
    """
    from compactor.answers import survey
    from compactor.answers.show_compactions import CompactionWords

    with context.site(read_only=True) as site:
        rows = survey.survey_tables(site, worst, survey.find_tables(site, CompactionWords(**words)))
    if context.json:
        print_json([row.to_json() for row in rows])
        return
    print_table(
        [{**row.to_json(), "decision": row.decision} for row in rows],
        _TABLES,
        "no transactional table matches" if any(words.values()) else "there are no transactional tables",
    )


@show.command()
@_add_filters
@click.option("--order-by", metavar="COLUMN [desc],...", default="", help="Sort by columns, such as 'starttime desc'.")
@with_context
def compactions(context: CliContext, /, order_by: str, limit: int | None, **words: Any) -> None:
    """The queue and the history, like Hive's SHOW COMPACTIONS, with its filters and its ORDER BY."""
    from compactor.answers import show_compactions as service

    with context.site(read_only=True) as site:
        filter = service.find_filter(site, service.CompactionWords(**words))
        rows = service.show_compactions(site, filter, order=order_by, limit=limit)
    if context.json:
        print_json([row.to_json() for row in rows])
        return
    left_to = ("left_to",) if any(row.left_to for row in rows) else ()
    print_table(
        [with_progress(row.to_json()) for row in rows],
        (*service.SHOWN, "progress", "watch", *left_to),
        "there are no compactions",
    )


@show.command()
@_add_filters
@with_context
def history(context: CliContext, /, limit: int | None, **words: Any) -> None:
    """Compactions that have ended, newest first."""
    from compactor.answers import show_compactions as service

    with context.site(read_only=True) as site:
        filter = service.find_filter(site, service.CompactionWords(**words))
        rows = service.show_history(site, filter, limit=limit)
    columns = (*service.SHOWN, *_AFTERMATH, "deltas_left", "opening_before", "opening_after")
    _print(context, rows, columns, "no compaction has ended yet")


@show.command()
@with_context
def transactions(context: CliContext) -> None:
    """Open and aborted transactions, like Hive's SHOW TRANSACTIONS."""
    from compactor.answers import show_rows as service

    with context.site(read_only=True) as site:
        _print(
            context,
            service.show_transactions(site),
            service.TransactionRow.columns(),
            "no transaction is open or aborted",
        )


@show.command()
@click.argument("name", metavar=_NAME, required=False)
@click.option("--partition", metavar="SPEC", help=_PARTITION)
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
    from compactor.answers import show_locks as service

    empty = "there are no locks"
    if zookeeper is not None:
        from compactor.metastore.locks.zookeeper import open_zookeeper_locks

        with closing(open_zookeeper_locks(zookeeper, namespace=namespace)) as manager:
            if extended:
                locks = service.show_foreign_locks_extended(manager, name, partition)
                _print(context, locks, service.LockOfStatement.columns(), empty)
            else:
                _print(
                    context, service.show_foreign_locks(manager, name, partition), service.LockShown.columns(), empty
                )
        return
    with context.site(read_only=True) as site:
        where = service.find_place(site, name, partition)
        if extended:
            _print(context, service.show_locks_extended(site, where), service.LockExtended.columns(), empty)
        else:
            _print(context, service.show_locks(site, where), service.LockShown.columns(), empty)


@show.command()
@click.argument("name", metavar=_NAME, required=False)
@click.option("--partition", metavar="SPEC", help=_PARTITION)
@click.option("--id", "number", type=int, metavar="ID", help="Only of this compaction.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N.")
@with_context
def quarantine(
    context: CliContext, name: str | None, partition: str | None, number: int | None, limit: int | None
) -> None:
    """Directories that compactions replaced and that quarantine keeps for a while, soonest erased first."""
    from compactor.answers import show_rows as service

    with context.site(read_only=True) as site:
        filter = service.QuarantineFilter(id=number, where=service.find_place(site, name, partition))
        rows = service.show_quarantine(site, filter, limit=limit)
    _print(context, rows, service.QuarantineRow.columns()[:-1], "nothing is in quarantine")


@show.command()
@with_context
def blockers(context: CliContext) -> None:
    """Transactions that block the cleaner, and what they block."""
    from compactor.answers import show_rows as service

    with context.site(read_only=True) as site:
        _print(context, service.show_blockers(site), service.BlockerRow.columns(), "nothing blocks the cleaner")


@show.command()
@with_context
def alarms(context: CliContext) -> None:
    """Conditions that need attention (ages, counts, failures), and what to do about each."""
    from compactor.answers.alarms import raised_alarms
    from compactor.answers.readings import take_readings

    with context.site(read_only=True) as site:
        alarms = raised_alarms(take_readings(site), site.settings)
    _print(context, alarms, ("level", "name", "value", "limit", "message", "fix"), "nothing is amiss")


@show.command()
@click.argument("table", metavar="[DB.TABLE]", required=False)
@click.option("--changed", is_flag=True, help="Only those that are not the default, and what has no effect.")
@with_context
def settings(context: CliContext, table: str | None, changed: bool) -> None:
    """Every setting with its value and its source, of the site or of one table."""
    from compactor.answers import show_rows as service
    from compactor.site.named_tables import find_table

    if table is None:
        chosen = context.configuration().settings  # showing the configuration needs no database
    else:
        with context.site(read_only=True) as site:
            chosen = site.settings_for(find_table(site.metastore.catalog, table))
    rows = service.show_settings(chosen, only_changed=changed)
    _print(context, rows, service.SettingRow.columns(), "every setting has its default")


@show.command()
@with_context
def decisions(context: CliContext) -> None:
    """The initiator's decision about each table and partition that was written to, and its reason."""
    from compactor.answers import show_rows as service

    with context.site(read_only=True) as site:
        _print(
            context,
            service.show_decisions(site),
            ("at", "table", "outcome", "because"),
            "no pass has decided anything yet",
        )
