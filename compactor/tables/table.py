"""A table: its description in the metastore, its scans and its changes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from compactor.base.errors import CompactionFailed, Refused
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.metastore.catalog import values
from compactor.requests.request import request_compaction, wait_for
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.mode import must_write
from compactor.site.run_as import entries_of_other_users, must_be_ours
from compactor.site.site import Site
from compactor.tables.reading.change_feed import ChangeRequest
from compactor.tables.reading.scan import Scan, open_changes
from compactor.tables.reading.scan_planning import ScanRequest
from compactor.tables.reading.versions import VersionRange, current_version, find_version, parse_version
from compactor.tables.schema import NANOSECONDS, arrow_schema
from compactor.tables.transactions.loaded_tables import LoadedTable, find_loaded
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.append import RowSource, WriteOptions, append, must_be_writable, overwrite
from compactor.tables.writing.changes import Upserted, delete, update, upsert
from compactor.tables.writing.mutation import Mutation
from compactor.tables.writing.stream import Stream, open_stream

_DONE = (State.SUCCEEDED, State.READY_FOR_CLEANING)


class Table:
    """A table as it was loaded. If a transaction loaded it, its scans read that transaction's snapshot."""

    def __init__(self, site: Site, table: values.Table, txn: Transaction | None = None) -> None:
        self._site, self._table, self._txn = site, table, txn

    @property
    def name(self) -> str:
        """``<database>.<table>``."""
        return str(self._table)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns in their order, partition columns last.

        Raises:
            NotSupported: Arrow has no equivalent of a column's type.
        """
        return arrow_schema(self._table)

    @property
    def hive_types(self) -> dict[str, str]:
        """The Hive types of the columns, partition columns included, by name in lower case."""
        columns = (*self._table.columns, *self._table.partition_keys)
        return {column.name.lower(): column.type for column in columns}

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's parameters."""
        return self._table.parameters

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The names of the partition columns, in their order."""
        return tuple(key.name for key in self._table.partition_keys)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of all partitions as the metastore stores them, in order; each access reads them again.

        Raises:
            NotFound: the table was renamed or dropped since it was loaded.
        """
        find_loaded(self._site.metastore.catalog, LoadedTable.from_table(self._table))
        names = self._site.metastore.catalog.partition_names([self._table])
        return tuple(names[self._table.id])

    def scan(
        self,
        row_filter: str | None = None,
        *,
        selected_fields: Sequence[str] | None = None,
        row_ids: bool = False,
        timestamps: str = NANOSECONDS,
        as_of: int | None = None,
    ) -> Scan:
        """Returns a scan of the rows.

        Args:
            row_filter: a condition such as ``amount > 10 and day = '2026-11-01'``; docs/tables.md has the grammar. Rows for
                which it is unknown are left out.
            selected_fields: names of the columns to return, in any case and order; None for all. They come in the
                table's order, partition columns last.
            row_ids: add a first column ``row__id``, a struct of ``writeid``, ``bucketid`` and ``rowid``.
            timestamps: the form of timestamps. ``ns`` keeps every digit and reaches from 1677 to 2262. ``us`` reaches all
                years and cuts off the last three digits. ``parts`` is a struct of ``seconds`` since 1970 and ``nanos`` and
                loses nothing.
            as_of: a version, such as ``version()`` returned; None for what the snapshot sees.

        The rows of a version come whole. Otherwise the scan raises ``SnapshotExpired``, which names the oldest later version
        that can be read, or ``Refused`` if the version does not exist.

        Raises:
            BadExpression: the filter does not follow the grammar; the message has the place.
            NotFound: the table has no such column.
            NotSupported: Arrow has no equivalent of a column's type.
        """
        fields = None if selected_fields is None else _names(selected_fields)
        versions = None if as_of is None else VersionRange(until=parse_version(as_of))
        request = ScanRequest(
            row_filter=row_filter, selected_fields=fields, row_ids=row_ids, timestamps=timestamps, versions=versions
        )
        return Scan(self._site, self._table, request, self._txn)

    def version(self) -> int:
        """Returns the current version: the highest write ID with no open write at or below it.

        It is 0 before the first write.

        The rows of a version never change. A write that commits late belongs to a later version. In a transaction it is the
        version that its snapshot sees, without its own writes.

        Raises:
            NotFound: the table was renamed or dropped since it was loaded.
        """
        if self._txn is not None:
            self._txn.check()
            return current_version(self._txn, self._table)
        find_loaded(self._site.metastore.catalog, LoadedTable.from_table(self._table))
        return find_version(self._site.write_ids(self._table, self._site.metastore.transactions.snapshot()))

    def changes(
        self,
        starting_version: int,
        ending_version: int | None = None,
        *,
        key: str | Sequence[str] | None = None,
        net: bool = False,
        selected_fields: Sequence[str] | None = None,
        timestamps: str = NANOSECONDS,
    ) -> pa.RecordBatchReader:
        """Returns the rows that were inserted and deleted after one version, up to another.

        The rows of the starting version, without the deleted and with the inserted ones, are those of the ending version.
        The snapshot is protected until the reader is exhausted or closed.

        The columns are the table's, then ``_change_type`` (``insert`` or ``delete``), ``_commit_version``,
        ``_commit_timestamp`` (NULL where the metastore has forgotten it) and ``row__id``. Changes come in the order of
        files. What one write inserts and deletes itself is not shown.

        Args:
            starting_version: a version that the caller has seen, such as ``version()`` returned; its own changes are left
                out. 0 for all changes.
            ending_version: the last version; None for the current one.
            key: columns that identify rows. A delete and an insert of one key in one commit become ``update_preimage`` and
                ``update_postimage``. NULL equals nothing.
            net: leave out rows that were both inserted and deleted within the range.
            selected_fields, timestamps: as for ``scan``.

        Raises:
            ChangesGone: changes of the range may be missing; ``first_version`` is the first version with complete changes.
            Refused: a version does not exist or is not final, or the range ends before it begins.
            NotFound: the table has no such column.
            NotSupported: a column of the key is nested, a column has the name of one of the feed; or as for ``scan``.
            SnapshotExpired, LockNotGranted: as for a scan.
        """
        since = parse_version(starting_version)
        until = None if ending_version is None else parse_version(ending_version)
        scan = ScanRequest(
            selected_fields=None if selected_fields is None else _names(selected_fields),
            row_ids=True,
            timestamps=timestamps,
            versions=VersionRange(since=since, until=until, is_net=net),
        )
        request = ChangeRequest(scan=scan, key=() if key is None else _names(key))
        return open_changes(self._site, self._table, request, self._txn)

    def append(
        self, rows: RowSource, *, partition: Mapping[str, object] | None = None, time_zone: str | None = None
    ) -> int:
        """Appends rows and returns their number; the commit adds partitions that do not exist.

        Args:
            rows: a pyarrow table, batch or reader, a pandas or polars data frame, or a scan, which is read within the
                transaction of this write once the table is locked. Columns, including partition columns, are matched by
                name in any case. A missing column is NULL.
            partition: values of partition columns, by name; ``rows`` then lack these columns.
            time_zone: the zone in which timestamps with a zone become wall-clock time; without it they are refused.

        Raises:
            NotConforming: a column or value does not fit the table; the message names it.
            NotSupported: we do not write such a table, or such a column.
            Refused: rows belong to more partitions than hive.exec.max.dynamic.partitions, or to a partition that cannot be
                added; or the mode of the table is observe.
            LockNotGranted: somebody holds a conflicting lock for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out.
        """
        with self._writing() as txn:
            return append(txn, self._table, rows, WriteOptions(partition=partition, time_zone=time_zone))

    def overwrite(
        self, rows: RowSource, *, partition: Mapping[str, object] | None = None, time_zone: str | None = None
    ) -> int:
        """Replaces rows: all of them, or only those in the partitions that ``rows`` or ``partition`` name.

        Without ``partition``, a partitioned table loses only the rows of the partitions to which ``rows`` belong. With
        ``partition``, that partition is emptied even if there are no ``rows``.

        Returns the number of new rows. Arguments and errors are those of ``append``.

        Raises:
            WriteConflict: another transaction updated or deleted in the same place and committed first.
        """
        with self._writing() as txn:
            return overwrite(txn, self._table, rows, WriteOptions(partition=partition, time_zone=time_zone))

    @contextmanager
    def stream(
        self, *, partition: Mapping[str, object] | None = None, time_zone: str | None = None
    ) -> Iterator[Stream]:
        """Opens a stream of small commits until the block ends: ``stream.write(rows)``, ``stream.commit()``.

        Each commit is a transaction with one delta. Everybody who begins to read after it sees the delta. Transactions and
        write IDs are allocated ahead, for a second at most; unused ones are aborted. It is an error if rows still wait for a
        commit when the block ends; if the block raises, they are dropped.

        Args:
            partition: values of partition columns, by name; the rows then lack these columns.
            time_zone: as for ``append``.

        Raises:
            Refused: a transaction loaded this table, but a stream has its own transactions; the mode of the table is
                observe; or rows were not committed.
            NotSupported: we do not write such a table.
        """
        if self._txn is not None:
            raise Refused(
                f"{self.name}: a stream has its own transactions; load the table from the store, not from a transaction"
            )
        with open_stream(self._site, self._table, WriteOptions(partition=partition, time_zone=time_zone)) as stream:
            yield stream

    def delete(self, where: str | None = None) -> int:
        """Deletes the rows for which ``where`` is true (without it, all rows) and returns their number.

        Raises:
            BadExpression: ``where`` does not follow the grammar of filters.
            NotSupported: we do not write such a table.
            LockNotGranted: somebody holds a conflicting lock for longer than compactor.lock.wait.
            WriteConflict: another transaction updated or deleted in the same place and committed first.
        """
        with self._writing() as txn:
            return delete(txn, self._table, where)

    def update(self, assignments: Mapping[str, str], where: str | None = None) -> int:
        """Updates the rows for which ``where`` is true and returns their number.

        Args:
            assignments: the new value of each column: a literal as in a filter (``"'done'"``, ``"7.5"``), ``"NULL"``, or the
                name of another column.

        Raises:
            BadExpression: ``where`` or a value does not follow the grammar.
            NotConforming: a value does not fit its column's type.
            NotFound: the table has no such column.
            NotSupported: a partition or bucketing column is assigned, or we do not write such a table.
            LockNotGranted, WriteConflict: as for ``delete``.
        """
        with self._writing() as txn:
            return update(txn, self._table, assignments, where)

    def upsert(self, rows: RowSource, join_cols: Sequence[str], *, time_zone: str | None = None) -> Upserted:
        """Replaces the rows with the same values of ``join_cols``, and adds the others.

        The lock excludes all other writers of the table. NULL equals nothing. Arguments and errors are those of ``append``.

        Raises:
            NotConforming: as for ``append``, or two of ``rows`` have the same key.
            WriteConflict: another transaction wrote into the table while this one waited for its lock.
        """
        with self._writing() as txn:
            return upsert(txn, self._table, rows, _names(join_cols), WriteOptions(time_zone=time_zone))

    @contextmanager
    def mutate(self, key: Sequence[str] | None = None, *, time_zone: str | None = None) -> Iterator[Mutation]:
        """Collects inserts, updates and deletes of single rows, and runs them when the block ends.

        They run in order, as one statement.

        Use ``mutation.insert(rows)``, ``mutation.update(rows)`` and ``mutation.delete(rows)``. If the block raises, nothing
        is changed.

        Args:
            key: the columns that identify rows. No key is inserted twice, and if something is inserted the lock excludes all
                other writers. None identifies rows by ROW__ID, which needs a table that a transaction loaded: a ROW__ID is
                meaningless outside the transaction that read it.
            time_zone: as for ``append``.

        Raises:
            NotFound: a row to update or delete does not exist, or the table has no such column.
            Refused: a row to insert exists already, a key belongs to several rows, or the mode is observe; without a key
                also if no transaction loaded this table.
            NotSupported: an update changes a partition or bucketing column, or we do not write such a table.
            LockNotGranted, WriteConflict: as for ``upsert``.
        """
        must_write(self._site.settings_for(self._table), self.name)
        if key is None and self._txn is None:
            raise Refused(
                f"{self.name}: ROW__IDs are meaningless outside the transaction that read them; load the table in a "
                "transaction, or give a key"
            )
        with tempfile.TemporaryDirectory(prefix="compactor-mutation-") as scratch:
            must_be_writable(self._site, self._table)
            columns = None if key is None else _names(key)
            mutation = Mutation(self._site, self._table, columns, WriteOptions(time_zone=time_zone), scratch)
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
        """Requests a compaction of the table, of each of its partitions, or of one, and returns the requests.

        Args:
            kind: ``major``, ``minor`` or ``rebalance``.
            partition: the stored name (``day=2026-11-01``), or ``day=…,hour=…`` with plain values.
            wait: return once all compactions have ended, and raise if one did not succeed.
            timeout_s: how long to wait; by default hive.compactor.wait.timeout.
            here: run the compactions in this process, for places without a worker. Cleaning is still the cleaner's job.

        Raises:
            NotFound: the partition does not exist; or the table was renamed or dropped since it was loaded.
            Refused: nothing can be requested; the message has the reason.
            CompactionFailed: with ``wait``: a compaction was refused, failed or was aborted.
            WaitTimedOut: with ``wait``: the timeout has passed; the compactions continue.
        """
        find_loaded(self._site.metastore.catalog, LoadedTable.from_table(self._table))
        return compact(self._site, self._table, kind, partition=partition, timeout_s=timeout_s, here=here, wait=wait)

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        """Yields the transaction that loaded the table, or a new one for a single statement.

        Raises:
            Refused: the table's mode is observe.
        """
        must_write(self._site.settings_for(self._table), self.name)
        if self._txn is not None:
            self._txn.check()
            with self._txn.whole_statement():
                yield self._txn
            return
        with transaction(self._site, role="program", writes=[self._table]) as txn:
            yield txn


