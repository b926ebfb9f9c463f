"""A stream: many small commits, each with its own delta; its transactions are opened in batches.

Each commit stages its rows and publishes them within the committing database transaction, as ``append`` does.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from compactor.base.errors import CommitUnknown, CompactorError, Refused, WriteConflict
from compactor.base.ids import TxnId, WriteId
from compactor.metastore.catalog.values import Table
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.site.threads import Periodic
from compactor.tables.transactions.batch import AGE_S, TransactionBatch, next_batch_size
from compactor.tables.writing.append import (
    Rows,
    WriteOptions,
    conform_rows,
    find_static_partition,
    must_be_writable,
    stage_rows,
)
from compactor.tables.writing.statement_files import WaitingRows, divide_rows

_TRIES = 3  #: for a commit whose write ID was allocated before somebody overwrote the table


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedStream:
    """The commits of a stream so far, their rows, and the transaction and write ID of the last one."""

    commits: int = 0
    rows: int = 0
    txn: TxnId | None = None
    write_id: WriteId | None = None

    def __str__(self) -> str:
        last = f", the last one as transaction {self.txn} with write ID {self.write_id}" if self.commits else ""
        return f"{self.rows} rows in {self.commits} commits{last}"


class Stream:
    """An open stream; see ``Table.stream``. Only one thread at a time writes or commits; others wait."""

    def __init__(self, site: Site, table: Table, options: WriteOptions, scratch: str) -> None:
        self._site, self._table, self._options, self._scratch = site, table, options, scratch
        self._partition = find_static_partition(table, options)
        self._waiting: dict[str, dict[int, WaitingRows]] = {}
        self._batch: TransactionBatch | None = None
        self._size = 1
        self._unknown: CommitUnknown | None = None
        self._is_closed = False
        self._lock = threading.RLock()
        self.committed = CommittedStream()  #: everything that is certainly committed

    @property
    def waiting_rows(self) -> int:
        """The number of rows that were written but not committed."""
        return sum(file.rows for files in self._waiting.values() for file in files.values())

    def write(self, rows: Rows) -> int:
        """Takes rows for the next commit, and returns their number.

        They wait in memory, or on disk beyond 64 MB for each file. If an error is raised, none of ``rows`` is taken.

        Raises:
            NotConforming: a column or value does not fit the table; the message names it.
            NotSupported: we do not write such a column.
            Refused: the stream is closed, or the outcome of its last commit is unknown.
        """
        with self._lock:
            self._must_be_usable()
            parts = divide_rows(self._table, conform_rows(self._site, self._table, rows, self._options), self._scratch)
            for name, files in parts.items():
                for number, file in files.items():
                    self._waiting.setdefault(name, {}).setdefault(number, WaitingRows()).take(file, self._scratch)
            return sum(file.rows for files in parts.values() for file in files.values())

    def commit(self) -> int:
        """Commits the waiting rows, and returns their number; does nothing if there are none.

        After an error the rows still wait, and ``commit`` or ``discard`` may be called; but not after ``CommitUnknown`` or
        an interrupt. Each error has a note that says what is committed.

        Raises:
            LockNotGranted: somebody holds a conflicting lock for longer than compactor.lock.wait.
            LockLost, TransactionAborted: the transaction timed out, or somebody aborted it or removed its lock.
            Refused: rows belong to too many partitions, or to a partition that cannot be added; the table was altered; its
                mode is observe; the stream is closed.
            StorageError, DatabaseUnavailable: nothing was committed.
            CommitUnknown: the answer to the commit was lost. The stream cannot be used any more.
        """
        with self._lock:
            self._must_be_usable()
            count = self.waiting_rows
            try:
                if count:
                    self._commit(count)
            except CompactorError as error:
                if isinstance(error, CommitUnknown):
                    self._unknown = error
                self._drop_batch()
                error.add_note(f"{self._table}: the stream has committed {self.committed}; {count} rows wait")
                raise
            except BaseException as error:
                # an interrupt such as Ctrl-C may come just after the commit; a second commit would double its rows
                self._unknown = CommitUnknown(f"{type(error).__name__} came between")
                raise
            return count

    def discard(self) -> int:
        """Drops the waiting rows, and returns their number."""
        with self._lock:
            count = self.waiting_rows
            self._waiting.clear()
            if not self._is_closed:
                self._remove_files()
            return count

    def close(self) -> None:
        """Gives back open transactions, and drops the waiting rows."""
        with self._lock:
            if not self._is_closed:
                self._drop_batch()
                self.discard()
                self._is_closed = True

    def rest(self) -> None:
        """Gives back the transactions of a batch that is over, unless a commit is running."""
        if self._lock.acquire(blocking=False):
            try:
                if self._batch is not None and self._batch.is_over:
                    self._drop_batch()
            finally:
                self._lock.release()

    def _must_be_usable(self) -> None:
        if self._is_closed:
            raise Refused(f"{self._table}: the stream is closed; open another one")
        if self._unknown is not None:
            raise Refused(
                f"{self._table}: the answer to the stream's last commit was lost: {self._unknown}; it has committed "
                f"{self.committed}, and perhaps {self.waiting_rows} rows more; look for them, then open another stream"
            )

    def _commit(self, count: int) -> None:
        for remaining in reversed(range(_TRIES)):
            try:
                self._commit_in(self._usable_batch(), count)
                break
            except WriteConflict:
                if not remaining:
                    raise
                self._drop_batch()  # all its write IDs are below the base
        self._waiting = {}
        self._remove_files()

    def _commit_in(self, batch: TransactionBatch, count: int) -> None:
        with batch.next() as (txn, statement, is_provisional):
            locations: Mapping[str, str] | None = None
            if not is_provisional:
                locations = {self._partition or "": statement.location}
            locations = stage_rows(txn, statement, self._waiting, locations, batch.locations)
        batch.remember(locations)
        self.committed = replace(
            self.committed,
            commits=self.committed.commits + 1,
            rows=self.committed.rows + count,
            txn=txn.id,
            write_id=statement.write_id,
        )

    def _usable_batch(self) -> TransactionBatch:
        if self._batch is not None and self._batch.is_over:
            self._drop_batch()
        if self._batch is None:
            self._batch = TransactionBatch(self._site, self._table, self._partition, self._size)
        return self._batch

    def _drop_batch(self) -> None:
        if self._batch is not None:
            batch, self._batch = self._batch, None
            self._size = next_batch_size(batch.size, batch.used, batch.age_s)
            batch.close()

    def _remove_files(self) -> None:
        for path in Path(self._scratch).iterdir():
            path.unlink()


class _Rest(Periodic):
    """Gives back the transactions of an idle stream as soon as their batch is over."""

    def __init__(self, stream: Stream) -> None:
        super().__init__("stream-rest", AGE_S)
        self._stream = stream

    def _act(self) -> bool:
        self._stream.rest()
        return True


@contextmanager
def open_stream(site: Site, table: Table, options: WriteOptions) -> Iterator[Stream]:
    """Opens a stream into ``table`` until the block ends; see ``Table.stream``."""
    must_write(site.settings_for(table), str(table))
    must_be_writable(site, table)
    with tempfile.TemporaryDirectory(prefix="compactor-stream-") as scratch:
        stream = Stream(site, table, options, scratch)
        try:
            with _Rest(stream):
                yield stream
            if lost := stream.waiting_rows:
                raise Refused(
                    f"{table}: {lost} rows were written into the stream but not committed, and are lost; it has committed "
                    f"{stream.committed}; call commit() or discard() before its end"
                )
        finally:
            stream.close()
