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
from compactor.spark_tables.application import Process
from compactor.spark_tables.keeper.held_changes import Changes
from compactor.spark_tables.keeper.held_inserts import Inserts
from compactor.spark_tables.keeper.held_transaction import Held
from compactor.spark_tables.keeper.held_writes import Writers, existing
from compactor.spark_tables.keeper.scans import planned
from compactor.spark_tables.keeper.statements import Statements
from compactor.spark_tables.keeper.stream_position import latest
from compactor.spark_tables.messages import (
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
    OpenSnapshot,
    Place,
    PlanScan,
    Readers,
    ReadersOf,
    Release,
    Renew,
    Request,
    WriteChange,
)

log = logging.getLogger(__name__)
_IDLE = "compactor.read.idle.max.age"
_ROLE = 32  #: characters of an application's name that fit TXN_AGENT_INFO beside host and process


class Desk:
    """The transactions of one application, on any number of metastores. Its end lets go of all of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._heard_of = clock, clock()
        self._lock = threading.RLock()
        self._stack = ExitStack()
        self._sites: dict[tuple[str, str | None], Site] = {}
        self._readers: dict[str, Held] = {}  # by the name of the snapshot
        self._writers = Writers()
        self._inserts = Inserts()
        self._changes = Changes()
        self._statements = Statements()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(None)
        self._writers.abort_all()
        self._inserts.abort_all()
        self._changes.abort_all()
        self._statements.abort_all()
        self._stack.close()

    @property
    def is_empty(self) -> bool:
        """True if nothing is held."""
        works = (self._writers, self._inserts, self._changes, self._statements)
        return not self._readers and not any(works)

    def answer(self, request: Request) -> Any:
        """Returns the answer to a request.

        Raises:
            CompactorError: it cannot be granted.
        """
        self._heard_of = self._clock()
        match request:
            case OpenSnapshot(place=place, is_of_frames=is_of_frames):
                return self._open(place, is_of_frames=is_of_frames).name
            case ReadersOf():
                return self._readers_of(request)
            case Active():
                return None
            case PlanScan():
                return self._plan(request)
            case LatestCommits(place=place, table=table):
                return latest(self._site(place), table)
            case CheckSnapshot(hold=hold):
                return self._check(hold)
            case Release(snapshot=snapshot):
                return self.release(snapshot)
            case BeginStatement(place=place):
                return self._statements.begin(self._site(place), _role(place), request)
            case Renew(name=name):
                return self._statements.renew(name) or self._changes.renew(name)
            case BeginWrite(place=place):
                with self._begun(request.statement) as held:
                    return self._writers.begin(self._site(place), _role(place), request, held)
            case CommitWrite():
                return self._writers.commit(request)
            case BeginInserts(place=place):
                with self._begun(request.statement) as held:
                    return self._inserts.begin(self._site(place), _role(place), request, held)
            case CommitInserts():
                return self._inserts.commit(request)
            case AbortWrite(hold=hold):
                return self._writers.abort(hold.name) or self._inserts.abort(hold.name)
            case AbortStream():
                return self._writers.abort_stream(request)
            case ForgetStream(place=place, table=table, stream=stream):
                site = self._site(place)
                return site.metastore.stream_batches.forget(existing(site, table).id, stream)
            case BeginChange(place=place):
                return self._changes.begin(self._site(place), _role(place), request)
            case WriteChange(change=change):
                return self._changes.work(change)
            case CommitChange(change=change, parts=parts):
                return self._changes.commit(change, parts)
            case AbortChange(change=change):
                works = (self._changes, self._statements, self._writers, self._inserts)
                return any(work.abort(change) for work in works)
            case CountChange(change=change):
                return self._changes.counts(change)

    def release(self, snapshot: str | None) -> int:
        """Lets go of one snapshot, or of all; returns how many there were."""
        with self._lock:
            names = list(self._readers) if snapshot is None else [snapshot]
            released = [held for name in names if (held := self._readers.pop(name, None)) is not None]
        for held in released:
            log.info("transaction %d is let go", held.txn.id)
            held.end()
        return len(released)

    def let_go_of_lost(self) -> None:
        """Lets go of snapshots that are too old or timed out, and of changes and statements that nobody writes."""
        self._changes.let_go_of_lost()
        self._statements.let_go_of_lost()
        idle_ms = (self._clock() - self._heard_of) * 1000
        for name, held in list(self._readers.items()):
            try:
                held.check()
                if held.is_of_frames and idle_ms >= held.txn.site.settings.milliseconds(_IDLE):
                    log.info("transaction %d: its program is idle", held.txn.id)
                    self.release(name)
            except CompactorError as error:
                log.warning("%s", error)
                self.release(name)

    def _readers_of(self, request: ReadersOf) -> Readers:
        """Returns the transactions that read a table, or may do so again."""
        self.let_go_of_lost()  # such as what a stream has read that has ended
        site, table = self._site(request.place), request.table.lower()
        readers = [held for held in list(self._readers.values()) if held.txn.site.metastore is site.metastore]
        return Readers(txns=tuple(held.txn.id for held in readers if table in held.tables))

    def _open(self, place: Place, reader: Process | None = None, *, is_of_frames: bool) -> Held:
        held = Held(self._site(place), _role(place), reader, is_of_frames=is_of_frames)
        with self._lock:
            self._readers[held.name] = held
        log.info("transaction %d is held for %s", held.txn.id, place.application)
        return held

    def _plan(self, request: PlanScan) -> Any:
        if (held := self._asked_for(request)) is not None:
            with held.lock:
                held.check()
                held.tables.add(request.table.lower())
                return planned(held, request, rewrites=self._changes.rewrites(request.change))
        held = self._open(request.place, request.reader, is_of_frames=request.reader is None)
        try:
            with held.lock:
                held.tables.add(request.table.lower())
                return planned(held, request)
        except BaseException:
            self.release(held.name)
            raise

    def _asked_for(self, request: PlanScan) -> Held | None:
        """Returns the transaction under which a scan is to be planned; None for one of its own."""
        if (statement := self._statements.find(request.within or "")) is not None:
            return statement.held
        if (change := request.change or request.within) is not None:
            return self._changes.held(change)
        if request.snapshot is None:
            return None
        held = self._readers.get(request.snapshot)
        if held is None:
            raise SnapshotExpired(f"snapshot {request.snapshot!r} is not held: it was released or lost; open another")
        return held

    @contextmanager
    def _begun(self, statement: str | None) -> Iterator[Held | None]:
        """Yields the transaction of the statement that becomes a write, which goes on as that; None for one of its own."""
        if statement is None:
            yield None
            return
        held = self._statements.held(statement)
        try:
            with held.lock:
                yield held
        finally:
            self._statements.take(statement)

    def _check(self, hold: Hold) -> None:
        works = (self._changes, self._statements, self._writers, self._inserts)
        work = next((found for works_of_kind in works if (found := works_of_kind.find(hold.name))), None)
        held = self._readers.get(hold.name) if work is None else work.held
        if held is None:
            raise SnapshotExpired(
                f"transaction {hold.txn} is no longer held: it was released or lost; read the table anew"
            )
        held.check()

    def _site(self, place: Place) -> Site:
        key = (place.metastore, place.config)
        with self._lock:
            if key not in self._sites:
                opened = open_deployment(place.metastore, config_path=place.config)
                self._sites[key] = self._stack.enter_context(opened)
            return self._sites[key]


def _role(place: Place) -> str:
    return place.application[:_ROLE] or "spark"
