"""The compaction queue: request, claim, record, commit, clean, and the history.

Every change is a guarded UPDATE or DELETE along ``compaction.states.NEXT``; one that meets no row raises LostClaim.
"""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union,
    update,
)

import compactor
from compactor.acid import partition_names
from compactor.compaction import states
from compactor.compaction.entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.database.clock import now_ms
from compactor.database.engine import Database
from compactor.database.prepared import send, send_all
from compactor.database.retry import retried
from compactor.errors import DatabaseUnavailable, LostClaim, NotFound, NotSupported, Refused, TryAgain
from compactor.ids import TxnId, WriteId
from compactor.metastore.catalog.locations import same_place
from compactor.metastore.mutex import schedule_alone
from compactor.metastore.queue import properties_text
from compactor.metastore.queue import rows as entries
from compactor.metastore.queue.rows import CC, CQ
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.entity import entity_is
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    NEXT_COMPACTION_QUEUE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)
from compactor.metastore.transactions import components
from compactor.metastore.transactions import rows as txn_rows
from compactor.metastore.transactions.write_ids import insert_components, next_write_id

_log = logging.getLogger(__name__)
WORKER_PREFIX = "compactor-"  #: a restarting Hive takes back rows whose worker id begins with its host name
#: Hive's own words (``AbortCompactionFunction``), spelling included.
ABORT_MESSAGE = "Compaction Aborted by Abort Comapction request."
_PROPERTIES_LENGTH = 2048  #: CQ_TBLPROPERTIES
#: Types that only other table formats have (Iceberg's in a newer Hive) are nobody's business here.
_TYPES = tuple(kind.value for kind in CompactionType)
_KNOWN_QUEUED = CQ.CQ_TYPE.in_([literal(kind) for kind in _TYPES])  # a plain list would be written out at each call
_KNOWN_ENDED = CC.CC_TYPE.in_(_TYPES)

# Made once, since making a statement takes several times as long as running it.
_WAITING = select(COMPACTION_QUEUE).where(CQ.CQ_STATE == State.INITIATED.value, _KNOWN_QUEUED).order_by(CQ.CQ_ID)
_CLAIMED = update(COMPACTION_QUEUE).where(CQ.CQ_ID == bindparam("of_id"), CQ.CQ_STATE == State.INITIATED.value)
_OF_ID = update(COMPACTION_QUEUE).where(CQ.CQ_ID == bindparam("of_id"))
_WORKED_ON = _OF_ID.where(CQ.CQ_STATE == State.WORKING.value, CQ.CQ_WORKER_ID == bindparam("of_worker"))


@cache
def _oldest(dialect: Dialect, *, of_pool: bool) -> Select[Any]:
    """The oldest request that nobody holds, of a pool or of none."""
    waited = CQ.CQ_ENQUEUE_TIME < bindparam("before")
    chosen = CQ.CQ_POOL_NAME == bindparam("of_pool") if of_pool else or_(CQ.CQ_POOL_NAME.is_(None), waited)
    return dialect.unlocked(_WAITING.where(chosen).with_only_columns(CQ.CQ_ID).limit(1))


