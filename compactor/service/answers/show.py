"""The rows of the show commands. Keys are the columns of Hive's SHOW statements in lower case, where Hive has them.

Ids are integers, times epoch milliseconds of the database's clock, None where nothing was ever set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from compactor.compaction.entry import Entity, Entry
from compactor.errors import BadSetting, Refused
from compactor.metastore.locks.lock_rows import LockRow, LockState
from compactor.service.roles.blockers import all_blocked
from compactor.service.site import Site
from compactor.settings.precedence import Settings

_OURS = "compactor-"
_STATES = {"o": "OPEN", "a": "ABORTED"}
_FREE = 4  #: parts of a worker id of ours that are no host: ``compactor``, role, process, number


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Something printable; its fields are the columns."""

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.columns()}

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(cls.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow(Row):
    """SHOW COMPACTIONS. ``duration`` in milliseconds, once it has ended."""

    compactionid: int
    dbname: str
    tabname: str
    partname: str | None
    type: str
    state: str
    workerhost: str | None
    workerid: str | None
    enqueuetime: int | None
    starttime: int | None
    duration: int | None
    hadoopjobid: str | None
    errormessage: str | None
    initiatorhost: str | None
    initiatorid: str | None
    poolname: str
    txnid: int | None
    nexttxnid: int | None
    committime: int | None
    highestwriteid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRow(CompactionRow):
    """A row of the history, what a bounded request left to the next one, and how many seconds a reader took to open what
    was read and what was made, as our state knows it (None: not measured; see ``service.batches.read_cost``)."""

    deltas_left: int = 0
    bytes_left: int = 0
    opening_before: float | None = None
    opening_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow(Row):
    """SHOW TRANSACTIONS, and the transaction's type and agent besides."""

    txnid: int
    state: str
    startedtime: int
    lastheartbeattime: int
    user: str
    host: str
    type: str
    agent_info: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockShown(Row):
    """SHOW LOCKS. ``lockid`` and ``blocked_by`` are ``external.internal``."""

    lockid: str
    database: str
    table: str | None
    partition: str | None
    lock_state: str
    blocked_by: str | None
    lock_type: str
    transaction_id: int
    last_heartbeat: int
    acquired_at: int | None
    user: str
    hostname: str
    agent_info: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockExtended(LockShown):
    """SHOW LOCKS ... EXTENDED: for how long it has been held, and who stands in the way of one that waits."""

    held_ms: int | None
    waits_for: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerRow(Row):
    """A transaction that keeps the cleaner away from one compaction; ``age_ms`` since it was opened."""

    compactionid: int
    table: str
    bytes_waiting: int
    txnid: int
    type: str
    user: str
    host: str
    agent_info: str | None
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow(Row):
    """A setting with the value in force and the source that it comes from."""

    key: str
    value: str
    source: str
    unit: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow(Row):
    """What one pass of the initiator decided, as our state remembers it."""

    at: int | None
    table: str
    outcome: str
    because: str
    numbers: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFilter:
    """What SHOW COMPACTIONS may be asked for; None asks for all. ``type`` and ``state`` in the words of its columns.

    ``pool`` ``default`` means rows without a pool, as they are shown (in Hive it matches nothing).
    """

    id: int | None = None
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    pool: str | None = None
    type: str | None = None
    state: str | None = None

    def takes(self, row: CompactionRow) -> bool:
        pairs = (
            (self.id, row.compactionid),
            (self.database, row.dbname),
            (self.table, row.tabname),
            (self.partition, row.partname),
            (self.pool, row.poolname),
            (_folded(self.type), _folded(row.type)),
            (_folded(self.state), _folded(row.state)),
        )
        return all(wanted is None or wanted == found for wanted, found in pairs)


def _folded(text: str | None) -> str | None:
    return None if text is None else text.strip().lower()


def compactions(
    site: Site, wanted: CompactionFilter | None = None, *, order: str = "", limit: int | None = None
) -> list[CompactionRow]:
    """The queue and the history in Hive's order: what happened last first, then by the time of the request.

    ``order`` is that of Hive's statement instead: columns with ``asc`` or ``desc``, separated by commas. What is not set
    comes after all that is.

    Raises:
        BadSetting: ``order`` names a column that there is not.
    """
    sorts = _orders(order)
    entries = [*site.metastore.entries.queue(), *site.metastore.entries.history()]
    rows = [compaction_row(entry) for entry in sorted(entries, key=_latest)]
    rows = [row for row in rows if wanted is None or wanted.takes(row)]
    for column, descends in reversed(sorts):
        value = attrgetter(column)
        there = [row for row in rows if value(row) is not None]
        rows = sorted(there, key=value, reverse=descends) + [row for row in rows if value(row) is None]
    return rows[:limit]


def _orders(text: str) -> list[tuple[str, bool]]:
    """``column [asc|desc], ...`` -> columns, and whether the largest comes first."""
    found: list[tuple[str, bool]] = []
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        column, _, direction = part.partition(" ")
        if column not in CompactionRow.columns() or direction.strip() not in ("", "asc", "desc"):
            raise BadSetting(
                f"order {part!r}: expected a column and asc or desc; columns are {', '.join(CompactionRow.columns())}"
            )
        found.append((column, direction.strip() == "desc"))
    return found


def history(site: Site, entity: Entity | None = None) -> list[EndedRow]:
    """The history alone, of one table or partition or of all, newest first."""
    entries = site.metastore.entries.history()
    if entity is not None:
        entries = [e for e in entries if (e.entity.database, e.entity.table) == (entity.database, entity.table)]
    if entity is not None and entity.partition is not None:
        entries = [e for e in entries if e.entity.partition == entity.partition]
    left = site.state.runs.left(site.name) if site.state is not None else {}
    openings = site.state.runs.openings(site.name) if site.state is not None else {}
    rows = []
    for entry in entries:
        deltas, size = left.get(entry.id, (0, 0))
        before, after = openings.get(entry.id, (None, None))
        rows.append(
            EndedRow(
                **compaction_row(entry).to_json(),  # type: ignore[arg-type]  # columns of the row that it is
                deltas_left=deltas,
                bytes_left=size,
                opening_before=before,
                opening_after=after,
            )
        )
    return rows


def _latest(entry: Entry) -> tuple[int, int, int]:
    last = max(entry.end or 0, entry.start or 0, entry.commit_time or 0)
    return (-last, entry.enqueue_time or 0, entry.id)


def compaction_row(entry: Entry) -> CompactionRow:
    """One entry of the queue or the history as SHOW COMPACTIONS has it."""
    ended = entry.end is not None and entry.start is not None
    return CompactionRow(
        compactionid=entry.id,
        dbname=entry.entity.database,
        tabname=entry.entity.table,
        partname=entry.entity.partition,
        type=entry.type.label,
        state=entry.state.label,
        workerhost=_host(entry.worker_id),
        workerid=entry.worker_id,
        enqueuetime=entry.enqueue_time,
        starttime=entry.start,
        duration=(entry.end or 0) - (entry.start or 0) if ended else None,
        hadoopjobid=entry.job_id,
        errormessage=entry.error,
        initiatorhost=_initiator_host(entry.initiator_id),
        initiatorid=entry.initiator_id,
        poolname=entry.pool or "default",
        txnid=entry.txn_id,
        nexttxnid=entry.next_txn_id,
        committime=entry.commit_time,
        highestwriteid=entry.highest_write_id,
    )


def _host(worker: str | None) -> str | None:
    """The host in a worker id: ``compactor-<role>-<host>-<pid>-<number>`` of ours, ``<host>-<thread>`` of Hive."""
    if not worker:
        return None
    if worker.startswith(_OURS):
        parts = worker.split("-")
        return "-".join(parts[2:-2]) if len(parts) > _FREE else None
    return worker.rpartition("-")[0] or worker


def _initiator_host(initiator: str | None) -> str | None:
    """``compactor-<host>-<who>`` of ours, ``<host>-<thread>`` of Hive."""
    return initiator.removeprefix(_OURS).rpartition("-")[0] or None if initiator else None


def transactions(site: Site) -> list[TransactionRow]:
    """Open and aborted transactions, oldest first; committed ones only stay in TXNS for a while and are left out."""
    return [
        TransactionRow(
            txnid=txn.id,
            state=_STATES[txn.state],
            startedtime=txn.started,
            lastheartbeattime=txn.last_heartbeat,
            user=txn.user,
            host=txn.host,
            type=txn.type.name,
            agent_info=txn.agent,
        )
        for txn in site.metastore.transactions.unfinished()
    ]


def locks(
    site: Site, database: str | None = None, table: str | None = None, partition: str | None = None
) -> list[LockShown]:
    """The locks of a database, a table, a partition (its stored name) or of all, in Hive's order: acquired first, then
    the weaker kinds, then as they were asked for. Locks of what is above or below don't show, as in Hive.
    """
    return [_lock(row) for row in ordered(site.metastore.locks.show(database, table, partition))]


def locks_extended(
    site: Site, database: str | None = None, table: str | None = None, partition: str | None = None
) -> list[LockExtended]:
    """The same with EXTENDED."""
    now = site.metastore.now_ms()
    everyone = {(row.id, row.internal_id): row for row in site.metastore.locks.show()}
    return [
        LockExtended(
            **_lock(row).to_json(),  # type: ignore[arg-type]  # its fields are its columns
            held_ms=None if row.acquired_at is None else max(0, now - row.acquired_at),
            waits_for=str(everyone[row.blocked_by]) if row.blocked_by in everyone else None,
        )
        for row in ordered(site.metastore.locks.show(database, table, partition))
    ]


def ordered(rows: Iterable[LockRow]) -> list[LockRow]:
    """Hive's order of SHOW LOCKS."""
    return sorted(rows, key=lambda r: (r.state is not LockState.ACQUIRED, r.type.strength, r.id, r.internal_id))


def foreign_locks(rows: Iterable[LockRow]) -> list[LockShown]:
    """Locks of a lock manager that is not the metastore, in the same form."""
    return [_lock(row) for row in ordered(rows)]


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
        last_heartbeat=row.last_heartbeat,
        acquired_at=row.acquired_at,
        user=row.user,
        hostname=row.host,
        agent_info=row.agent,
    )


