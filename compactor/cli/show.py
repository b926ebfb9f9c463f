"""``compactor show …``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Protocol

import click

from compactor.cli.context import Face, faced
from compactor.cli.output import print_json, print_table
from compactor.errors import BadSetting

#: What people see of SHOW COMPACTIONS; JSON has all of Hive's columns.
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


class _Jsonable(Protocol):
    def to_json(self) -> dict[str, object]: ...


def _print(face: Face, rows: Iterable[_Jsonable], columns: Sequence[str], empty: str) -> None:
    values = [row.to_json() for row in rows]
    if face.json:
        print_json(values)
    else:
        print_table(values, columns, empty)


@click.group()
def show() -> None:
    """Show tables, the queue, the history and who stands in the way. Nothing is written."""


@show.command()
@click.option("--worst", type=click.IntRange(min=1), metavar="N", help="Only the N whose readers merge most deltas.")
@faced
def tables(face: Face, worst: int | None) -> None:
    """Transactional tables, the one most in need first, and what would happen to them now."""
    from compactor.service.answers import survey

    with face.site(read_only=True) as site:
        rows = survey.survey_tables(site, worst)
    if face.json:
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
@click.option("--order-by", metavar="COLUMN [desc],...", default="", help="By these columns, such as 'starttime desc'.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N.")
@faced
def compactions(
    face: Face,
    name: str | None,
    partition: str | None,
    number: int | None,
    pool: str | None,
    kind: str | None,
    state: str | None,
    order_by: str,
    limit: int | None,
) -> None:
    """The queue and the history, like Hive's SHOW COMPACTIONS, with its filters and its ORDER BY."""
    from compactor.service.answers import show_compactions as service

    database, _, table = (name or "").lower().partition(".")
    wanted = service.CompactionFilter(
        id=number,
        database=database or None,
        table=table or None,
        partition=partition,
        pool=pool,
        type=kind,
        state=state,
    )
    with face.site(read_only=True) as site:
        _print(
            face,
            service.show_compactions(site, wanted, order=order_by, limit=limit),
            _COMPACTION,
            "there are no compactions",
        )


@show.command()
@click.option("--table", "table", metavar="DB.TABLE", help="Only of this table.")
@faced
def history(face: Face, table: str | None) -> None:
    """Compactions that have ended, newest first."""
    from compactor.compaction.entry import Entity
    from compactor.service.answers import show_compactions as service
    from compactor.service.requests.request import parse_table

    entity = None
    if table is not None:
        database, name = parse_table(table)
        entity = Entity(database=database, table=name)
    with face.site(read_only=True) as site:
        columns = (*_COMPACTION, "deltas_left", "opening_before", "opening_after")
        _print(face, service.show_history(site, entity), columns, "no compaction has ended yet")


@show.command()
@faced
def transactions(face: Face) -> None:
    """Open and aborted transactions, like Hive's SHOW TRANSACTIONS."""
    from compactor.service.answers import show as service

    with face.site(read_only=True) as site:
        _print(
            face, service.show_transactions(site), service.TransactionRow.columns(), "no transaction is open or aborted"
        )


@show.command()
@click.argument("name", metavar="[DB[.TABLE]]", required=False)
@click.option("--partition", metavar="SPEC", help="Only of this partition: as in SHOW PARTITIONS, or k=v,k=v.")
@click.option("--extended", is_flag=True, help="Also for how long, and who stands in the way of those that wait.")
@click.option(
    "--zookeeper", metavar="HOSTS", help="Those of Hive's lock manager without transactions, at HOST:PORT,..."
)
@click.option("--namespace", metavar="NAME", default="hive_zookeeper_namespace", show_default=True)
@faced
def locks(
    face: Face, name: str | None, partition: str | None, extended: bool, zookeeper: str | None, namespace: str
) -> None:
    """Locks of all, a database, a table or a partition, like Hive's SHOW LOCKS."""
    from compactor.service.answers import show_locks as service

    database, _, table = (name or "").lower().partition(".")
    if partition is not None and not table:
        raise BadSetting("--partition names a partition of a table; say which, as DB.TABLE")
    where = (database or None, table or None)
    if zookeeper is not None:
        from compactor.metastore.locks.zookeeper import open_zookeeper_locks

        with closing(open_zookeeper_locks(zookeeper, namespace=namespace)) as manager:
            found = service.show_foreign_locks(manager.show(*where, partition))
        _print(face, found, service.LockShown.columns(), "there are no locks")
        return
    with face.site(read_only=True) as site:
        if partition is not None:
            catalog = site.metastore.catalog
            partition = catalog.resolve_partition(catalog.table(database, table), partition)
        if extended:
            rows: Sequence[_Jsonable] = service.show_locks_extended(site, *where, partition)
            _print(face, rows, service.LockExtended.columns(), "there are no locks")
        else:
            _print(face, service.show_locks(site, *where, partition), service.LockShown.columns(), "there are no locks")


@show.command()
@faced
def blockers(face: Face) -> None:
    """Who keeps the cleaner away from what."""
    from compactor.service.answers import show as service

    with face.site(read_only=True) as site:
        _print(face, service.show_blockers(site), service.BlockerRow.columns(), "nothing keeps the cleaner away")


@show.command()
@faced
def alarms(face: Face) -> None:
    """Conditions that somebody should hear of: age, number, failures; and what to do."""
    from compactor.service.doctor import alarms as service

    with face.site(read_only=True) as site:
        found = service.raised_alarms(service.take_readings(site), site.settings)
    _print(face, found, ("level", "name", "value", "limit", "message", "fix"), "nothing is amiss")


@show.command()
@faced
def settings(face: Face) -> None:
    """Every setting with its value and where that comes from."""
    from compactor.service.answers import show as service

    configuration = face.configuration()  # no database is needed to say what is configured
    _print(face, service.show_settings(configuration.settings), service.SettingRow.columns(), "there are no settings")


@show.command()
@faced
def decisions(face: Face) -> None:
    """What the initiator's newest pass decided, and why."""
    from compactor.service.answers import show as service

    with face.site(read_only=True) as site:
        _print(
            face,
            service.show_decisions(site),
            ("at", "table", "outcome", "because"),
            "no pass has decided anything yet",
        )