@cache
def _row_of(dialect: Dialect) -> Select[Any]:
    return dialect.for_update(select(COMPACTION_QUEUE).where(CQ.CQ_ID == bindparam("of_id")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """Aborted transactions that wrote into one entity and are not forgotten yet."""

    count: int
    oldest_start: int  #: epoch ms at which the oldest of them was opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker says of an entry that it has claimed: see ``Compactions.record``."""

    entry: Entry
    worker_id: str
    txn: TxnId
    run_as: str | None
    highest_write_id: WriteId
    component: bool = True
    job: str | None = None  #: the application that works on it, of which CQ_HADOOP_JOB_ID takes 32 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a worker is about to name: its entry, and where that was read."""

    entry: Entry
    worker_id: str
    txn: TxnId
    table_id: int
    partition_id: int | None
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """What ``committing_all`` proves while its body runs: the entry is ours and its transaction is open."""

    entry_id: int
    txn: TxnId
    highest_write_id: WriteId


class Compactions:
    """COMPACTION_QUEUE and COMPLETED_COMPACTIONS."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect
        self._rows = entries.Rows(dialect)

    @property
    def rows(self) -> entries.Rows:
        """How rows of this schema are read."""
        return self._rows

    def keep_in(self, beyond: entries.Beyond) -> None:
        """Where the values of columns go that this schema has not. Without it such a queue is read, not changed."""
        self._rows.beyond = beyond

    def forget_kept(self, ids: Collection[int]) -> None:
        """Drop what is kept elsewhere of entries that have left the history."""
        self._rows.forget(ids)

    # --- ask ----------------------------------------------------------------------------------------------------

    def request(self, request: Request) -> int:
        """Put a request into the queue and return its id.

        Raises:
            Refused: one is queued or worked on, or a finished one covers all that was written (Hive's
                ``CompactFunction``), or its properties are too long.
        """
        (answer,) = self.request_all([request])
        if isinstance(answer, Refused):
            raise answer
        return answer

    @retried
    def request_all(self, requests: Sequence[Request]) -> list[int | Refused]:
        """Put requests into the queue in one transaction: the id of each, or why ``request`` would not take it.

        What it costs in statements depends on how many tables they are about, not on how many requests there are. Of
        two about the same entity the second is refused.
        """
        properties = [
            properties_text.encode(request.properties) if request.properties else None for request in requests
        ]
        with self._changing() as conn:
            schedule_alone(conn, self._dialect)
            # before anything is looked at, since the counter's row keeps two askers of ours apart on every database
            counter = select(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT)
            first = int(conn.execute(self._dialect.for_update(counter)).scalar_one())
            known = _Duplicates(conn, [request.entity for request in requests])
            now = now_ms(conn)
            answers: list[int | Refused] = []
            rows: list[dict[str, object]] = []
            for request, encoded in zip(requests, properties, strict=True):
                entry_id = first + len(rows)
                refused = self._unknown_type(request) or _too_long(request, encoded) or known.refusal(request.entity)
                if refused is None:
                    rows.append(_request_row(entry_id, request, encoded, now))
                    known.add(request.entity, entry_id)
                answers.append(entry_id if refused is None else refused)
            if rows:
                conn.execute(update(NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=first + len(rows)))
                # anew: the number may have been drawn for a request that was then not entered
                self._rows.keep({first + number: row for number, row in enumerate(rows)}, anew=True)
                conn.execute(insert(COMPACTION_QUEUE), [self._rows.stored(COMPACTION_QUEUE, row) for row in rows])
            return answers

    @retried
    def abort_request(self, entry_id: int) -> None:
        """Take a request off the queue that nobody works on yet.

        Raises:
            NotFound: there is no such entry in the queue.
            Refused: somebody works on it already.
        """
        with self._changing() as conn:
            entry = self._locked(conn, entry_id)
            if entry is None:
                raise NotFound(f"compaction {entry_id} is not in the queue; look at `compactor show compactions`")
            if entry.state is not State.INITIATED:
                raise Refused(
                    f"compaction {entry_id} is {entry.state.label}; only one that is initiated, or that our worker has, "
                    "can be aborted"
                )
            self._end(conn, entry, State.ABORTED, ABORT_MESSAGE)

    @retried
    def abort_running(self, entry_id: int, first: Callable[[TxnId, TxnId], object] | None = None) -> State:
        """Stop a worker of ours: its transaction is aborted and the row marked by its message, both or neither.

        From then on the worker can neither record nor name nor commit. One that is in its critical section holds the
        transaction's row: it commits first, or finds itself aborted, never half of it. The row stays until nothing of
        it is in storage: its worker then ends it, or repair does (``end_aborted``, ``requeue``). A worker that has
        recorded no transaction has staged nothing either; its row goes to the history at once.

        Args:
            first: does what must be done before its locks are gone, with its transaction and the newest one; it must not
                touch a database.

        Returns:
            ABORTED, or WORKING where storage has to be tidied first.

        Raises:
            NotFound: there is no such entry in the queue.
            Refused: nobody works on it, or a worker of Hive's own does.
        """
        with self._changing() as conn:
            seen = self._seen(conn, entry_id)
            own = () if seen is None else self._transactions_of(conn, seen)
            open_ones = [txn for txn in own if (row := txn_rows.locked_row(conn, self._dialect, txn)) and row.is_open]
            entry = self._locked(conn, entry_id)
            if entry is None:
                raise NotFound(f"compaction {entry_id} is not in the queue; look at `compactor show compactions`")
            _must_be_stoppable(entry)
            if seen is None or (entry.worker_id, entry.txn_id) != (seen.worker_id, seen.txn_id):
                raise TryAgain(f"compaction {entry_id} began its transaction, or changed hands, meanwhile")
            for txn in open_ones:
                if first is not None:
                    first(txn, self._dialect.newest(conn))
                txn_rows.mark_aborted(conn, self._dialect, txn, ABORT_MESSAGE)
            if entry.txn_id is None:
                self._end(conn, entry, State.ABORTED, ABORT_MESSAGE)
                return State.ABORTED
            self._change(conn, entry, {"CQ_ERROR_MESSAGE": ABORT_MESSAGE})
            return State.WORKING

    @retried
    def end_aborted(self, entry_id: int, worker_id: str) -> bool:
        """End what ``abort_running`` marked, once nothing of it is in storage; False where there is no such row."""
        with self._changing() as conn:
            entry = self._locked(conn, entry_id)
            if entry is None or entry.worker_id != worker_id or not is_being_aborted(entry):
                return False
            self._end(conn, entry, State.ABORTED, ABORT_MESSAGE)
            return True

    @retried
    def did_not_initiate(self, entity: Entity, message: str, *, initiator: str | None = None) -> int:
        """Write into the history that nothing was requested and why; the id of that row."""
        with self._changing() as conn:
            entry_id = self._draw(conn)
            now = now_ms(conn)
            row = {
                "CC_ID": entry_id,
                "CC_DATABASE": entity.database,
                "CC_TABLE": entity.table,
                "CC_PARTITION": entity.partition,
                "CC_STATE": State.DID_NOT_INITIATE.value,
                "CC_TYPE": CompactionType.MINOR.value,  # as in Hive
                "CC_ENQUEUE_TIME": now,
                "CC_START": now,
                "CC_END": now,
                "CC_ERROR_MESSAGE": message,
                "CC_INITIATOR_ID": initiator,
                "CC_INITIATOR_VERSION": compactor.__version__,
            }
            self._rows.keep({entry_id: row}, anew=True)
            conn.execute(insert(COMPLETED_COMPACTIONS).values(**self._rows.stored(COMPLETED_COMPACTIONS, row)))
            return entry_id

    # --- work ---------------------------------------------------------------------------------------------------

    @retried
    def claim(
        self,
        worker_id: str,
        worker_version: str,
        *,
        pool: str | None = None,
        pool_timeout_ms: int,
        ids: Collection[int] | None = None,
    ) -> Entry | None:
        """Take the oldest request that waits: i -> w; None when there is none.

        A worker of a pool takes that pool's; the default one takes those without a pool and those that waited for
        their pool longer than ``pool_timeout_ms``. ``ids`` are the entries of a batch; then they alone count.

        Raises:
            Refused: the worker id does not begin with ``compactor-``.
        """
        _must_be_ours([worker_id])
        with self._changing() as conn:
            now = now_ms(conn)
            for entry_id in self._waiting(conn, pool, now - pool_timeout_ms, ids):
                taken = _claim(worker_id, worker_version, now)
                stored = self._rows.stored(COMPACTION_QUEUE, taken)
                if send(conn, _CLAIMED, {"of_id": entry_id, **stored}).count == 1:
                    self._rows.keep({entry_id: taken})
                    return self._locked(conn, entry_id)
        return None

    @retried
    def claim_all(self, workers: Mapping[int, str], worker_version: str) -> list[Entry]:
        """Take these requests, each for its worker: i -> w; those that still waited and that nobody else takes now.

        Raises:
            Refused: a worker id does not begin with ``compactor-``.
        """
        _must_be_ours(workers.values())
        with self._changing() as conn:
            waiting = _WAITING.where(CQ.CQ_ID.in_(workers))
            rows = conn.execute(self._dialect.unlocked(waiting)).mappings().all()
            now = now_ms(conn)
            taken = {row["CQ_ID"]: _claim(workers[row["CQ_ID"]], worker_version, now) for row in rows}
            changes = [{"of_id": i} | self._rows.stored(COMPACTION_QUEUE, values) for i, values in taken.items()]
            send_all(conn, _CLAIMED, changes)
            self._rows.keep(taken)
            return self._rows.queued([{**row, **taken[row["CQ_ID"]]} for row in rows])

    def record(
        self,
        entry: Entry,
        worker_id: str,
        txn: TxnId,
        run_as: str | None,
        highest_write_id: WriteId,
        component: bool = True,
        job: str | None = None,
    ) -> Entry:
        """Say under which transaction and up to which write ID the entry is compacted, before anything is staged.

        With ``component`` the transaction gets its ``c`` row, by which its directories stay known if it aborts.

        Raises:
            LostClaim: the entry is not ours any more, or the transaction is not open.
        """
        work = Work(
            entry=entry,
            worker_id=worker_id,
            txn=txn,
            run_as=run_as,
            highest_write_id=highest_write_id,
            component=component,
            job=job,
        )
        lost = self.record_all([work]).get(entry.id)
        if lost is not None:
            raise lost
        return self.entry(entry.id)

    @retried
    def record_all(self, works: Sequence[Work]) -> dict[int, LostClaim]:
        """``record`` for each of ``works``, all in one transaction; why not, of those that are not ours any more."""
        lost: dict[int, LostClaim] = {}
        changes: dict[int, dict[str, object]] = {}
        components: list[Work] = []
        with self._changing() as conn:
            txns = txn_rows.locked_rows(conn, self._dialect, [work.txn for work in works])
            entries = self._locked_all(conn, [work.entry.id for work in works])
            for work in works:
                try:
                    _own_transaction(work.entry, work.txn, txns.get(work.txn))
                    current = _ours(work.entry, work.worker_id, entries.get(work.entry.id))
                except LostClaim as error:
                    lost[work.entry.id] = error
                    continue
                changes[work.entry.id] = {
                    "CQ_TXN_ID": work.txn,
                    "CQ_HIGHEST_WRITE_ID": work.highest_write_id,
                    "CQ_RUN_AS": current.run_as if work.run_as is None else work.run_as,
                    "CQ_HADOOP_JOB_ID": current.job_id if work.job is None else work.job[:32],
                }
                # Hive 3.1 has no such operation, and no name bears the transaction there, so nothing has to be kept.
                if work.component and self._dialect.layout.has_visibility:
                    components.append(work)
            stored = [{"of_id": i} | self._rows.stored(COMPACTION_QUEUE, values) for i, values in changes.items()]
            send_all(conn, _OF_ID, stored)
            self._rows.keep(changes)
            insert_components(conn, [(w.txn, w.entry.entity, "c", w.highest_write_id) for w in components])
        return lost

    @contextmanager
    def committing_all(self, commits: Sequence[Commit]) -> Iterator[Mapping[int, Committing | LostClaim]]:
        """The one critical section of compactions: the body names their outputs, the end commits (PROTOCOL 5).

        On entry, for each: its transaction is open and stays locked, the queue row is working and ours, table and
        partition are those that were read, at the same location, and the table has handed out the write IDs that were
        compacted. Where any of it does not hold its ``LostClaim`` is found instead, and the body must not name it. On
        exit: the transactions of the others commit and their entries become ready for cleaning, all or none. When the
        body raises, everything is rolled back. The body must not touch a database.

        Raises:
            CommitUnknown: the answer of the commit was lost, for all of them.
        """
        found: dict[int, Committing | LostClaim] = {}
        with self._changing() as conn:
            txns = txn_rows.locked_rows(conn, self._dialect, [commit.txn for commit in commits])
            rows = self._locked_all(conn, [commit.entry.id for commit in commits])
            for commit in commits:
                try:
                    found[commit.entry.id] = _committing(conn, commit, txns.get(commit.txn), rows.get(commit.entry.id))
                except LostClaim as error:
                    found[commit.entry.id] = error
            yield MappingProxyType(found)
            held = {number: one for number, one in found.items() if isinstance(one, Committing)}
            if not held:
                return
            self._dialect.lock_transactions(conn, exclusive=True)
            newest = self._dialect.newest(conn)
            for one in held.values():
                if txns[one.txn].type is txn_rows.TxnType.REBALANCE_COMPACTION:
                    txn_rows.write_set(conn, one.txn, newest)
            txn_rows.mark_committed(conn, self._dialect, [one.txn for one in held.values()])
            values = {
                "CQ_STATE": State.READY_FOR_CLEANING.value,
                "CQ_WORKER_ID": None,
                "CQ_NEXT_TXN_ID": newest,
                "CQ_COMMIT_TIME": now_ms(conn),
            }
            for number in held:
                states.check(number, rows[number].state, State.READY_FOR_CLEANING)
                self._ready_to_clean(conn, rows[number], values)
        if not self._rows.is_whole:
            # Only once it is certain: on a row that goes back to ``i`` these would be another compaction's.
            for number in held:
                self._keep_result(number, values)

    def committed(self, entry: Entry, txn: TxnId) -> bool:
        """Whether the compaction of ``entry`` by ``txn`` is known to be committed, after its answer was lost.

        Raises:
            NotFound: nothing is known of the entry any more.
        """
        if self._dialect.remembers_commits:
            with self._database.read() as conn:
                return conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == txn)).scalar() == txn_rows.COMMITTED
        now = self.entry(entry.id)
        return now.state in (State.READY_FOR_CLEANING, State.SUCCEEDED) and now.txn_id == txn

    def txn_state(self, entry: Entry) -> str | None:
        """TXN_STATE of the transaction that an entry was compacted by; None where it has none, or no row any more.

        Hive 3.1 forgets what committed; but there the same commit makes the entry ready for cleaning.
        """
        if entry.txn_id is None:
            return None
        if not self._dialect.remembers_commits and entry.state in (State.READY_FOR_CLEANING, State.SUCCEEDED):
            return txn_rows.COMMITTED
        with self._database.read() as conn:
            return conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == entry.txn_id)).scalar()

    def rebalance_committed(self, txn: TxnId) -> bool:
        """Whether WRITE_SET holds what only its commit writes there, of a rebalance whose row in TXNS is gone."""
        written = select(WRITE_SET.c.WS_TXNID).where(WRITE_SET.c.WS_TXNID == txn, WRITE_SET.c.WS_OPERATION_TYPE == "u")
        with self._database.read() as conn:
            return conn.execute(written.limit(1)).first() is not None

    @retried
    def requeue(self, entry_id: int, worker_id: str) -> bool:
        """Give a lost worker's entry back: w -> i; False when it is not his any more.

        One that ``abort_running`` marked ends instead.

        Raises:
            Refused: its transaction is still open; it must be aborted first (PROTOCOL 6).
        """
        with self._changing() as conn:
            seen = self._seen(conn, entry_id)
            recorded = None if seen is None else seen.txn_id
            # before the queue row (PROTOCOL 9)
            row = None if recorded is None else txn_rows.locked_row(conn, self._dialect, recorded)
            entry = self._locked(conn, entry_id)
            if entry is None or entry.state is not State.WORKING or entry.worker_id != worker_id:
                return False
            if entry.txn_id is not None and entry.txn_id != recorded:
                raise Refused(f"compaction {entry_id} began transaction {entry.txn_id} meanwhile; its worker is alive")
            if entry.txn_id is not None and row is not None and row.state != txn_rows.ABORTED:
                raise Refused(
                    f"compaction {entry_id}: its transaction {entry.txn_id} is not aborted; abort it and hide what "
                    "it named before the request is queued again"
                )
            if is_being_aborted(entry):
                self._end(conn, entry, State.ABORTED, ABORT_MESSAGE)
                return True
            states.check(entry_id, entry.state, State.INITIATED)
            values = {
                "CQ_STATE": State.INITIATED.value,
                "CQ_WORKER_ID": None,
                "CQ_START": None,
                "CQ_TXN_ID": None,
                "CQ_HIGHEST_WRITE_ID": None,
                "CQ_HADOOP_JOB_ID": None,
            }
            self._change(conn, entry, values)
            return True

    @retried
    def finish(self, entry: Entry, state: State, error: str | None = None) -> None:
        """End an entry: its row goes to the history in ``state``; as aborted where ``abort_running`` marked it.

        Raises:
            IllegalTransition: that state doesn't follow the entry's.
            LostClaim: the row is not as ``entry`` says any more.
        """
        states.check(entry.id, entry.state, state)
        with self._changing() as conn:
            current = self._locked(conn, entry.id)
            if current is not None and is_being_aborted(current):
                state, error = State.ABORTED, ABORT_MESSAGE
            self._end(conn, entry, state, error)

    # --- clean --------------------------------------------------------------------------------------------------

    def ready_for_cleaning(self, now: int) -> list[Entry]:
        """Entries whose obsolete directories may be looked at: oldest of their entity, not in retry back-off.

        The back-off counts from the last attempt, or from the commit where there was none. ``now`` is epoch ms.
        """
        due = [entry for entry in self._ready_rows() if next_cleaning(entry) <= now]
        lowest: dict[Entity, WriteId] = {}
        for entry in due:
            if entry.highest_write_id is not None:
                known = lowest.get(entry.entity, entry.highest_write_id)
                lowest[entry.entity] = min(known, entry.highest_write_id)
        return [
            entry for entry in due if entry.highest_write_id is None or entry.highest_write_id == lowest[entry.entity]
        ]

    def backing_off(self, now: int) -> list[Entry]:
        """Entries that could not be cleaned and are left alone until ``next_cleaning``; ``now`` is epoch ms."""
        return [entry for entry in self._ready_rows() if next_cleaning(entry) > now]

    def _ready_rows(self) -> list[Entry]:
        with self._database.read() as conn:
            ready = select(COMPACTION_QUEUE).where(CQ.CQ_STATE == State.READY_FOR_CLEANING.value, _KNOWN_QUEUED)
            return list(self._rows.queued(conn.execute(ready.order_by(CQ.CQ_ID)).mappings()))

    @retried
    def mark_cleaner_start(self, entry: Entry) -> None:
        """Say that a cleaner looks at the entry now.

        Raises:
            LostClaim: the row is not ready for cleaning any more.
        """
        with self._changing() as conn:
            self._change(conn, _ready(entry), {"CQ_CLEANER_START": now_ms(conn)})

    @retried
    def back_off(self, entry: Entry, retention_ms: int, error: str | None) -> None:
        """Leave the entry alone for ``retention_ms`` from now.

        Raises:
            LostClaim: the row is not ready for cleaning any more.
        """
        with self._changing() as conn:
            values = {
                "CQ_CLEANER_START": now_ms(conn),
                "CQ_RETRY_RETENTION": retention_ms,
                "CQ_ERROR_MESSAGE": error,
            }
            self._change(conn, _ready(entry), values)

    @retried
    def mark_cleaned(self, entry: Entry, forgotten_write_ids: Collection[WriteId], *, all_below: bool) -> None:
        """The entry is clean: to the history, and what it covered is no longer a reason to compact.

        Components of aborted transactions go where nothing of them is in storage: with ``all_below`` those of every
        write ID up to the entry's highest, otherwise those of ``forgotten_write_ids``. Only this very entity's:
        a table without partition name never takes its partitions' rows along.

        Raises:
            LostClaim: the row is not ready for cleaning any more.
        """
        _ready(entry)
        with self._changing() as conn:
            names = components.recorded_forms(conn, entry.entity)
            retries = entity_is(COMPACTION_QUEUE, "CQ", entry.entity)
            if entry.type is CompactionType.ABORT_CLEANUP:
                self._delete(conn, entry)
            else:
                self._end(conn, entry, State.SUCCEEDED, None)
                leftover = (CQ.CQ_TYPE == CompactionType.ABORT_CLEANUP.value) & (CQ.CQ_STATE == "r")
                conn.execute(delete(COMPACTION_QUEUE).where(retries, leftover))
                _forget_completed(conn, entry, names)
            _forget_aborted(conn, entry, forgotten_write_ids, all_below=all_below)

    # --- look ---------------------------------------------------------------------------------------------------

    def entry(self, entry_id: int) -> Entry:
        """An entry of the queue, or else of the history.

        Raises:
            NotFound: it is in neither.
        """
        with self._database.read() as conn:
            found = self._rows.queued(conn.execute(select(COMPACTION_QUEUE).where(CQ.CQ_ID == entry_id)).mappings())
            if not found:
                past = select(COMPLETED_COMPACTIONS).where(CC.CC_ID == entry_id)
                found = self._rows.ended(conn.execute(past).mappings())
        if not found:
            raise NotFound(f"compaction {entry_id} is neither in the queue nor in the history")
        return found[0]

    def queue(
        self,
        *,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        states: Collection[State] | None = None,
        pool: str | None = None,
        ids: Collection[int] | None = None,
    ) -> list[Entry]:
        """Entries of the queue that match everything that is given, by id."""
        wanted: list[tuple[ColumnElement[str], str | None]] = [
            (CQ.CQ_DATABASE, database),
            (CQ.CQ_TABLE, table),
            (CQ.CQ_PARTITION, partition),
        ]
        query = select(COMPACTION_QUEUE).where(_KNOWN_QUEUED).order_by(CQ.CQ_ID)
        query = query.where(*(column == value for column, value in wanted if value is not None))
        if states is not None:
            query = query.where(CQ.CQ_STATE.in_([state.value for state in states]))
        if ids is not None:
            query = query.where(CQ.CQ_ID.in_(ids))
        with self._database.read() as conn:
            found = self._rows.queued(conn.execute(query).mappings())
        return [entry for entry in found if pool is None or entry.pool == pool]

    def working(self) -> list[Entry]:
        """What workers hold, by id."""
        return self.queue(states=(State.WORKING,))

    def history(self, entity: Entity | None = None, limit: int | None = None) -> list[Entry]:
        """Entries of the history, newest first; of one entity, or of all."""
        query = select(COMPLETED_COMPACTIONS).where(_KNOWN_ENDED).order_by(CC.CC_ID.desc()).limit(limit)
        if entity is not None:
            query = query.where(entity_is(COMPLETED_COMPACTIONS, "CC", entity))
        with self._database.read() as conn:
            return self._rows.ended(conn.execute(query).mappings())

    def candidates(self, limit: int, after: Entity | None = None) -> list[Entity]:
        """What was written or has aborted writes, in the order of its names, from behind ``after`` on (PROTOCOL 10).

        Partition names stand as recorded, so one of Hive's twice escaped forms may come besides the stored one.
        """
        written = COMPLETED_TXN_COMPONENTS.c
        committed = select(
            self._dialect.exactly(written.CTC_DATABASE).label("db_name"),
            self._dialect.exactly(written.CTC_TABLE).label("table_name"),
            self._dialect.exactly(func.coalesce(written.CTC_PARTITION, "")).label("part_name"),
        ).where(written.CTC_TABLE.is_not(None))
        everything = union(committed, _aborted_components(self._dialect)).subquery()
        columns = everything.c
        query = (
            select(columns.db_name, columns.table_name, columns.part_name)
            .order_by(columns.db_name, columns.table_name, columns.part_name)
            .limit(limit)
        )
        if after is not None:
            query = query.where(_behind(columns.db_name, columns.table_name, columns.part_name, after))
        with self._database.read() as conn:
            return [
                Entity(database=row.db_name, table=row.table_name, partition=row.part_name or None)
                for row in conn.execute(query)
            ]

    def aborts(self) -> dict[Entity, Aborted]:
        """Every entity with aborted transactions, in one statement."""
        return self._aborts()

    def aborted(self, entity: Entity) -> Aborted:
        """The aborted transactions of one entity, under every form of its partition's name."""
        with self._database.read() as conn:
            here = components.of_entity(conn, entity)
            figures = select(func.count(TXNS.c.TXN_ID.distinct()), func.min(TXNS.c.TXN_STARTED))
            joined = figures.select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == TXN_COMPONENTS.c.TC_TXNID))
            count, oldest = conn.execute(joined.where(TXNS.c.TXN_STATE == txn_rows.ABORTED, here)).one()
        return Aborted(count=count, oldest_start=oldest or 0)

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        if not self._rows.is_whole and self._rows.beyond is None:
            raise NotSupported(
                f"metastore {self._database.url}: its schema {' or '.join(self._dialect.schema_versions)} has no columns "
                "for a compaction's transaction, its pool and its errors; they are kept in our own state, and none is "
                "open: set state_url, or a mode other than observe"
            )
        with self._database.write() as conn:
            yield conn

    # --- inside one transaction ---------------------------------------------------------------------------------

    def _aborts(self) -> dict[Entity, Aborted]:
        columns = TXN_COMPONENTS.c
        names = [self._dialect.exactly(name) for name in (columns.TC_DATABASE, columns.TC_TABLE, columns.TC_PARTITION)]
        query = (
            select(
                *(name.label(label) for name, label in zip(names, ("database", "table", "part"), strict=True)),
                func.count(TXNS.c.TXN_ID.distinct()).label("transactions"),
                func.min(TXNS.c.TXN_STARTED).label("oldest"),
            )
            .select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == columns.TC_TXNID))
            .where(TXNS.c.TXN_STATE == txn_rows.ABORTED, columns.TC_TABLE.is_not(None))
            .group_by(*names)
        )
        with self._database.read() as conn:
            return {
                Entity(database=row.database, table=row.table, partition=row.part): Aborted(
                    count=row.transactions, oldest_start=row.oldest
                )
                for row in conn.execute(query)
            }

    def _draw(self, conn: Connection) -> int:
        counter = NEXT_COMPACTION_QUEUE_ID
        found = conn.execute(self._dialect.for_update(select(counter.c.NCQ_NEXT))).scalar_one()
        conn.execute(update(counter).values(NCQ_NEXT=found + 1))
        return int(found)

    def _locked(self, conn: Connection, entry_id: int) -> Entry | None:
        found = self._rows.queued(send(conn, _row_of(self._dialect), {"of_id": entry_id}).mappings())
        return found[0] if found else None

    def _locked_all(self, conn: Connection, ids: Collection[int]) -> dict[int, Entry]:
        query = select(COMPACTION_QUEUE).where(CQ.CQ_ID.in_(ids)).order_by(CQ.CQ_ID)
        found = self._rows.queued(conn.execute(self._dialect.for_update(query)).mappings())
        return {entry.id: entry for entry in found}

    def _waiting(
        self, conn: Connection, pool: str | None, enqueued_before: int, ids: Collection[int] | None
    ) -> Sequence[int]:
        """Requests that may be claimed, oldest first; only the first that nobody holds where the schema can tell."""
        if ids is None and self._rows.is_whole:
            chosen: dict[str, object] = {"before": enqueued_before} if pool is None else {"of_pool": pool}
            return [row[0] for row in send(conn, _oldest(self._dialect, of_pool=pool is not None), chosen).rows]
        if ids is None:
            found = self._rows.queued(conn.execute(_WAITING).mappings())
            return [entry.id for entry in found if _is_for(entry, pool, enqueued_before)]
        batch = _WAITING.where(CQ.CQ_ID.in_(ids)).with_only_columns(CQ.CQ_ID).limit(1)
        return conn.execute(self._dialect.unlocked(batch)).scalars().all()

    def _unknown_type(self, request: Request) -> Refused | None:
        known = self._dialect.request_types
        if known is None or request.type.value in known:
            return None
        return Refused(
            f"compaction of {request.entity}: Hive 3.1 knows no {request.type.label.lower()} compaction, and could not "
            "show its queue any more; ask for minor or major"
        )

    def _keep_result(self, entry_id: int, values: Mapping[str, object]) -> None:
        try:
            self._rows.keep({entry_id: values})
        except DatabaseUnavailable as error:
            _log.warning("when compaction %d committed is not kept; its first sight counts: %s", entry_id, error)

    def _seen(self, conn: Connection, entry_id: int) -> Entry | None:
        """The row as it is, not locked."""
        found = self._rows.queued(conn.execute(select(COMPACTION_QUEUE).where(CQ.CQ_ID == entry_id)).mappings())
        return found[0] if found else None

    def _transactions_of(self, conn: Connection, entry: Entry) -> Sequence[TxnId]:
        """What a worker of ours has opened for ``entry``: what it recorded, else what it opened and did not record yet."""
        if entry.txn_id is not None or entry.worker_id is None:
            return () if entry.txn_id is None else (entry.txn_id,)
        begun = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_rows.OPEN, TXNS.c.TXN_AGENT_INFO == entry.worker_id)
        return [TxnId(txn) for txn in conn.execute(begun.order_by(TXNS.c.TXN_ID)).scalars()]

    def _change(self, conn: Connection, entry: Entry, values: Mapping[str, object]) -> None:
        """Change the row, if it is in the state and by the worker that ``entry`` says."""
        stored = self._rows.stored(COMPACTION_QUEUE, values) or {"CQ_STATE": entry.state.value}
        if conn.execute(update(COMPACTION_QUEUE).where(*_as_known(entry)).values(**stored)).rowcount != 1:
            raise LostClaim(f"compaction {entry.id} is not {entry.state.label} by {entry.worker_id} any more")
        if values.get("CQ_STATE") != State.READY_FOR_CLEANING.value:
            self._rows.keep({entry.id: values})

    def _ready_to_clean(self, conn: Connection, entry: Entry, values: Mapping[str, object]) -> None:
        """As ``_change``, by a statement that is made once."""
        stored = self._rows.stored(COMPACTION_QUEUE, values)
        if send(conn, _WORKED_ON, {"of_id": entry.id, "of_worker": entry.worker_id, **stored}).count != 1:
            raise LostClaim(f"compaction {entry.id} is not {entry.state.label} by {entry.worker_id} any more")

    def _end(self, conn: Connection, entry: Entry, state: State, error: str | None) -> None:
        query = self._dialect.for_update(select(COMPACTION_QUEUE).where(*_as_known(entry)))
        row = conn.execute(query).mappings().first()
        if row is None:
            raise LostClaim(f"compaction {entry.id} is not {entry.state.label} by {entry.worker_id} any more")
        ended = entries.history_row(row, state, now_ms(conn), error)
        self._rows.keep({entry.id: {name: value for name, value in ended.items() if value is not None}})
        conn.execute(insert(COMPLETED_COMPACTIONS).values(**self._rows.stored(COMPLETED_COMPACTIONS, ended)))
        self._delete(conn, entry)

    def _delete(self, conn: Connection, entry: Entry) -> None:
        if conn.execute(delete(COMPACTION_QUEUE).where(*_as_known(entry))).rowcount != 1:
            raise LostClaim(f"compaction {entry.id} is not {entry.state.label} by {entry.worker_id} any more")


