"""Batches: the queue entries that one Spark application works on, and their driver.

An entry in a batch is reserved until the reservation ends; the first driver that registers a batch gets it. An entry is in
one batch: a planner that takes entries whose reservation has ended releases the batch that had them.

A resident is an application that waits for further batches of its route, which saves the time of further starts. A
planner assigns a batch to a resident in the transaction that plans the batch. A resident leaves only if it has no
assigned batch, in one transaction too. So no batch is assigned to a resident that has left. A resident that does not
extend its time counts as dead.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, exists, func, insert, not_, select, update

from compactor.base.errors import LostClaim, NotFound, Refused
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts
from compactor.state.state_tables import BATCH_ENTRIES, BATCHES, RESIDENTS, lock_state

RESERVED_MS = 600_000  #: ``compactor.batch.reserved``
TASK_URL_LENGTH = 1024
_AT_ONCE = 100  #: ids in one statement
_B = BATCHES.c
_E = BATCH_ENTRIES.c
_R = RESIDENTS.c


class BatchState(enum.Enum):
    """States of a batch: planned, running, then done or released.

    Only ``Batches.renew`` goes back to planned.
    """

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    RELEASED = "released"  #: given back before it was done


_RESERVED = (BatchState.PLANNED.value, BatchState.RUNNING.value)  #: states in which the entries of a batch are reserved
#: A batch that nobody has launched.
_UNLAUNCHED = (_B.STATE == BatchState.PLANNED.value, _B.APPLICATION_ID.is_(None), _B.RESIDENT_ID.is_(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerTask:
    """The task of a scheduler that submits a batch: its name within the run that planned the batch."""

    run: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One row with its entries in the order of their ids. Times are epoch ms of the database's clock."""

    id: int
    metastore: str
    pool: str | None
    queue: str | None
    entry_ids: tuple[int, ...]
    state: BatchState
    attempt: int  #: number of times that a driver has registered it
    reserved_until: int
    planned_at: int
    read_at: int  #: time of this reading; the batch is reserved while ``reserved_until`` is later
    conf: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    driver: str | None = None
    application_id: str | None = None
    route: str | None = None
    resident: int | None = None  #: the running application that takes it; no other one is started
    tracking_url: str | None = None  #: of Spark's own page, while the application runs
    log_url: str | None = None  #: of the driver's output
    task_url: str | None = None  #: of the scheduler's task that submitted it, with its log
    scheduler_task: SchedulerTask | None = None  #: the task that a scheduler will start for it
    started_at: int | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """An application that is alive. Times are epoch ms of the database's clock."""

    id: int
    metastore: str
    route: str
    application_id: str
    started_at: int
    alive_until: int


