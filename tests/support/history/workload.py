"""The work of one process on a metastore until its time is over or it is killed; every call is recorded."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, String, Table, insert, select

from compactor.acid.write_ids import ValidTxnList
from compactor.base.errors import CompactorError, NotFound, TransactionAborted
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column as TableColumn
from compactor.metastore.locks.lock_rows import NO_TXN, Lock
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.state.state_database import open_state
from tests.support.committing import committing
from tests.support.history.recorder import Recorder

DATABASE, TABLES = "default", ("t0", "t1")
WRITTEN, COMPACTED = ("p=0", "p=1"), tuple(f"p={number}" for number in range(4))
TIMEOUT_MS = 800
HOST = "history"
_LOCK_TYPES, _LOCK_WEIGHTS = tuple(LockType), (35, 45, 12, 8)

#: The rows of the tables. A row exists as soon as it is written, like a delta, and is read under a snapshot.
VALUES = Table(
    "HISTORY_VALUES",
    MetaData(),
    Column("V_TABLE", String(16), nullable=False),
    Column("V_PARTITION", String(16), nullable=False),
    Column("V_WRITEID", BigInteger, nullable=False),
    Column("V_TXNID", BigInteger, nullable=False),
    Column("V_COUNT", BigInteger),
)
_V = VALUES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Location of an entity, as the metastore returned it when it was made."""

    table_id: int
    partition_id: int
    location: str


def prepare(metastore: Metastore) -> dict[tuple[str, str], Place]:
    """Creates the tables; returns their partitions by name."""
    places = {}
    key = [TableColumn(name="p", type="string")]
    for name in TABLES:
        columns = [TableColumn(name="a", type="int")]
        table = metastore.embedded_catalog.create_table(
            NewTable(DATABASE, name, f"/w/{name}", columns, partition_keys=key)
        )
        for partition in COMPACTED:
            made = metastore.embedded_catalog.add_partition(table, [partition.removeprefix("p=")])
            places[name, partition] = Place(table_id=table.id, partition_id=made.id, location=made.location)
    VALUES.create(metastore.database.engine)
    return places


def unprepare(metastore: Metastore) -> None:
    """Drops the only table that is not Hive's."""
    VALUES.drop(metastore.database.engine)


def opened(url: str) -> Metastore:
    """Opens the metastore; what the queue of Hive 3.1 has no columns for is kept in the same database."""
    metastore = open_metastore("default", url)
    if not metastore.dialect.layout.has_visibility:
        metastore.queue.set_extra_columns(open_state(url).kept_columns("default"))
    return metastore