def _must_be_ours(worker_ids: Iterable[str]) -> None:
    for worker_id in worker_ids:
        if not worker_id.startswith(WORKER_PREFIX):
            raise Refused(f"worker id {worker_id!r} must begin with {WORKER_PREFIX!r}, or Hive takes its rows back")


def _claim(worker_id: str, worker_version: str, now: int) -> dict[str, object]:
    return {
        "CQ_STATE": State.WORKING.value,
        "CQ_START": now,
        "CQ_WORKER_ID": worker_id,
        "CQ_WORKER_VERSION": worker_version,
        # Hive leaves a lost attempt's behind; it would make this attempt look lost too.
        "CQ_TXN_ID": None,
        "CQ_HIGHEST_WRITE_ID": None,
    }


def _own_transaction(entry: Entry, txn: TxnId, row: txn_rows.TxnRow | None) -> None:
    if row is None or row.state != txn_rows.OPEN:
        found = "gone" if row is None else {"a": "aborted", "c": "committed"}.get(row.state, row.state)
        raise LostClaim(f"compaction {entry.id}: its transaction {txn} is {found}, it must be open")


def _ours(entry: Entry, worker_id: str, current: Entry | None) -> Entry:
    if current is None:
        raise LostClaim(f"compaction {entry.id} is not in the queue any more")
    if current.state is not State.WORKING or current.worker_id != worker_id:
        raise LostClaim(
            f"compaction {entry.id} is {current.state.label} by {current.worker_id}; it must be working by {worker_id}"
        )
    return current