class Batches:
    """Reads and writes batches, their entries, and residents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def plan(
        self,
        metastore: str,
        pool: str | None,
        queue: str | None,
        entry_ids: Sequence[int],
        conf: Mapping[str, str],
        *,
        route: str | None = None,
        task: SchedulerTask | None = None,
        reserved_ms: int = RESERVED_MS,
    ) -> int:
        """Reserves these entries as one batch and returns its id.

        Batches whose reservation of one has ended are released.

        Args:
            route: digest of the place where it runs; an idle resident of that route gets the batch.
            task: the scheduler's task that will submit it.

        Raises:
            LostClaim: another planner has reserved one of the entries meanwhile.
            Refused: there are no entries.
        """
        if not entry_ids:
            raise Refused("a batch needs at least one entry")
        with self._database.write() as conn:
            lock_state(conn)
            if taken := sorted(set(entry_ids) & _reserved(conn, metastore)):
                raise LostClaim(f"entries {', '.join(map(str, taken))} of metastore {metastore} are in another batch")
            now = now_ms(conn)
            _release_expired(conn, metastore, entry_ids, now)
            row = {
                "METASTORE": metastore,
                "POOL": pool,
                "QUEUE": queue,
                "CONF": json.dumps(dict(conf), sort_keys=True),
                "ROUTE": route,
                "RESIDENT_ID": None if route is None else _idle_resident(conn, metastore, route),
                "STATE": BatchState.PLANNED.value,
                "ATTEMPT": 0,
                "RESERVED_UNTIL": now + reserved_ms,
                "PLANNED_AT": now,
                "SCHEDULER_RUN": None if task is None else task.run,
                "SCHEDULER_TASK": None if task is None else task.name,
            }
            key = conn.execute(insert(BATCHES).values(**row)).inserted_primary_key
            if key is None:
                raise AssertionError("the database hands out BATCH_ID")
            batch_id = int(key[0])
            members = [{"BATCH_ID": batch_id, "ENTRY_ID": entry_id} for entry_id in dict.fromkeys(entry_ids)]
            conn.execute(insert(BATCH_ENTRIES), members)
            return batch_id

    def reserved(self, metastore: str) -> set[int]:
        """Returns the entries of planned and running batches whose reservation has not ended."""
        with self._database.read() as conn:
            return _reserved(conn, metastore)

    def list_unlaunched(self, metastore: str) -> list[Batch]:
        """Returns the batches that wait for the task of a scheduler, also if their reservation has ended."""
        query = select(_B.BATCH_ID).where(_B.METASTORE == metastore, _B.SCHEDULER_RUN.is_not(None), *_UNLAUNCHED)
        return self._list(query)

    def list_launched(self, metastore: str) -> list[Batch]:
        """Returns the batches of schedulers that an application has, and whose reservation has not ended."""
        with self._database.read() as conn:
            now = now_ms(conn)
        is_launched = not_(and_(*_UNLAUNCHED)), _B.STATE.in_(_RESERVED), _B.RESERVED_UNTIL > now
        return self._list(
            select(_B.BATCH_ID).where(_B.METASTORE == metastore, _B.SCHEDULER_RUN.is_not(None), *is_launched)
        )

    def list_of_run(self, metastore: str, run: str) -> list[Batch]:
        """Returns the batches that a run of a scheduler has planned, in this order."""
        return self._list(select(_B.BATCH_ID).where(_B.METASTORE == metastore, _B.SCHEDULER_RUN == run))

    def _list(self, query: Select[int]) -> list[Batch]:
        with self._database.read() as conn:
            return [_batch(conn, batch_id) for batch_id in conn.execute(query.order_by(_B.BATCH_ID)).scalars().all()]

    @retried
    def keep(self, batch_id: int, reserved_ms: int) -> bool:
        """Reserves a batch that nobody has launched for ``reserved_ms`` from now.

        It does so also if its reservation has ended.

        Returns false if it was launched or given back, or if another batch has its entries.
        """
        with self._database.write() as conn:
            lock_state(conn)
            waiting = update(BATCHES).where(_B.BATCH_ID == batch_id, *_UNLAUNCHED)
            return conn.execute(waiting.values(RESERVED_UNTIL=now_ms(conn) + reserved_ms)).rowcount == 1

    @retried
    def forget_task(self, batch_id: int) -> bool:
        """Releases a batch that nobody has launched, and forgets the task that should have launched it.

        Returns false if it was launched.
        """
        with self._database.write() as conn:
            lock_state(conn)
            waiting = update(BATCHES).where(_B.BATCH_ID == batch_id, *_UNLAUNCHED)
            values = {
                "STATE": BatchState.RELEASED.value,
                "ENDED_AT": now_ms(conn),
                "SCHEDULER_RUN": None,
                "SCHEDULER_TASK": None,
            }
            return conn.execute(waiting.values(values)).rowcount == 1

    def count_by_pool(self, metastore: str) -> Counter[str | None]:
        """Counts the planned and running batches of each pool whose reservation has not ended."""
        query = select(_B.POOL).where(_B.METASTORE == metastore, _B.STATE.in_(_RESERVED))
        with self._database.read() as conn:
            return Counter(conn.execute(query.where(_B.RESERVED_UNTIL > now_ms(conn))).scalars())

    @retried
    def register(self, batch_id: int, driver: str, reserved_ms: int) -> bool:
        """Takes the batch for ``driver``; returns false if another driver has it.

        Raises:
            NotFound: there is no such batch.
        """
        with self._database.write() as conn:
            now = now_ms(conn)
            guarded = update(BATCHES).where(_B.BATCH_ID == batch_id, _B.STATE == BatchState.PLANNED.value)
            values = {
                "STATE": BatchState.RUNNING.value,
                "DRIVER": driver,
                "ATTEMPT": _B.ATTEMPT + 1,
                "RESERVED_UNTIL": now + reserved_ms,
                "STARTED_AT": now,
            }
            if conn.execute(guarded.values(values)).rowcount == 1:
                return True
            batch = _batch(conn, batch_id)
            return batch.state is BatchState.RUNNING and batch.driver == driver

    @retried
    def extend(self, batch_id: int, driver: str, reserved_ms: int) -> bool:
        """Reserves the batch for ``reserved_ms`` from now; returns false if another driver has it."""
        with self._database.write() as conn:
            changed = update(BATCHES).where(*_run_by(batch_id, driver))
            return conn.execute(changed.values(RESERVED_UNTIL=now_ms(conn) + reserved_ms)).rowcount == 1

    @retried
    def set_application(self, batch_id: int, application_id: str, reserved_ms: int) -> None:
        """Records the name of the launched application, and extends the reservation while it starts.

        Raises:
            NotFound: there is no such batch.
        """
        with self._database.write() as conn:
            values = {"APPLICATION_ID": application_id, "RESERVED_UNTIL": now_ms(conn) + reserved_ms}
            if conn.execute(update(BATCHES).where(_B.BATCH_ID == batch_id).values(values)).rowcount != 1:
                raise _unknown(batch_id)

    @retried
    def describe(
        self, batch_id: int, driver: str, *, application_id: str | None, tracking_url: str | None, log_url: str | None
    ) -> None:
        """Records the application in which ``driver`` runs, and the addresses of Spark's page and of the log.

        It changes nothing if another driver has the batch, and never replaces the name that a launcher has recorded.
        """
        values = {
            "APPLICATION_ID": func.coalesce(_B.APPLICATION_ID, application_id),
            "TRACKING_URL": tracking_url,
            "LOG_URL": log_url,
        }
        with self._database.write() as conn:
            conn.execute(update(BATCHES).where(*_run_by(batch_id, driver)).values(values))

    @retried
    def set_task(self, batch_id: int, url: str) -> None:
        """Records the address of the scheduler's task that has the batch, unless the address is too long."""
        if len(url) <= TASK_URL_LENGTH:
            with self._database.write() as conn:
                conn.execute(update(BATCHES).where(_B.BATCH_ID == batch_id).values(TASK_URL=url))

    @retried
    def renew(self, batch_id: int, reserved_ms: int) -> bool:
        """Plans the batch again once its driver is gone: the batch has ended, or its reservation has.

        Returns:
            False if nothing changed: a driver or launcher has the batch, or another batch has one of its entries.

        Raises:
            NotFound: there is no such batch.
        """
        with self._database.write() as conn:
            lock_state(conn)
            batch, now = _batch(conn, batch_id), now_ms(conn)
            if batch.state.value in _RESERVED and batch.reserved_until > now:
                return False
            if _reserved(conn, batch.metastore) & set(batch.entry_ids):
                return False
            _release_expired(conn, batch.metastore, batch.entry_ids, now)
            values = {
                "STATE": BatchState.PLANNED.value,
                "DRIVER": None,
                "APPLICATION_ID": None,
                "TRACKING_URL": None,
                "LOG_URL": None,
                "RESIDENT_ID": None,
                "RESERVED_UNTIL": now + reserved_ms,
                "STARTED_AT": None,
                "ENDED_AT": None,
            }
            conn.execute(update(BATCHES).where(_B.BATCH_ID == batch_id).values(values))
            return True

    @retried
    def finish(self, batch_id: int, driver: str | None = None) -> bool:
        """Ends the batch and frees its entries; with ``driver``, only if that driver has the batch.

        Returns false if nothing changed.
        """
        with self._database.write() as conn:
            condition = [_B.BATCH_ID == batch_id, _B.STATE.in_(_RESERVED)]
            if driver is not None:
                condition.append(_B.DRIVER == driver)
            changed = update(BATCHES).where(*condition)
            return conn.execute(changed.values(STATE=BatchState.DONE.value, ENDED_AT=now_ms(conn))).rowcount == 1

    @retried
    def release(self, batch_id: int, driver: str | None = None) -> bool:
        """Takes the batch from its driver and frees its entries.

        With ``driver``, only if that driver has the batch.

        Returns false if nothing changed.
        """
        with self._database.write() as conn:
            condition = [_B.BATCH_ID == batch_id, _B.STATE.in_(_RESERVED)]
            if driver is not None:
                condition.append(_B.DRIVER == driver)
            changed = update(BATCHES).where(*condition)
            values = {"STATE": BatchState.RELEASED.value, "ENDED_AT": now_ms(conn)}
            return conn.execute(changed.values(values)).rowcount == 1

    def get(self, batch_id: int) -> Batch:
        """Returns one batch.

        Raises:
            NotFound: there is no batch with this id.
        """
        with self._database.read() as conn:
            return _batch(conn, batch_id)

    def tracking_url(self, metastore: str, entry_ids: Collection[int]) -> str | None:
        """Returns Spark's page of the newest application with one of these entries, if it gave one."""
        joined = BATCHES.join(BATCH_ENTRIES, _E.BATCH_ID == _B.BATCH_ID)
        mine = (_B.METASTORE == metastore, _E.ENTRY_ID.in_(entry_ids), _B.TRACKING_URL.is_not(None))
        query = select(_B.TRACKING_URL).select_from(joined).where(*mine).order_by(_B.BATCH_ID.desc()).limit(1)
        with self._database.read() as conn:
            url: str | None = conn.execute(query).scalar()
        return url

    def find(self, metastore: str, *, states: Collection[BatchState] | None = None, limit: int = 100) -> list[Batch]:
        """Returns the batches of one metastore, newest first."""
        query = select(_B.BATCH_ID).where(_B.METASTORE == metastore).order_by(_B.BATCH_ID.desc()).limit(limit)
        if states is not None:
            query = query.where(_B.STATE.in_([state.value for state in states]))
        with self._database.read() as conn:
            return [_batch(conn, batch_id) for batch_id in conn.execute(query).scalars().all()]

    @retried
    def add_resident(self, metastore: str, route: str, application_id: str, alive_ms: int) -> int:
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
    def extend_resident(self, resident: int, alive_ms: int) -> bool:
        """Keeps the resident alive for ``alive_ms`` from now; returns false if it already counts as dead."""
        with self._database.write() as conn:
            changed = update(RESIDENTS).where(_R.RESIDENT_ID == resident)
            return conn.execute(changed.values(ALIVE_UNTIL=now_ms(conn) + alive_ms)).rowcount == 1

    @retried
    def remove_resident(self, resident: int) -> bool:
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
    def remove_dead_residents(self, metastore: str) -> int:
        """Removes residents whose time has ended, and ends their planned batches.

        Returns the number of residents.
        """
        with self._database.write() as conn:
            lock_state(conn)
            dead = _R.METASTORE == metastore, _R.ALIVE_UNTIL <= now_ms(conn)
            ids = conn.execute(select(_R.RESIDENT_ID).where(*dead)).scalars().all()
            if ids:
                theirs = update(BATCHES).where(_B.RESIDENT_ID.in_(ids), _B.STATE == BatchState.PLANNED.value)
                conn.execute(theirs.values(STATE=BatchState.DONE.value, ENDED_AT=now_ms(conn)))
                conn.execute(delete(RESIDENTS).where(_R.RESIDENT_ID.in_(ids)))
            return len(ids)

    def residents(self, metastore: str) -> list[Resident]:
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


