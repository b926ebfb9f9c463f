"""Residents: applications that wait for further batches of their route, so that the cost of a start is paid once.

A planner gives a batch to a resident in the transaction that plans it, and a resident leaves only if it has been given
none: neither misses the other. A dead one is recognized by the end of its time.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, exists, insert, select, update

from compactor.database.clock import now_ms
from compactor.database.engine import Database
from compactor.database.retry import retried
from compactor.state.state_tables import BATCHES, RESIDENTS, alone

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
        """Registers an application to which batches of ``route`` may be given; returns its id here."""
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
        """Stops taking batches; returns false if one was given meanwhile, which has to be worked on first."""
        with self._database.write() as conn:
            alone(conn)
            if _given(conn, resident) is not None:
                return False
            conn.execute(delete(RESIDENTS).where(_R.RESIDENT_ID == resident))
            return True

    def given(self, resident: int) -> int | None:
        """Returns the batch that was given to the resident and has not begun."""
        with self._database.read() as conn:
            return _given(conn, resident)

    @retried
    def bury(self, metastore: str) -> int:
        """Forgets residents whose time has ended and frees their batches not yet begun; returns the number of residents."""
        with self._database.write() as conn:
            alone(conn)
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


def idle(conn: Connection, metastore: str, route: str) -> int | None:
    """Returns an idle, living resident of this route, so that no batch waits behind the work of another."""
    busy = exists().where(_B.RESIDENT_ID == _R.RESIDENT_ID, _B.STATE.in_((_PLANNED, _RUNNING)))
    query = select(_R.RESIDENT_ID).where(
        _R.METASTORE == metastore, _R.ROUTE == route, _R.ALIVE_UNTIL > now_ms(conn), ~busy
    )
    found = conn.execute(query.order_by(_R.RESIDENT_ID).limit(1)).scalar()
    return None if found is None else int(found)


def _given(conn: Connection, resident: int) -> int | None:
    query = select(_B.BATCH_ID).where(_B.RESIDENT_ID == resident, _B.STATE == _PLANNED)
    found = conn.execute(query.order_by(_B.BATCH_ID).limit(1)).scalar()
    return None if found is None else int(found)