def _committing(conn: Connection, commit: Commit, row: txn_rows.TxnRow | None, current: Entry | None) -> Committing:
    """What is proven of ``commit``, whose rows are locked.

    Raises:
        LostClaim: it does not hold.
    """
    entry, txn = commit.entry, commit.txn
    _own_transaction(entry, txn, row)
    current = _ours(entry, commit.worker_id, current)
    if current.txn_id != txn or current.highest_write_id is None:
        raise LostClaim(f"compaction {entry.id} was recorded for transaction {current.txn_id}, not {txn}")
    _same_place(conn, current, commit.table_id, commit.partition_id, commit.location)
    return Committing(entry_id=entry.id, txn=txn, highest_write_id=current.highest_write_id)


def is_being_aborted(entry: Entry) -> bool:
    """Whether ``abort_running`` stopped its worker, and something of it may still be in storage."""
    return entry.state is State.WORKING and entry.error == ABORT_MESSAGE


def _must_be_stoppable(entry: Entry) -> None:
    if entry.state is State.READY_FOR_CLEANING:
        raise Refused(
            f"compaction {entry.id} is {entry.state.label}: it is committed and readers use its result already"
        )
    if entry.state is not State.WORKING:
        raise Refused(f"compaction {entry.id} is {entry.state.label}; nobody works on it")
    if not (entry.worker_id or "").startswith(WORKER_PREFIX):
        raise Refused(
            f"compaction {entry.id} is working by {entry.worker_id}, a worker of Hive's own, which cannot be stopped from "
            "here; end its transaction with `compactor abort transaction`, and Hive ends the entry"
        )