def _release_expired(conn: Connection, metastore: str, entry_ids: Sequence[int], now: int) -> None:
    """Releases the batches that have one of the entries although their reservation has ended."""
    expired = (_B.METASTORE == metastore, _B.STATE.in_(_RESERVED), _B.RESERVED_UNTIL <= now)
    members = select(_B.BATCH_ID).join(BATCH_ENTRIES, _B.BATCH_ID == BATCH_ENTRIES.c.BATCH_ID).where(*expired)
    ids: set[int] = set()
    for part in in_parts(entry_ids, _AT_ONCE):
        ids.update(conn.execute(members.where(BATCH_ENTRIES.c.ENTRY_ID.in_(part))).scalars())
    for part in in_parts(sorted(ids), _AT_ONCE):
        release = update(BATCHES).where(_B.BATCH_ID.in_(part))
        conn.execute(release.values(STATE=BatchState.RELEASED.value, ENDED_AT=now))


def _reserved(conn: Connection, metastore: str) -> set[int]:
    query = (
        select(BATCH_ENTRIES.c.ENTRY_ID)
        .join(BATCHES, _B.BATCH_ID == BATCH_ENTRIES.c.BATCH_ID)
        .where(_B.METASTORE == metastore, _B.STATE.in_(_RESERVED), _B.RESERVED_UNTIL > now_ms(conn))
    )
    return set(conn.execute(query).scalars())


