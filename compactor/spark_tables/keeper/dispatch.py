"""Answers the requests to a keeper."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from compactor.base.errors import CompactorError, SnapshotExpired
from compactor.site.deployment import open_deployment
from compactor.site.site import Site
from compactor.spark_tables.driver_jvm import Process
from compactor.spark_tables.keeper.held_changes import HeldChanges, HeldStatements
from compactor.spark_tables.keeper.held_transaction import HeldTransaction
from compactor.spark_tables.keeper.held_writes import HeldInserts, HeldWrites, load_writable_table
from compactor.spark_tables.keeper.scans import latest_commits, plan_for_spark
from compactor.spark_tables.keeper_requests import (
    AbortChange,
    AbortStream,
    AbortWrite,
    Active,
    BeginChange,
    BeginInserts,
    BeginStatement,
    BeginWrite,
    CheckSnapshot,
    CommitChange,
    CommitInserts,
    CommitWrite,
    CountChange,
    ForgetStream,
    Hold,
    LatestCommits,
    MetastorePlace,
    OpenSnapshot,
    PlanScan,
    ReadersOf,
    Release,
    Renew,
    Request,
    TableReaders,
    WriteChange,
)

log = logging.getLogger(__name__)
_IDLE = "compactor.read.idle.max.age"
_ROLE = 32  #: so many characters of an application's name fit into TXN_AGENT_INFO next to host and process


class Dispatcher:
    """The transactions of one application, on any number of metastores. All of them end with the block."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._last_request_at = clock, clock()
        self._lock = threading.RLock()
        self._stack = ExitStack()
        self._sites: dict[tuple[str, str | None], Site] = {}
        self._readers: dict[str, HeldTransaction] = {}  # by the name of the snapshot
        self._writes = HeldWrites()
        self._inserts = HeldInserts()
        self._changes = HeldChanges()
        self._statements = HeldStatements()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(None)
        self._writes.abort_all()
        self._inserts.abort_all()
        self._changes.abort_all()
        self._statements.abort_all()
        self._stack.close()

    @property
    def is_empty(self) -> bool:
        """True if no transaction is held."""
        writing = (self._writes, self._inserts, self._changes, self._statements)
        return not self._readers and not any(writing)

    def answer(self, request: Request) -> Any:
        """Returns the answer to a request.

        Raises:
            CompactorError: the request cannot be fulfilled.
        """
        self._last_request_at = self._clock()
        match request:
            case OpenSnapshot(place=place, is_of_frames=is_of_frames):
                return self._open(place, is_of_frames=is_of_frames).name
            case ReadersOf():
                return self._list_readers(request)
            case Active():
                return None  # every request marks the program as active
            case PlanScan():
                return self._plan_scan(request)
            case LatestCommits(place=place, table=table):
                return latest_commits(self._site(place), table)
            case CheckSnapshot(hold=hold):
                return self._check_snapshot(hold)
            case Release(snapshot=snapshot):
                return self.release(snapshot)
            case BeginStatement(place=place):
                return self._statements.begin(self._site(place), _role(place), request)
            case Renew(name=name):
                return self._statements.renew(name) or self._changes.renew(name)
            case BeginWrite(place=place):
                with self._continue_statement(request.statement) as transaction:
                    return self._writes.begin(self._site(place), _role(place), request, transaction)
            case CommitWrite():
                return self._writes.commit(request)
            case BeginInserts(place=place):
                with self._continue_statement(request.statement) as transaction:
                    return self._inserts.begin(self._site(place), _role(place), request, transaction)
            case CommitInserts():
                return self._inserts.commit(request)
            case AbortWrite(hold=hold):
                return self._writes.abort(hold.name) or self._inserts.abort(hold.name)
            case AbortStream():
                return self._writes.abort_stream(request)
            case ForgetStream(place=place, table=table, stream=stream):
                site = self._site(place)
                return site.metastore.stream_batches.forget(load_writable_table(site, table).id, stream)
            case BeginChange(place=place):
                return self._changes.begin(self._site(place), _role(place), request)
            case WriteChange(change=change):
                return self._changes.work(change)
            case CommitChange(change=change, parts=parts):
                return self._changes.commit(change, parts)
            case AbortChange(change=change):
                writing = (self._changes, self._statements, self._writes, self._inserts)
                return any(kind.abort(change) for kind in writing)
            case CountChange(change=change):
                return self._changes.take_counts(change)

    def release(self, snapshot: str | None) -> int:
        """Releases one snapshot, or all with None; returns the number of released snapshots."""
        with self._lock:
            names = list(self._readers) if snapshot is None else [snapshot]
            released = [transaction for name in names if (transaction := self._readers.pop(name, None)) is not None]
        for transaction in released:
            log.info("transaction %d is released", transaction.txn.id)
            transaction.end()
        return len(released)

    def release_lost(self) -> None:
        """Releases snapshots that are too old or timed out, and aborts what nobody writes any more."""
        self._changes.abort_lost()
        self._statements.abort_lost()
        idle_ms = (self._clock() - self._last_request_at) * 1000
        for name, transaction in list(self._readers.items()):
            try:
                transaction.check()
                if transaction.is_of_frames and idle_ms >= transaction.txn.site.settings.milliseconds(_IDLE):
                    log.info("transaction %d: its program is idle", transaction.txn.id)
                    self.release(name)
            except CompactorError as error:
                log.warning("%s", error)
                self.release(name)

    def _list_readers(self, request: ReadersOf) -> TableReaders:
        """Returns the transactions that read a table, or may read it later."""
        self.release_lost()  # for example snapshots of a stream that has ended
        site, table = self._site(request.place), request.table.lower()
        readers = [reader for reader in list(self._readers.values()) if reader.txn.site.metastore is site.metastore]
        return TableReaders(txns=tuple(reader.txn.id for reader in readers if table in reader.tables))

    def _open(self, place: MetastorePlace, reader: Process | None = None, *, is_of_frames: bool) -> HeldTransaction:
        transaction = HeldTransaction(self._site(place), _role(place), reader, is_of_frames=is_of_frames)
        with self._lock:
            self._readers[transaction.name] = transaction
        log.info("transaction %d is held for %s", transaction.txn.id, place.application)
        return transaction

    def _plan_scan(self, request: PlanScan) -> Any:
        if (transaction := self._find_transaction(request)) is not None:
            with transaction.lock:
                transaction.check()
                transaction.tables.add(request.table.lower())
                return plan_for_spark(transaction, request, rewrites=self._changes.rewrites(request.change))
        # The scan gets its own snapshot.
        transaction = self._open(request.place, request.reader, is_of_frames=request.reader is None)
        try:
            with transaction.lock:
                transaction.tables.add(request.table.lower())
                return plan_for_spark(transaction, request)
        except BaseException:
            self.release(transaction.name)
            raise

    def _find_transaction(self, request: PlanScan) -> HeldTransaction | None:
        """Returns the open transaction that a scan reads in; None if the scan gets a new one."""
        if (statement := self._statements.find(request.within or "")) is not None:
            return statement.transaction
        if (change := request.change or request.within) is not None:
            return self._changes.must_find_transaction(change)
        if request.snapshot is None:
            return None
        transaction = self._readers.get(request.snapshot)
        if transaction is None:
            raise SnapshotExpired(f"snapshot {request.snapshot!r} was released or lost; open another one")
        return transaction

    @contextmanager
    def _continue_statement(self, statement: str | None) -> Iterator[HeldTransaction | None]:
        """Yields the transaction of a statement, which the block turns into a write.

        Returns None if the write gets a new one.
        """
        if statement is None:
            yield None
            return
        transaction = self._statements.must_find_transaction(statement)
        try:
            with transaction.lock:
                yield transaction
        finally:
            self._statements.take(statement)

    def _check_snapshot(self, hold: Hold) -> None:
        writing = (self._changes, self._statements, self._writes, self._inserts)
        work = next((work for kind in writing if (work := kind.find(hold.name))), None)
        transaction = self._readers.get(hold.name) if work is None else work.transaction
        if transaction is None:
            raise SnapshotExpired(f"transaction {hold.txn} was released or lost; read the table again")
        transaction.check()

    def _site(self, place: MetastorePlace) -> Site:
        key = (place.metastore, place.config)
        with self._lock:
            if key not in self._sites:
                site = open_deployment(place.metastore, config_path=place.config)
                self._sites[key] = self._stack.enter_context(site)
            return self._sites[key]


def _role(place: MetastorePlace) -> str:
    return place.application[:_ROLE] or "spark"