def _as_known(entry: Entry) -> tuple[ColumnElement[bool], ...]:
    worker = CQ.CQ_WORKER_ID.is_(None) if entry.worker_id is None else CQ.CQ_WORKER_ID == entry.worker_id
    return (CQ.CQ_ID == entry.id, CQ.CQ_STATE == entry.state.value, worker)


def _is_for(entry: Entry, pool: str | None, enqueued_before: int) -> bool:
    if pool is not None:
        return entry.pool == pool
    return entry.pool is None or (entry.enqueue_time is not None and entry.enqueue_time < enqueued_before)


def _ready(entry: Entry) -> Entry:
    if entry.state is not State.READY_FOR_CLEANING:
        raise LostClaim(f"compaction {entry.id} is {entry.state.label}; only one ready for cleaning is cleaned")
    return entry


def next_cleaning(entry: Entry) -> int:
    """When a cleaner looks at the entry again, epoch ms; 0 where nothing keeps it from it now."""
    return max(entry.cleaner_start or 0, entry.commit_time or 0) + entry.retry_retention if entry.retry_retention else 0


def _request_row(entry_id: int, request: Request, properties: str | None, now: int) -> dict[str, object]:
    return {
        "CQ_ID": entry_id,
        "CQ_DATABASE": request.entity.database,
        "CQ_TABLE": request.entity.table,
        "CQ_PARTITION": request.entity.partition,
        "CQ_STATE": State.INITIATED.value,
        "CQ_TYPE": request.type.value,
        "CQ_TBLPROPERTIES": properties,
        "CQ_ENQUEUE_TIME": now,
        "CQ_RUN_AS": request.run_as,
        "CQ_INITIATOR_ID": request.initiator,
        "CQ_INITIATOR_VERSION": compactor.__version__,
        "CQ_RETRY_RETENTION": 0,
        "CQ_POOL_NAME": request.pool,
        "CQ_NUMBER_OF_BUCKETS": request.buckets,
        "CQ_ORDER_BY": request.order_by,
    }


