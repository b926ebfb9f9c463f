"""The rows of ``show locks``: their selection, Hive's order, and their columns.

Keys are the columns of Hive's SHOW LOCKS in lower case. Times are epoch milliseconds of the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from compactor.answers.row import Row
from compactor.base.errors import BadSetting
from compactor.metastore.locks.lock_manager import LockManager
from compactor.metastore.locks.lock_rows import LockRow, LockState
from compactor.site.named_tables import Where, find_where, readings
from compactor.site.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class LockShown(Row):
    """A row of SHOW LOCKS. ``lockid`` and ``blocked_by`` are ``external.internal``."""

    lockid: str
    database: str
    table: str | None
    partition: str | None
    lock_state: str
    blocked_by: str | None
    lock_type: str
    transaction_id: int
    last_heartbeat: int | None
    acquired_at: int | None
    user: str
    hostname: str
    agent_info: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockExtended(LockShown):
    """A row of SHOW LOCKS ... EXTENDED.

    Adds how long a lock has been held, and the lock that a waiting one waits for.
    """

    held_ms: int | None
    waits_for: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOfStatement(LockShown):
    """A row of SHOW LOCKS ... EXTENDED of a lock manager that knows the query's text.

    ``agent_info`` is its id.
    """

    statement: str | None


def find_place(site: Site, name: str | None, partition: str | None) -> Where:
    """Returns what ``name`` and ``partition`` mean; locks may name tables that do not exist yet.

    Raises:
        NotFound, BadSetting: as ``find_where`` does.
    """
    return find_where(site.metastore.catalog, name, partition, lambda where: bool(show_locks(site, where)))


def show_locks(site: Site, where: Where = Where()) -> list[LockShown]:
    """Returns the locks on a database, a table or a partition (by its stored name), or all locks.

    Hive's order: acquired locks first, then weaker types first, then in the order of their requests. As in Hive, locks of
    another level are not shown.
    """
    return [_lock(row) for row in in_hives_order(_rows(site.metastore.locks, where))]


def show_locks_extended(site: Site, where: Where = Where()) -> list[LockExtended]:
    """Returns the same locks with the columns of EXTENDED."""
    now = site.metastore.now_ms()
    all_locks = {(row.id, row.internal_id): row for row in site.metastore.locks.show()}
    return [
        LockExtended(
            **_lock(row).to_json(),  # type: ignore[arg-type]  # the columns of its base class
            held_ms=None if row.acquired_at is None else max(0, now - row.acquired_at),
            waits_for=str(all_locks[row.blocked_by]) if row.blocked_by in all_locks else None,
        )
        for row in in_hives_order(_rows(site.metastore.locks, where))
    ]


def in_hives_order(rows: Iterable[LockRow]) -> list[LockRow]:
    """Returns ``rows`` in Hive's order of SHOW LOCKS."""
    return sorted(rows, key=lambda r: (r.state is not LockState.ACQUIRED, r.type.strength, r.id, r.internal_id))


def show_foreign_locks(manager: LockManager, name: str | None, partition: str | None) -> list[LockShown]:
    """Returns the locks of a lock manager without a catalog, of every object that ``name`` may mean.

    Raises:
        BadSetting: ``name`` is not a valid name, or a partition is named without its table.
    """
    return [_lock(row) for row in _foreign_rows(manager, name, partition)]


def show_foreign_locks_extended(manager: LockManager, name: str | None, partition: str | None) -> list[LockOfStatement]:
    """Returns the same locks with the columns of EXTENDED."""
    return [
        LockOfStatement(**_lock(row).to_json(), statement=row.statement)  # type: ignore[arg-type]  # those of its base
        for row in _foreign_rows(manager, name, partition)
    ]


def _foreign_rows(manager: LockManager, name: str | None, partition: str | None) -> list[LockRow]:
    meanings = [Where()] if name is None else readings(name)
    if partition is not None:
        meanings = [replace(meaning, partition=partition) for meaning in meanings if meaning.table is not None]
        if not meanings:
            raise BadSetting(f"partition {partition!r}: name its table too, as DB.TABLE")
    return in_hives_order([row for meaning in meanings for row in _rows(manager, meaning)])


def _rows(manager: LockManager, where: Where) -> Iterable[LockRow]:
    return manager.show(where.database, where.table, where.partition)


def _lock(row: LockRow) -> LockShown:
    return LockShown(
        lockid=f"{row.id}.{row.internal_id}",
        database=row.database,
        table=row.table,
        partition=row.partition,
        lock_state=row.state.name,
        blocked_by=None if row.blocked_by is None else f"{row.blocked_by[0]}.{row.blocked_by[1]}",
        lock_type=row.type.name,
        transaction_id=row.txn,
        last_heartbeat=row.last_heartbeat or None,  # 0: its transaction sends them
        acquired_at=row.acquired_at,
        user=row.user,
        hostname=row.host,
        agent_info=row.agent,
    )
