"""Changes of rows by Spark: begun for one process, read and written for others, committed or aborted for another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compactor.base.errors import TransactionAborted
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_by_name import UnderWay
from compactor.spark_tables.keeper.held_transaction import Held
from compactor.spark_tables.keeper.statements import SILENT_S, parts_to_read
from compactor.spark_tables.keeper.stream_position import must_have_been_seen
from compactor.spark_tables.messages import BeginChange, BegunChange, ChangeWork
from compactor.tables.store import named_table
from compactor.tables.writing.row_change import CHECK, Changed
from compactor.tables.writing.shared_changes import ChangeStatements, Intent, begin_changes, finish_changes
from compactor.tables.writing.shared_statement import SharedChange
from compactor.tables.writing.written_part import ChangedPart

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Change:
    held: Held
    statements: ChangeStatements
    work: ChangeWork
    heard_of: float
    is_written: bool = False


class Changes(UnderWay[_Change]):
    """The changes of one application that are under way, and the numbers of those that nobody has asked for yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counting = threading.Lock()
        self._counts: dict[str, Changed] = {}

    def begin(self, site: Site, role: str, request: BeginChange) -> BegunChange:
        """Begins a change in a transaction of its own; raises as ``begin_changes`` and ``must_have_been_seen`` do."""
        table = named_table(site, request.table)
        settings = site.settings_for(table)
        must_write(settings, request.table)
        is_checked = settings.boolean(CHECK) if request.is_checked is None else request.is_checked
        intent = Intent(
            deletes=request.deletes,
            assigns=None if request.assigns is None else frozenset(request.assigns),
            inserts=request.inserts,
            is_checked=is_checked,
        )
        held = Held(site, role, writes=[table])
        try:
            others = parts_to_read(held.txn, request.reads)
            statements, work = begin_changes(held.txn, table, intent, others, request.time_zone)
            must_have_been_seen(held.txn, table, work.rows.write_id, request)
            stores = held.tokens.standing_in(site.storage.options, table.location)
        except BaseException:
            held.abort()
            raise
        made = _Change(
            held=held,
            statements=statements,
            work=ChangeWork(change=held.name, work=work, stores=stores),
            heard_of=self._clock(),
        )
        self.put(made)
        log.info("transaction %d changes %s for %s", held.txn.id, table, request.place.application)
        return _begun(held.name, work)

    def held(self, name: str) -> Held:
        """Returns the transaction of a change that is under way.

        Raises:
            TransactionAborted: it is not.
        """
        return self._under_way(name).held

    def work(self, name: str) -> ChangeWork:
        """Returns the work of those who write a change; raises as ``held`` does."""
        change = self._under_way(name)
        change.is_written = True
        return change.work

    def commit(self, name: str, parts: Sequence[ChangedPart]) -> None:
        """Commits a change with what its tasks have staged.

        Raises:
            TransactionAborted: it is not under way: lost, or ended before.
            CommitUnknown: the answer of the database was lost.
        """
        change = self.take(name)
        if change is None:
            raise _gone(name)
        with change.held.finishing():
            finish_changes(change.held.txn, change.statements, parts)
        counts = Changed.total(part.counts for part in parts)
        with self._counting:
            self._counts[name] = counts
        log.info("transaction %d is committed: %s", change.held.txn.id, counts)

    def counts(self, name: str) -> Changed:
        """Returns the numbers of a committed change, once.

        Raises:
            TransactionAborted: it was not committed.
        """
        with self._counting:
            found = self._counts.pop(name, None)
        if found is None:
            raise _gone(name)
        return found

    def renew(self, name: str) -> bool:
        """Notes that the program of a change is at work; returns false if it is not under way."""
        change = self.find(name)
        if change is not None:
            change.heard_of = self._clock()
        return change is not None

    def let_go_of_lost(self) -> None:
        """Ends changes whose program went away, perhaps far from here, before it had them written: Spark says how those
        end that are."""
        for change in self.every():
            if not change.is_written and self._clock() - change.heard_of >= SILENT_S:
                log.warning("transaction %d: nobody has written its change", change.held.txn.id)
                self.abort(change.held.name)

    def rewrites(self, name: str | None) -> bool:
        """Returns true if it is a change that gives rows new versions; raises as ``held`` does."""
        return name is not None and all(self._under_way(name).statements.both)

    def _under_way(self, name: str) -> _Change:
        found = self.find(name)
        if found is None:
            raise _gone(name)
        return found


def _begun(name: str, work: SharedChange) -> BegunChange:
    table = work.rows.table
    columns = (*table.columns, *table.partition_keys)
    return BegunChange(
        change=name,
        columns=tuple(column.name for column in columns),
        types=tuple(column.type for column in columns),
        partition_keys=tuple(key.name for key in table.partition_keys),
        bucket_columns=table.bucket_columns,
        is_checked=work.is_checked,
    )


def _gone(name: str) -> TransactionAborted:
    return TransactionAborted(f"change {name} is not held: it has ended; nothing was committed, begin it again")