def _too_long(request: Request, properties: str | None) -> Refused | None:
    if properties is None or len(properties) <= _PROPERTIES_LENGTH:
        return None
    return Refused(
        f"compaction of {request.entity}: its properties take {len(properties)} characters, "
        f"{_PROPERTIES_LENGTH} fit into the queue; pass fewer of them"
    )


class _Duplicates:
    """Rows of the queue that make a new request for one of some entities pointless, whatever its type."""

    def __init__(self, conn: Connection, entities: Sequence[Entity]) -> None:
        self._found: dict[Entity, tuple[State, int]] = {}
        names: dict[tuple[str, str], dict[str | None, None]] = {}
        for entity in entities:
            names.setdefault((entity.database, entity.table), {}).update(dict.fromkeys(_forms(entity.partition)))
        for (database, table), partitions in names.items():
            self._read(conn, Entity(database=database, table=table), list(partitions))

    def refusal(self, entity: Entity) -> Refused | None:
        """Why a request for ``entity`` is not taken; the oldest row says it."""
        rows = [row for name in _forms(entity.partition) if (row := self._found.get(replace(entity, partition=name)))]
        if not rows:
            return None
        state, entry_id = min(rows, key=lambda row: row[1])
        return Refused(f"Compaction is already scheduled with state='{state.label}' and id={entry_id}")

    def add(self, entity: Entity, entry_id: int) -> None:
        self._found[entity] = (State.INITIATED, entry_id)

    def _read(self, conn: Connection, table: Entity, names: Sequence[str | None]) -> None:
        high_mark = next_write_id(conn, table.database, table.table) - 1
        busy = CQ.CQ_STATE.in_((State.INITIATED.value, State.WORKING.value))
        covered = (CQ.CQ_STATE == State.READY_FOR_CLEANING.value) & (CQ.CQ_HIGHEST_WRITE_ID == high_mark)
        query = select(CQ.CQ_ID, CQ.CQ_STATE, CQ.CQ_PARTITION).where(or_(busy, covered)).order_by(CQ.CQ_ID)
        here = [CQ.CQ_PARTITION.in_([name for name in names if name is not None])]
        here += [CQ.CQ_PARTITION.is_(None)] if None in names else []
        query = query.where(CQ.CQ_DATABASE == table.database, CQ.CQ_TABLE == table.table, or_(*here))
        for row in conn.execute(query):
            entity = replace(table, partition=row.CQ_PARTITION)
            self._found.setdefault(entity, (State(row.CQ_STATE), row.CQ_ID))


