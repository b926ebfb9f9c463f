"""A table: what the metastore says of it, and its scans."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from compactor.base.errors import Refused
from compactor.metastore.catalog import values
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.tables.compacting import Compaction, compact
from compactor.tables.reading.scan import Scan
from compactor.tables.reading.wanted import Wanted
from compactor.tables.schema import NANOSECONDS, arrow_schema
from compactor.tables.transactions.loaded_tables import LoadedTable, find_again
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.append import How, RowSource, append, must_be_writable, overwrite
from compactor.tables.writing.changes import delete, update
from compactor.tables.writing.mutation import Mutation
from compactor.tables.writing.stream import Stream, streaming
from compactor.tables.writing.upsert import Upserted, upsert


class Table:
    """A table as it was loaded. One that a transaction loaded is scanned under its snapshot."""

    def __init__(self, site: Site, found: values.Table, txn: Transaction | None = None) -> None:
        self._site, self._found, self._txn = site, found, txn

    @property
    def name(self) -> str:
        """``<database>.<table>``."""
        return str(self._found)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns in their order, partition columns last.

        Raises:
            NotSupported: a column has a type that Arrow has no equal of.
        """
        return arrow_schema(self._found)

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's parameters."""
        return self._found.parameters

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The names of the partition columns, in their order."""
        return tuple(key.name for key in self._found.partition_keys)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of all partitions as the metastore stores them, in order; read anew each time.

        Raises:
            NotFound: the table was renamed or dropped since it was loaded.
        """
        find_again(self._site.metastore.catalog, LoadedTable.from_table(self._found))
        names = self._site.metastore.catalog.partition_names([self._found])
        return tuple(names[self._found.id])

    def scan(
        self,
        row_filter: str | None = None,
        *,
        selected_fields: Sequence[str] | None = None,
        row_ids: bool = False,
        timestamps: str = NANOSECONDS,
    ) -> Scan:
        """Returns a scan of the rows.

        Args:
            row_filter: a condition such as ``amount > 10 and day = '2026-11-01'``; see docs/tables.md for its grammar. Rows
                for which it is unknown are left out.
            selected_fields: names of the columns to return, in any case and order; None for all. They come in the
                table's order, partition columns last.
            row_ids: the first column is ``row__id``, a struct of ``writeid``, ``bucketid`` and ``rowid``.
            timestamps: the form of timestamps: ``ns`` has every digit and reaches from 1677 to 2262, ``us`` reaches
                everywhere and cuts off the last three digits, ``parts`` is a struct of ``seconds`` since 1970 and ``nanos``,
                which loses nothing.

        Raises:
            BadExpression: the filter's text is not of the grammar; the message has the place.
            NotFound: there is no such column.
            NotSupported: a column has a type that Arrow has no equal of.
        """
        fields = None if selected_fields is None else _names(selected_fields)
        wanted = Wanted(row_filter=row_filter, selected_fields=fields, row_ids=row_ids, timestamps=timestamps)
        return Scan(self._site, self._found, wanted, self._txn)

    def append(
        self, rows: RowSource, *, partition: Mapping[str, object] | None = None, time_zone: str | None = None
    ) -> int:
        """Appends rows and returns how many they are; partitions that do not exist are added with the commit.

        Args:
            rows: a table, batch or reader of pyarrow, a data frame of pandas or polars, or a scan, which is read in the
                transaction of this write, once the table is locked. Columns are matched by name in any case, partition
                columns are among them, and one that is left out is NULL.
            partition: values of partition columns, by name, which ``rows`` do not have then.
            time_zone: in which a timestamp with a zone becomes wall-clock time; without one it is refused.

        Raises:
            NotConforming: a column or value is not the table's; the message names it.
            NotSupported: the table, or the type of a column, is not written here.
            Refused: rows belong to more partitions than hive.exec.max.dynamic.partitions, or to one that cannot be added;
                or the mode of the table is observe.
            LockNotGranted: somebody holds a conflicting lock for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out.
        """
        with self._writing() as txn:
            return append(txn, self._found, rows, How(partition=partition, time_zone=time_zone))

    def overwrite(
        self, rows: RowSource, *, partition: Mapping[str, object] | None = None, time_zone: str | None = None
    ) -> int:
        """Puts rows in place of all rows; in a partitioned table, of those in the partitions that ``rows`` belong to, or in
        the one that ``partition`` names, even if there are no ``rows``.

        Returns how many they are. Arguments and errors as with ``append``.

        Raises:
            WriteConflict: another transaction updated or deleted in the same place and committed first.
        """
        with self._writing() as txn:
            return overwrite(txn, self._found, rows, How(partition=partition, time_zone=time_zone))

    @contextmanager
    def stream(
        self, *, partition: Mapping[str, object] | None = None, time_zone: str | None = None
    ) -> Iterator[Stream]:
        """Opens a stream of small commits until the block ends: ``stream.write(rows)``, ``stream.commit()``.

        Each commit is a transaction of its own with one delta, which everybody who begins to read then sees. Transactions
        and write IDs are drawn ahead, for a second at most; those that are not used are aborted. Rows that wait for a commit
        when the block ends are an error; when it raises they are forgotten.

        Args:
            partition: values of partition columns, by name, which the rows do not have then.
            time_zone: as with ``append``.

        Raises:
            Refused: a transaction loaded this table, and a stream has transactions of its own; the mode of the table is
                observe; or rows were left.
            NotSupported: the table is none that is written here.
        """
        if self._txn is not None:
            raise Refused(
                f"{self.name}: a stream has transactions of its own; load the table from the store, not from a transaction"
            )
        with streaming(self._site, self._found, How(partition=partition, time_zone=time_zone)) as stream:
            yield stream

    def delete(self, where: str | None = None) -> int:
        """Deletes the rows for which ``where`` is true, all rows without it, and returns how many they were.

        Raises:
            BadExpression: ``where`` is not of the grammar of ``scan``'s filters.
            NotSupported: the table is none that is written here.
            LockNotGranted: somebody holds a conflicting lock for longer than compactor.lock.wait.
            WriteConflict: another transaction updated or deleted in the same place and committed first.
        """
        with self._writing() as txn:
            return delete(txn, self._found, where)

    def update(self, assignments: Mapping[str, str], where: str | None = None) -> int:
        """Gives the rows for which ``where`` is true other values, and returns how many they were.

        Args:
            assignments: by column: a literal as in a filter (``"'done'"``, ``"7.5"``), ``"NULL"``, or another column's name.

        Raises:
            BadExpression: ``where`` or a value is not of the grammar.
            NotConforming: a value is not of its column's type.
            NotFound: there is no such column.
            NotSupported: a partition or bucketing column is assigned, or the table is none that is written here.
            LockNotGranted, WriteConflict: as with ``delete``.
        """
        with self._writing() as txn:
            return update(txn, self._found, assignments, where)

    def upsert(self, rows: RowSource, join_cols: Sequence[str], *, time_zone: str | None = None) -> Upserted:
        """Puts rows in place of those with the same values of ``join_cols``, and adds the others.

        The lock excludes every other writer of the table. NULL equals nothing. Arguments and errors as with ``append``.

        Raises:
            NotConforming: also if two of ``rows`` have the same key.
            WriteConflict: another transaction wrote into the table while this one waited for its lock.
        """
        with self._writing() as txn:
            return upsert(txn, self._found, rows, _names(join_cols), How(time_zone=time_zone))

    @contextmanager
    def mutate(self, key: Sequence[str] | None = None, *, time_zone: str | None = None) -> Iterator[Mutation]:
        """Gathers inserts, updates and deletes of single rows, and does them in their order, as one statement, at the end of
        the block: ``mutation.insert(rows)``, ``mutation.update(rows)``, ``mutation.delete(rows)``. If it raises nothing is
        done.

        Args:
            key: the columns by which rows are found; no key is inserted twice, and the lock excludes every other writer if
                something is inserted. None finds rows by ROW__ID, in the transaction that loaded this table: a ROW__ID says
                nothing outside of the transaction that has read it.
            time_zone: as with ``append``.

        Raises:
            NotFound: a row that is updated or deleted is not there, or there is no such column.
            Refused: a row that is inserted is there already, a key is that of several rows, or the mode is observe; without
                a key also if no transaction loaded this table.
            NotSupported: an update gives a partition or bucketing column another value, or the table is none that is
                written here.
            LockNotGranted, WriteConflict: as with ``upsert``.
        """
        must_write(self._site.settings_for(self._found), self.name)
        if key is None and self._txn is None:
            raise Refused(
                f"{self.name}: ROW__IDs say nothing outside of the transaction that has read them; load the table in a "
                "transaction, or give a key"
            )
        with tempfile.TemporaryDirectory(prefix="compactor-mutation-") as scratch:
            must_be_writable(self._site, self._found)
            mutation = Mutation(self._found, None if key is None else _names(key), How(time_zone=time_zone), scratch)
            yield mutation
            with self._writing() as txn:
                mutation.finish(txn)

    def compact(
        self,
        kind: str = "major",
        *,
        partition: str | None = None,
        wait: bool = False,
        timeout_s: float | None = None,
        here: bool = False,
    ) -> tuple[Compaction, ...]:
        """Requests a compaction of the table or partition, of each partition of a partitioned table, as
        ``compactor compact`` does, and returns the requests.

        Args:
            kind: ``major``, ``minor`` or ``rebalance``.
            partition: as its name is stored (``day=2026-11-01``), or ``day=…,hour=…`` with plain values.
            wait: returns once all have ended, and raises if one did not succeed.
            timeout_s: how long it waits; default: hive.compactor.wait.timeout.
            here: this process works on them, for a place where no worker runs. Cleaning is still the cleaner's.

        Raises:
            NotFound: there is no such partition; or the table was renamed or dropped since it was loaded.
            Refused: nothing can be requested; the message has the reason.
            CompactionFailed: with ``wait``: one was refused, failed or was aborted.
            WaitTimedOut: with ``wait``: the time is over; they continue.
        """
        find_again(self._site.metastore.catalog, LoadedTable.from_table(self._found))
        return compact(self._site, self._found, kind, partition=partition, timeout_s=timeout_s, here=here, wait=wait)

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        """Yields the transaction that loaded the table, or one for a single statement.

        Raises:
            Refused: the table's mode is observe.
        """
        must_write(self._site.settings_for(self._found), self.name)
        if self._txn is not None:
            self._txn.check()
            with self._txn.whole_statement():
                yield self._txn
            return
        with transaction(self._site, role="program", writes=[self._found]) as txn:
            yield txn


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of columns; a single text is one name, not its letters."""
    return (given,) if isinstance(given, str) else tuple(given)