class Workload:
    """One process. ``dead`` is the folder in which the names of killed processes appear."""

    def __init__(
        self,
        metastore: Metastore,
        recorder: Recorder,
        places: Mapping[tuple[str, str], Place],
        dead: Path,
        seed: str,
    ) -> None:
        self._metastore = metastore
        self._call = recorder.call
        self._places = places
        self._dead = dead
        self._random = random.Random(seed)
        self._worker = f"compactor-{recorder.process}"
        self._newest_entry: int = 0

    def run(self, stop: Callable[[], bool]) -> None:
        """Does one thing after another until ``stop`` says so."""
        things: list[tuple[Callable[[], None], int]] = [(self._update, 40), (self._read_all, 14), (self._borrow, 6)]
        things += [(self._time_out, 4)]
        things += [(self._request, 16), (self._compact, 20), (self._repair, 6), (self._clean, 8), (self._look, 6)]
        doings, weights = [thing for thing, _ in things], [weight for _, weight in things]
        while not stop():
            try:
                self._random.choices(doings, weights)[0]()
            except CompactorError:  # it is recorded, and the process goes on with something else
                continue

    # --- transactions -------------------------------------------------------------------------------------------

    def _update(self) -> None:
        """Reads a row's versions, writes one more, commits."""
        txn = self._open(TxnType.DEFAULT)
        try:
            table, partition = self._random.choice(TABLES), self._random.choice(WRITTEN)
            early = self._random.random() < 0.5
            snapshot = self._snapshot(txn) if early else None
            if self._random.random() < 0.7:
                self._lock(txn, (table, partition))
            key, seen = snapshot or self._snapshot(txn)
            write_id = self._allocate(txn, table)
            rows = self._read(key, seen, table, partition)
            counts = self._random.random() < 0.7
            count = max((row[2] for row in rows if row[2] is not None), default=0) + 1 if counts else None
            self._write(txn, table, partition, write_id, count)
            if self._random.random() < 0.3:
                self._allocate(txn, self._random.choice(TABLES))
            if self._random.random() < 0.2:
                self._call("heartbeat", lambda: self._metastore.transactions.heartbeat(txn), txn=txn)
            self._pause(0.01)
            self._read(key, seen, table, partition)
        except TransactionAborted:
            return
        except CompactorError:
            self._abort(txn)
            raise
        if self._random.random() < 0.12:
            self._abort(txn)
        else:
            self._commit(txn)

    def _read_all(self) -> None:
        """Reads everything twice under one snapshot, with or without a transaction."""
        txn = self._open(TxnType.READ_ONLY) if self._random.random() < 0.5 else None
        key, seen = self._snapshot(txn)
        for _ in range(2):
            for table in TABLES:
                for partition in WRITTEN:
                    self._read(key, seen, table, partition)
            self._pause(0.05)
        if txn is not None:
            self._commit(txn)

    def _borrow(self) -> None:
        """Takes a lock without a transaction."""
        lock = self._acquire(NO_TXN, self._wanted(None))
        lock = self._wait(lock)
        self._pause(0.03)
        self._call("release", lambda: self._metastore.locks.release(lock.id), lock=lock.id)

    def _time_out(self) -> None:
        time_out = self._metastore.transactions.time_out
        self._call("time_out", lambda: time_out(TIMEOUT_MS), timeout_ms=TIMEOUT_MS)

    def _open(self, type: TxnType) -> TxnId:
        transactions = self._metastore.transactions
        _, [txn] = self._call("open", lambda: transactions.open("u", HOST, type=type), type=type.name.lower())
        return txn

    def _commit(self, txn: TxnId) -> None:
        self._call("commit", lambda: self._metastore.transactions.commit(txn), txn=txn)

    def _abort(self, txn: TxnId) -> None:
        self._call("abort", lambda: self._metastore.transactions.abort(txn, "on purpose"), txn=txn)

    def _snapshot(self, own: TxnId | None) -> tuple[str, ValidTxnList]:
        return self._call("snapshot", lambda: self._metastore.transactions.snapshot(own), answer=_listed, own=own)

    def _allocate(self, txn: TxnId, table: str) -> WriteId:
        allocate = self._metastore.write_ids.allocate
        return self._call("allocate", lambda: allocate(txn, DATABASE, table), txn=txn, table=table)[1]

    def _write(self, txn: TxnId, table: str, partition: str, write_id: WriteId, count: int | None) -> None:
        entity = Entity(database=DATABASE, table=table, partition=partition)
        operation = "i" if count is None else "u"
        add = self._metastore.write_ids.add_component
        self._call(
            "component",
            lambda: add(txn, entity, operation, write_id),
            txn=txn,
            table=table,
            partition=partition,
            operation=operation,
        )
        row = {"V_TABLE": table, "V_PARTITION": partition, "V_WRITEID": write_id, "V_TXNID": txn, "V_COUNT": count}
        self._call("write", lambda: self._insert(row), txn=txn, table=table, partition=partition, count=count)

    def _insert(self, row: dict[str, Any]) -> None:
        with self._metastore.database.write() as conn:
            conn.execute(insert(VALUES).values(**row))

    def _read(self, snapshot: str, seen: ValidTxnList, table: str, partition: str) -> list[Sequence[int | None]]:
        def visible() -> list[Sequence[int | None]]:
            valid = self._metastore.write_ids.valid(DATABASE, table, seen)
            query = select(_V.V_TXNID, _V.V_WRITEID, _V.V_COUNT)
            query = query.where(table == _V.V_TABLE, partition == _V.V_PARTITION)
            with self._metastore.database.read() as conn:
                return [tuple(row) for row in conn.execute(query) if valid.is_valid(row.V_WRITEID)]

        return self._call("read", visible, snapshot=snapshot, table=table, partition=partition)[1]

    # --- locks --------------------------------------------------------------------------------------------------

    def _lock(self, txn: TxnId, place: tuple[str, str]) -> None:
        self._wait(self._acquire(txn, self._wanted(place)))

    def _wanted(self, place: tuple[str, str] | None) -> list[LockRequest]:
        places: list[tuple[str, str | None]] = [place] if place else []
        for _ in range(self._random.randint(0 if places else 1, 2)):
            places.append((self._random.choice(TABLES), self._random.choice((None, *WRITTEN))))
        types = self._random.choices(_LOCK_TYPES, _LOCK_WEIGHTS, k=len(places))
        return [
            LockRequest(database=DATABASE, table=table, partition=partition, type=type)
            for (table, partition), type in zip(places, types, strict=True)
        ]

    def _acquire(self, txn: TxnId, wanted: list[LockRequest]) -> Lock:
        return self._call(
            "acquire",
            lambda: self._metastore.locks.acquire(txn, wanted, "u", HOST),
            answer=_lock_answer,
            txn=txn,
            wanted=[(request.table, request.partition, request.type.value) for request in wanted],
        )[1]

    def _wait(self, lock: Lock) -> Lock:
        """Checks again until the lock is granted; after some tries the request is withdrawn.

        Raises:
            TransactionAborted: it timed out meanwhile.
            NotFound: the lock timed out, or was not granted in time.
        """
        for _ in range(15):
            if lock.is_acquired:
                return lock
            self._pause(0.06)
            lock = self._check(lock.id)
        if not lock.is_acquired:
            self._call("release", lambda: self._metastore.locks.release(lock.id), lock=lock.id)
            raise NotFound(f"lock {lock.id} was not granted")
        return lock

    def _check(self, lock_id: int) -> Lock:
        check = self._metastore.locks.check
        return self._call("check", lambda: check(lock_id), answer=_lock_answer, lock=lock_id)[1]

    # --- the queue ----------------------------------------------------------------------------------------------

    def _request(self) -> None:
        table, partition = self._random.choice(list(self._places))
        request = Request(
            entity=Entity(database=DATABASE, table=table, partition=partition),
            type=self._random.choice((CompactionType.MINOR, CompactionType.MAJOR)),
            initiator="compactor-history",
        )
        _, entry = self._call("request", lambda: self._metastore.requests.request(request), entity=[table, partition])
        self._newest_entry = max(self._newest_entry, entry)
        if self._random.random() < 0.05:
            self._call("withdraw", lambda: self._metastore.claims.abort_request(entry), entry=entry)

    def _compact(self) -> None:
        """Claims, records, commits; or fails in between, or abandons the entry for others to repair."""
        claims, worker = self._metastore.claims, self._worker
        _, claimed = self._call(
            "claim", lambda: claims.claim(worker, "test", pool_timeout_ms=0), answer=_entry_id, worker=worker
        )
        if claimed is None:
            return
        self._newest_entry = max(self._newest_entry, claimed.id)
        self._pause(0.02)
        if self._random.random() < 0.1:
            self._finish(claimed, State.REFUSED)
            return
        entry = claimed
        txn = self._open(TxnType.COMPACTION)
        _, seen = self._snapshot(None)
        highest = self._metastore.write_ids.valid(DATABASE, entry.entity.table, seen).for_compactor().high_watermark
        _, recorded = self._call(
            "record",
            lambda: claims.record(entry, worker, txn, None, highest),
            answer=_entry_id,
            entry=entry.id,
            worker=worker,
            txn=txn,
        )
        self._pause(0.05)
        fate = self._random.random()
        if fate < 0.1:
            self._abort(txn)
            self._finish(recorded, State.FAILED)
        elif fate > 0.15:  # between two steps: the entry is left as it is
            self._call("committing", lambda: self._commit_entry(recorded, txn), entry=entry.id, worker=worker, txn=txn)

    def _commit_entry(self, entry: Entry, txn: TxnId) -> None:
        place = self._places[entry.entity.table, entry.entity.partition or ""]
        with committing(
            self._metastore,
            entry,
            self._worker,
            txn,
            table_id=place.table_id,
            partition_id=place.partition_id,
            location=place.location,
        ):
            self._pause(0.01)

    def _finish(self, entry: Entry, state: State) -> None:
        self._call(
            "finish",
            lambda: self._metastore.claims.finish(entry, state, "on purpose"),
            entry=entry.id,
            worker=entry.worker_id,
            state=state.value,
            **{"from": entry.state.value},
        )

    def _repair(self) -> None:
        """Aborts what killed processes had open and requeues what they had claimed; sometimes that of living ones."""
        for entry in self._metastore.entries.working():
            worker = entry.worker_id or ""
            if not (self._dead / worker.removeprefix("compactor-")).exists() and self._random.random() < 0.9:
                continue
            if entry.txn_id is not None:
                self._abort(entry.txn_id)
            self._requeue(entry.id, worker)

    def _requeue(self, entry: int, worker: str) -> None:
        self._call("requeue", lambda: self._metastore.claims.requeue(entry, worker), entry=entry, worker=worker)

    def _clean(self) -> None:
        cleaning = self._metastore.cleaning
        ready = cleaning.ready_for_cleaning(self._metastore.now_ms())
        if not ready:
            return
        entry = self._random.choice(ready)
        self._pause(0.01)
        if self._random.random() < 0.2:
            self._finish(entry, State.FAILED)
        else:
            self._call("clean", lambda: cleaning.mark_cleaned(entry, [], all_below=True), entry=entry.id)

    def _look(self) -> None:
        if self._newest_entry:
            entry = self._random.randint(max(1, self._newest_entry - 8), self._newest_entry)
            self._call("look", lambda: self._entry(entry), entry=entry)

    def _entry(self, entry_id: int) -> list[str | None] | None:
        try:
            entry = self._metastore.entries.get(entry_id)
        except NotFound:
            return None
        return [entry.state.value, entry.worker_id]

    def _pause(self, at_most: float) -> None:
        time.sleep(self._random.random() * at_most)