def _forms(partition: str | None) -> tuple[str | None, ...]:
    """Every name under which a row of the queue may be about ``partition``."""
    if partition is None:
        return (None,)
    less = partition_names.escaped_once_less(partition)
    return tuple(dict.fromkeys((*partition_names.forms(partition), less)))


def _same_place(conn: Connection, entry: Entry, table_id: int, partition_id: int | None, location: str) -> None:
    """That table and partition are those that were read, where they were, and hand out the same write IDs."""
    entity = entry.entity
    same_place(conn, entry.id, entity, table_id=table_id, partition_id=partition_id, location=location)
    following = next_write_id(conn, entity.database, entity.table)
    if entry.highest_write_id is not None and following <= entry.highest_write_id:
        raise LostClaim(
            f"compaction {entry.id}: {entity} hands out write ID {following} next, which is not above "
            f"{entry.highest_write_id}; the table was made again meanwhile"
        )


def _forget_completed(conn: Connection, entry: Entry, names: Sequence[str | None]) -> None:
    """COMPLETED_TXN_COMPONENTS up to the entry's highest write ID; Trino's rows have none and count by mapping."""
    if entry.highest_write_id is None:
        return
    columns, mapping = COMPLETED_TXN_COMPONENTS.c, TXN_TO_WRITE_ID.c
    here = entity_is(COMPLETED_TXN_COMPONENTS, "CTC", entry.entity, *names)
    mapped = select(mapping.T2W_WRITEID).where(
        mapping.T2W_TXNID == columns.CTC_TXNID,
        mapping.T2W_DATABASE == columns.CTC_DATABASE,
        mapping.T2W_TABLE == columns.CTC_TABLE,
    )
    write_id = func.coalesce(columns.CTC_WRITEID, mapped.scalar_subquery())
    conn.execute(delete(COMPLETED_TXN_COMPONENTS).where(here, write_id <= entry.highest_write_id))
    if entry.txn_id is not None:
        # Neither a write ID nor a mapping: ended long ago.
        unknown = write_id.is_(None) & (columns.CTC_TXNID < entry.txn_id)
        conn.execute(delete(COMPLETED_TXN_COMPONENTS).where(here, unknown))


