"""Mutexes as short leases in AUX_TABLE.

A name has one holder until it is released or its lease expires.

Hive locks the row for a whole pass instead, which on SQLite would block every other connection. MT_KEY2 is the end of
the lease in epoch ms, MT_COMMENT its holder. Names have the prefix ``Compactor:``, so Hive's own rows, in which MT_KEY2
is the time of the last pass, are never changed. Each name has a second row, with MT_KEY2 0 and no holder. It is locked
while a lease is examined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select

from compactor.base.errors import LockNotGranted, LostClaim
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.metastore.schema.counter_rows import try_insert
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import AUX_TABLE

PREFIX = "Compactor:"
SCHEDULER = "CompactionScheduler"  #: the row that Hive and Compactor lock to enter requests
_ANCHOR = 0
_AUX = AUX_TABLE.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A mutex that somebody holds until ``until`` (epoch ms of the database's clock)."""

    name: str
    owner: str
    until: int


class Mutexes:
    """Takes, renews and releases leases in AUX_TABLE."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    @contextmanager
    def hold(self, name: str, owner: str, ttl_ms: int) -> Iterator[Lease]:
        """Holds ``name`` for at most ``ttl_ms``; releases it at the end of the body.

        Raises:
            LockNotGranted: another owner holds it.
        """
        lease = self.take(name, owner, ttl_ms)
        try:
            yield lease
        finally:
            self._release(lease)

    @retried
    def take(self, name: str, owner: str, ttl_ms: int) -> Lease:
        """Takes ``name`` for ``ttl_ms``.

        Raises:
            LockNotGranted: another owner holds it.
        """
        with self._database.write() as conn:
            lease = self._lock(conn, name)
            now = now_ms(conn)
            if lease is not None and lease.MT_KEY2 > now:
                raise LockNotGranted(
                    f"mutex {name} is held by {lease.MT_COMMENT} for at most {(lease.MT_KEY2 - now) / 1000:.1f} s more"
                )
            conn.execute(delete(AUX_TABLE).where(_AUX.MT_KEY1 == PREFIX + name, _AUX.MT_KEY2 != _ANCHOR))
            conn.execute(insert(AUX_TABLE).values(MT_KEY1=PREFIX + name, MT_KEY2=now + ttl_ms, MT_COMMENT=owner))
            return Lease(name=name, owner=owner, until=now + ttl_ms)

    def hive_passes(self) -> dict[str, int]:
        """Returns the mutexes of Hive's own threads, with the recorded time of their last pass (epoch ms)."""
        with self._database.read() as conn:
            rows = conn.execute(select(_AUX.MT_KEY1, _AUX.MT_KEY2)).all()
        return {row.MT_KEY1: row.MT_KEY2 for row in rows if ":" not in row.MT_KEY1 and row.MT_KEY1 != SCHEDULER}

    @retried
    def extend(self, lease: Lease, ttl_ms: int) -> Lease:
        """Renews the lease for ``ttl_ms`` from now.

        Raises:
            LostClaim: the lease has passed to another holder.
        """
        with self._database.write() as conn:
            if conn.execute(delete(AUX_TABLE).where(*_exactly(lease))).rowcount != 1:
                raise LostClaim(f"mutex {lease.name} is no longer held by {lease.owner}; the lease expired")
            until = now_ms(conn) + ttl_ms
            row = {"MT_KEY1": PREFIX + lease.name, "MT_KEY2": until, "MT_COMMENT": lease.owner}
            conn.execute(insert(AUX_TABLE).values(**row))
            return Lease(name=lease.name, owner=lease.owner, until=until)

    def _lock(self, conn: Connection, name: str) -> Row[Any] | None:
        """Returns the lease of ``name``, if any, and locks the anchor row.

        So nobody else examines the lease meanwhile.
        """
        key = _AUX.MT_KEY1 == PREFIX + name
        anchor = self._dialect.for_update(select(AUX_TABLE).where(key, _AUX.MT_KEY2 == _ANCHOR))
        if conn.execute(anchor).first() is None:
            try_insert(conn, insert(AUX_TABLE).values(MT_KEY1=PREFIX + name, MT_KEY2=_ANCHOR))
            conn.execute(anchor).one()
        return conn.execute(select(AUX_TABLE).where(key, _AUX.MT_KEY2 != _ANCHOR)).first()

    @retried
    def _release(self, lease: Lease) -> None:
        with self._database.write() as conn:
            own = (_AUX.MT_KEY1 == PREFIX + lease.name, _AUX.MT_COMMENT == lease.owner)
            conn.execute(delete(AUX_TABLE).where(*own))


def _exactly(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return (_AUX.MT_KEY1 == PREFIX + lease.name, _AUX.MT_KEY2 == lease.until, _AUX.MT_COMMENT == lease.owner)


def lock_scheduler(conn: Connection, dialect: Dialect) -> None:
    """Keeps everybody else from entering requests until this transaction ends.

    Hive's ``CompactFunction`` locks the row ``CompactionScheduler``, looks for a request of the same entity, and draws
    its id only then. So a lock on the counter of ids would not keep Hive away.
    """
    row = dialect.for_update(select(_AUX.MT_KEY2).where(_AUX.MT_KEY1 == SCHEDULER))
    if conn.execute(row).first() is None:
        try_insert(conn, insert(AUX_TABLE).values(MT_KEY1=SCHEDULER, MT_KEY2=0))
        conn.execute(row).first()