def blockers(site: Site) -> list[BlockerRow]:
    """Who keeps the cleaner away from what, and how many bytes stand in those directories."""
    return [
        BlockerRow(
            compactionid=blocked.entry.id,
            table=str(blocked.entry.entity),
            bytes_waiting=blocked.bytes_waiting,
            txnid=blocker.txn,
            type=blocker.type,
            user=blocker.user,
            host=blocker.host,
            agent_info=blocker.agent,
            age_ms=blocker.age_ms,
        )
        for blocked in all_blocked(site)
        for blocker in blocked.by
    ]


def settings(of: Settings) -> list[SettingRow]:
    """Every setting that Compactor knows."""
    return [SettingRow(**explained._asdict()) for explained in of.explain()]


def decisions(site: Site) -> list[DecisionRow]:
    """What the initiator's newest pass decided.

    Raises:
        Refused: this site keeps no state of its own.
    """
    if site.state is None:
        raise Refused(
            f"metastore {site.name}: decisions are kept in our own state and there is none in mode observe without a "
            "state_url; `compactor explain DB.TABLE` decides anew"
        )
    return [
        DecisionRow(
            at=decided.at,
            table=str(decided.entity),
            outcome=decided.outcome,
            because=decided.because,
            numbers=decided.numbers,
        )
        for decided in site.state.decisions.last_pass(site.name)
    ]