def look_at_the_end(metastore: Metastore, recorder: Recorder) -> None:
    """Records what is left when all processes have ended."""
    recorder.call("states", lambda: _states(metastore))
    recorder.call("mappings", lambda: {table: _mappings(metastore, table) for table in TABLES})
    recorder.call("snapshot", lambda: metastore.transactions.snapshot(), answer=_listed, own=None)
    recorder.call("entries", lambda: _entries(metastore))


def _states(metastore: Metastore) -> dict[str, Any]:
    newest = metastore.transactions.newest()
    found = {}
    for first in range(1, newest + 1, 500):
        ids = [TxnId(txn) for txn in range(first, min(first + 500, newest + 1))]
        found.update({str(txn): state for txn, state in metastore.transactions.states(ids).items()})
    # Hive 3.1 keeps no row of a committed transaction
    return {"states": found, "gone": "c" if metastore.schema_version.startswith("3") else None}


def _mappings(metastore: Metastore, table: str) -> list[tuple[int, int]]:
    return [(txn, write_id) for write_id, txn in metastore.write_ids.transactions(DATABASE, table).items()]


def _entries(metastore: Metastore) -> list[tuple[int, str, str | None]]:
    found = [*metastore.entries.queue(), *metastore.entries.history()]
    return [(entry.id, entry.state.value, entry.worker_id) for entry in found]


def _listed(snapshot: ValidTxnList) -> dict[str, Any]:
    return {"high": snapshot.high_watermark, "open": sorted(snapshot.open), "aborted": sorted(snapshot.aborted)}


def _lock_answer(lock: Lock) -> dict[str, Any]:
    return {"lock": lock.id, "acquired": lock.is_acquired}


def _entry_id(entry: Entry | None) -> int | None:
    return None if entry is None else entry.id