def _run_by(batch_id: int, driver: str) -> tuple[ColumnElement[bool], ...]:
    return (_B.BATCH_ID == batch_id, _B.STATE == BatchState.RUNNING.value, _B.DRIVER == driver)


def _batch(conn: Connection, batch_id: int) -> Batch:
    row = conn.execute(select(BATCHES).where(_B.BATCH_ID == batch_id)).first()
    if row is None:
        raise _unknown(batch_id)
    members = select(BATCH_ENTRIES.c.ENTRY_ID).where(BATCH_ENTRIES.c.BATCH_ID == batch_id)
    return Batch(
        id=row.BATCH_ID,
        metastore=row.METASTORE,
        pool=row.POOL,
        queue=row.QUEUE,
        entry_ids=tuple(conn.execute(members.order_by(BATCH_ENTRIES.c.ENTRY_ID)).scalars()),
        state=BatchState(row.STATE),
        attempt=row.ATTEMPT,
        reserved_until=row.RESERVED_UNTIL,
        planned_at=row.PLANNED_AT,
        read_at=now_ms(conn),
        conf=MappingProxyType(json.loads(row.CONF)),
        driver=row.DRIVER,
        application_id=row.APPLICATION_ID,
        route=row.ROUTE,
        resident=row.RESIDENT_ID,
        tracking_url=row.TRACKING_URL,
        log_url=row.LOG_URL,
        task_url=row.TASK_URL,
        scheduler_task=_scheduler_task(row.SCHEDULER_RUN, row.SCHEDULER_TASK),
        started_at=row.STARTED_AT,
        ended_at=row.ENDED_AT,
    )


def _scheduler_task(run: str | None, name: str | None) -> SchedulerTask | None:
    return None if run is None or name is None else SchedulerTask(run=run, name=name)


def _unknown(batch_id: int) -> NotFound:
    return NotFound(f"batch {batch_id} is not in the state; look at the ids that the planner printed")


def _idle_resident(conn: Connection, metastore: str, route: str) -> int | None:
    """Returns a living resident of this route that has no batch; None if all are busy."""
    busy = exists().where(_B.RESIDENT_ID == _R.RESIDENT_ID, _B.STATE.in_(_RESERVED))
    query = select(_R.RESIDENT_ID).where(
        _R.METASTORE == metastore, _R.ROUTE == route, _R.ALIVE_UNTIL > now_ms(conn), ~busy
    )
    resident = conn.execute(query.order_by(_R.RESIDENT_ID).limit(1)).scalar()
    return None if resident is None else int(resident)


def _assigned_batch(conn: Connection, resident: int) -> int | None:
    query = select(_B.BATCH_ID).where(_B.RESIDENT_ID == resident, _B.STATE == BatchState.PLANNED.value)
    batch_id = conn.execute(query.order_by(_B.BATCH_ID).limit(1)).scalar()
    return None if batch_id is None else int(batch_id)
