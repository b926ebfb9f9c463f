"""``compactor show …``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import click

from compactor.cli.face import Face, faced
from compactor.cli.output import print_json, print_table

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
    from compactor.service import survey

    with face.site(read_only=True) as site:
        rows = survey.tables(site, worst)
    if face.json:
        print_json([row.to_json() for row in rows])
        return
    print_table(
        [{**row.to_json(), "decision": row.decision} for row in rows],
        ("table", "partitions", "directories", "deltas", "most_deltas", "files", "bytes", "decision", "because"),
        "there are no transactional tables",
    )


@show.command()
@faced
def compactions(face: Face) -> None:
    """The queue and the history, like Hive's SHOW COMPACTIONS."""
    from compactor.service import show as service

    with face.site(read_only=True) as site:
        _print(face, service.compactions(site), _COMPACTION, "there are no compactions")


@show.command()
@click.option("--table", "table", metavar="DB.TABLE", help="Only of this table.")
@faced
def history(face: Face, table: str | None) -> None:
    """Compactions that have ended, newest first."""
    from compactor.compaction.entry import Entity
    from compactor.service import show as service
    from compactor.service.request import parse_table

    entity = None
    if table is not None:
        database, name = parse_table(table)
        entity = Entity(database=database, table=name)
    with face.site(read_only=True) as site:
        _print(face, service.history(site, entity), _COMPACTION, "no compaction has ended yet")


@show.command()
@faced
def transactions(face: Face) -> None:
    """Open and aborted transactions, like Hive's SHOW TRANSACTIONS."""
    from compactor.service import show as service

    with face.site(read_only=True) as site:
        _print(face, service.transactions(site), service.TransactionRow.columns(), "no transaction is open or aborted")


@show.command()
@faced
def locks(face: Face) -> None:
    """Locks, like Hive's SHOW LOCKS."""
    from compactor.service import show as service

    with face.site(read_only=True) as site:
        _print(face, service.locks(site), service.LockShown.columns(), "there are no locks")


@show.command()
@faced
def blockers(face: Face) -> None:
    """Who keeps the cleaner away from what."""
    from compactor.service import show as service

    with face.site(read_only=True) as site:
        _print(face, service.blockers(site), service.BlockerRow.columns(), "nothing keeps the cleaner away")


@show.command()
@faced
def settings(face: Face) -> None:
    """Every setting with its value and where that comes from."""
    from compactor.service import show as service

    configuration = face.configuration()  # no database is needed to say what is configured
    _print(face, service.settings(configuration.settings), service.SettingRow.columns(), "there are no settings")


@show.command()
@faced
def decisions(face: Face) -> None:
    """What the initiator's newest pass decided, and why."""
    from compactor.service import show as service

    with face.site(read_only=True) as site:
        _print(face, service.decisions(site), ("at", "table", "outcome", "because"), "no pass has decided anything yet")