def _names(columns: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of columns; a single text is one name, not a sequence of letters."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A compaction that was requested."""

    id: int  #: CQ_ID
    partition: str | None
    state: str  #: as ``compactor show compactions`` calls it


def compact(
    site: Site,
    table: values.Table,
    kind: str,
    *,
    partition: str | None,
    timeout_s: float | None,
    here: bool,
    wait: bool,
) -> tuple[Compaction, ...]:
    """Requests compactions; see ``Table.compact``."""
    requests = request_compaction(site, table=str(table), partition=partition, type=kind)
    ids = [request.entry_id for request in requests if request.entry_id is not None]
    if here:
        _work(site, ids)
    if wait:
        longest = site.settings.milliseconds("hive.compactor.wait.timeout") / 1000
        _must_be_done(wait_for(site, ids, longest if timeout_s is None else timeout_s))
    entries = [site.metastore.entries.get(id) for id in ids]
    return tuple(
        Compaction(id=entry.id, partition=entry.entity.partition, state=entry.state.label) for entry in entries
    )


def _work(site: Site, ids: Sequence[int]) -> None:
    must_be_ours(site)
    others = entries_of_other_users(site, ids)
    run_entries(site, [id for id in ids if id not in others], InProcessRunner())


def _must_be_done(entries: Sequence[Entry]) -> None:
    """Checks that every compaction succeeded, or had nothing to compact.

    Raises:
        CompactionFailed: a compaction ended in another state.
    """
    failed = [entry for entry in entries if entry.state not in _DONE]
    if failed:
        raise CompactionFailed("; ".join(map(_describe_failure, failed)))


def _describe_failure(entry: Entry) -> str:
    return f"{entry.entity}: compaction {entry.id} {entry.state.label}: {entry.error or 'no reason was recorded'}"