def _forget_aborted(conn: Connection, entry: Entry, write_ids: Collection[WriteId], *, all_below: bool) -> None:
    columns = TXN_COMPONENTS.c
    gone: ColumnElement[bool] = columns.TC_WRITEID.in_(write_ids)
    if all_below and entry.highest_write_id is not None:
        gone = or_(gone, columns.TC_WRITEID <= entry.highest_write_id)
    components.forget_aborted(conn, entry.entity, gone)


def _aborted_components(dialect: Dialect) -> Select[tuple[str, str, str]]:
    columns = TXN_COMPONENTS.c
    return (
        select(
            dialect.exactly(columns.TC_DATABASE).label("db_name"),
            dialect.exactly(columns.TC_TABLE).label("table_name"),
            dialect.exactly(func.coalesce(columns.TC_PARTITION, "")).label("part_name"),
        )
        .select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == columns.TC_TXNID))
        .where(TXNS.c.TXN_STATE == txn_rows.ABORTED, columns.TC_TABLE.is_not(None))
    )


def _behind(
    database: ColumnElement[str], table: ColumnElement[str], partition: ColumnElement[str], after: Entity
) -> ColumnElement[bool]:
    same_table = (database == after.database) & (table == after.table)
    later_table = (database == after.database) & (table > after.table)
    return or_(database > after.database, later_table, same_table & (partition > (after.partition or "")))
