"""Compares the commits of a table that a stream or a DataFrame has seen with those that it has now."""

from __future__ import annotations

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import Refused, WriteConflict
from compactor.base.ids import WriteId
from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.spark_tables.messages import BeginChange, BeginWrite, SeenCommits
from compactor.tables.reading.later_rows import NOTHING
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import Transaction

_DONE = (State.READY_FOR_CLEANING, State.SUCCEEDED)
_RESTART = "start the query with a new checkpoint"


def latest_commits(site: Site, name: str) -> SeenCommits:
    """Returns the commits that a table has now.

    Raises:
        NotFound: the table does not exist.
    """
    table = named_table(site, name)
    now = site.write_ids(table, site.metastore.transactions.snapshot())
    return SeenCommits(table_id=table.id, write_ids=str(now))


def write_ids_between(
    site: Site, table: Table, between: tuple[SeenCommits, SeenCommits], now: ValidWriteIdList
) -> tuple[ValidWriteIdList, ValidWriteIdList]:
    """Returns the write IDs that a stream has seen before a batch, and those that it has seen after it.

    Args:
        now: the write IDs by which the batch is read.

    Raises:
        Refused: the table was re-created, restored to an older state, or sorted, which gives old rows new write IDs.
    """
    start, end = (ValidWriteIdList.parse(commits.write_ids) for commits in between)
    if {commits.table_id for commits in between} != {table.id}:
        raise Refused(
            f"{table} has id {table.id}; the stream has read a table of id {between[0].table_id}: it was dropped and "
            f"re-created; {_RESTART}"
        )
    if now.high_watermark < end.high_watermark:
        raise Refused(
            f"{table} has write IDs up to {now.high_watermark}, the stream is at {end.high_watermark}: the metastore was "
            f"restored from an older copy; {_RESTART}"
        )
    _must_not_be_sorted(site, table, start, end)
    return start, end


def must_have_been_seen(txn: Transaction, table: Table, own: WriteId | None, request: BeginWrite | BeginChange) -> None:
    """Refuses to replace rows of ``table`` that the DataFrame, from which the new rows come, did not see.

    Args:
        own: the write ID of ``txn``.

    Raises:
        WriteConflict: another transaction has written into the table since the DataFrame was loaded.
        Refused: the table was dropped and re-created since the DataFrame was loaded.
    """
    here = (request.place.metastore, request.place.config)
    for source in request.sources:
        if (source.metastore, source.config) != here:
            continue
        if source.commits.table_id == table.id:
            _must_see_all(txn, table, own, ValidWriteIdList.parse(source.commits.write_ids))
        elif source.table.lower() == str(table):
            raise Refused(
                f"{table} has id {table.id}, the rows are read from a table of id {source.commits.table_id}: it was dropped "
                "and re-created since the DataFrame was loaded; load it again"
            )


def _must_see_all(txn: Transaction, table: Table, own: WriteId | None, seen: ValidWriteIdList) -> None:
    now, write_ids = txn.write_ids(table).since(seen), txn.site.metastore.write_ids
    lowest = min(seen.open, default=seen.high_watermark + 1)
    later = {WriteId(at) for at in range(lowest, now.high_watermark + 1) if at != own and now.is_valid(WriteId(at))}
    if later and (later := later - write_ids.of_compactions(table.database, table.name)):
        winner = write_ids.transactions(table.database, table.name).get(max(later), 0)
        raise WriteConflict(
            f"{table}: transaction {winner} wrote into it after the DataFrame of these rows was loaded, and its rows would "
            "be lost; load the table again and write once more",
            winner,
        )


def _must_not_be_sorted(site: Site, table: Table, start: ValidWriteIdList, end: ValidWriteIdList) -> None:
    """Refuses a rebalance with ORDER BY: Hive gives all of its rows the largest write ID."""
    if start == NOTHING:
        return
    later = end.since(start)
    entries = site.metastore.entries
    for entry in (
        *entries.queue(database=table.database, table=table.name, states=_DONE),
        *entries.history(table=(table.database, table.name), type=CompactionType.REBALANCE),
    ):
        if _sorts(entry) and entry.highest_write_id is not None and later.is_valid(entry.highest_write_id):
            raise Refused(
                f"{table} was rebalanced with {entry.order_by} (compaction {entry.id}) since the stream's last batch: its "
                f"old rows cannot be told from new ones; {_RESTART}, or read only new rows with starting=latest"
            )


def _sorts(entry: Entry) -> bool:
    return entry.type is CompactionType.REBALANCE and entry.state in _DONE and bool(entry.order_by)
