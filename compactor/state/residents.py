"""Residents: applications that wait for further batches of their route, which saves the time of further starts.

A planner assigns a batch to a resident in the transaction that plans the batch. A resident leaves only if it has no
assigned batch, in one transaction too. So no batch is assigned to a resident that has left. A resident that does not
extend its time counts as dead.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, exists, insert, select, update

from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import BATCHES, RESIDENTS, lock_state

_B, _R = BATCHES.c, RESIDENTS.c
_PLANNED, _RUNNING, _DONE = "planned", "running", "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """An application that is alive. Times are epoch ms of the database's clock."""

    id: int
    metastore: str
    route: str
    application_id: str
    started_at: int
    alive_until: int


class Residents:
    """Reads and writes COMPACTOR_RESIDENTS, and assigns batches to residents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def enter(self, metastore: str, route: str, application_id: str, alive_ms: int) -> int:
        """Registers an application that takes batches of ``route``; returns its id as a resident."""
        with self._database.write() as conn:
            now = now_ms(conn)
            row = {
                "METASTORE": metastore,
                "ROUTE": route,
                "APPLICATION_ID": application_id,
                "STARTED_AT": now,
                "ALIVE_UNTIL": now + alive_ms,
            }
            key = conn.execute(insert(RESIDENTS).values(**row)).inserted_primary_key
            if key is None:
                raise AssertionError("the database hands out RESIDENT_ID")
            return int(key[0])

    @retried
    def extend(self, resident: int, alive_ms: int) -> bool:
        """Keeps the resident alive for ``alive_ms`` from now; returns false if it already counts as dead."""
        with self._database.write() as conn:
            changed = update(RESIDENTS).where(_R.RESIDENT_ID == resident)
            return conn.execute(changed.values(ALIVE_UNTIL=now_ms(conn) + alive_ms)).rowcount == 1

    @retried
    def leave(self, resident: int) -> bool:
        """Removes the resident; returns false if it has an assigned batch, which it has to work on first."""
        with self._database.write() as conn:
            lock_state(conn)
            if _assigned_batch(conn, resident) is not None:
                return False
            conn.execute(delete(RESIDENTS).where(_R.RESIDENT_ID == resident))
            return True

    def assigned_batch(self, resident: int) -> int | None:
        """Returns the batch that is assigned to the resident and has not begun."""
        with self._database.read() as conn:
            return _assigned_batch(conn, resident)

    @retried
    def remove_dead(self, metastore: str) -> int:
        """Removes residents whose time has ended, and ends their planned batches; returns the number of residents."""
        with self._database.write() as conn:
            lock_state(conn)
            dead = _R.METASTORE == metastore, _R.ALIVE_UNTIL <= now_ms(conn)
            ids = conn.execute(select(_R.RESIDENT_ID).where(*dead)).scalars().all()
            if ids:
                theirs = update(BATCHES).where(_B.RESIDENT_ID.in_(ids), _B.STATE == _PLANNED)
                conn.execute(theirs.values(STATE=_DONE, ENDED_AT=now_ms(conn)))
                conn.execute(delete(RESIDENTS).where(_R.RESIDENT_ID.in_(ids)))
            return len(ids)

    def find(self, metastore: str) -> list[Resident]:
        """Returns the living residents, oldest first."""
        with self._database.read() as conn:
            query = select(RESIDENTS).where(_R.METASTORE == metastore, _R.ALIVE_UNTIL > now_ms(conn))
            return [
                Resident(
                    id=row.RESIDENT_ID,
                    metastore=row.METASTORE,
                    route=row.ROUTE,
                    application_id=row.APPLICATION_ID,
                    started_at=row.STARTED_AT,
                    alive_until=row.ALIVE_UNTIL,
                )
                for row in conn.execute(query.order_by(_R.RESIDENT_ID))
            ]


def idle_resident(conn: Connection, metastore: str, route: str) -> int | None:
    """Returns a living resident of this route that has no batch; None if all are busy."""
    busy = exists().where(_B.RESIDENT_ID == _R.RESIDENT_ID, _B.STATE.in_((_PLANNED, _RUNNING)))
    query = select(_R.RESIDENT_ID).where(
        _R.METASTORE == metastore, _R.ROUTE == route, _R.ALIVE_UNTIL > now_ms(conn), ~busy
    )
    resident = conn.execute(query.order_by(_R.RESIDENT_ID).limit(1)).scalar()
    return None if resident is None else int(resident)


def _assigned_batch(conn: Connection, resident: int) -> int | None:
    query = select(_B.BATCH_ID).where(_B.RESIDENT_ID == resident, _B.STATE == _PLANNED)
    batch_id = conn.execute(query.order_by(_B.BATCH_ID).limit(1)).scalar()
    return None if batch_id is None else int(batch_id)
