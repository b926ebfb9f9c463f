"""Plans scans for Spark, and compares the commits that a reader has seen with those of now.

A reader is a stream or DataFrame.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import BadExpression, BadStatement, Refused, WriteConflict
from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind
from compactor.rows.inputs import Input
from compactor.site.site import Site
from compactor.site.threads import SideBySide
from compactor.spark_tables.keeper.held_transaction import HeldTransaction
from compactor.spark_tables.keeper_requests import BeginChange, BeginWrite, PlannedScan, PlanScan, SeenCommits
from compactor.statements.tokens import tokenize
from compactor.storage.protocol import Storage
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import (
    All,
    Any,
    Compared,
    Condition,
    Constant,
    Missing,
    Negation,
    OneOf,
    Settled,
    ValueKind,
)
from compactor.tables.reading.scan_planning import ScanRequest, comparable_schema, plan_scan
from compactor.tables.reading.scan_tasks import NOTHING, ScanPlan, keep_later_rows
from compactor.tables.reading.versions import VersionRange
from compactor.tables.schema import IN_PARTS
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import Transaction

_TIMESTAMPS = "us"  #: the only precision of Spark
_THREADS = 16  #: files that a store is asked for at a time
_DIGITS = 18  #: numbers with at most so many digits are compared exactly by Spark


def plan_for_spark(transaction: HeldTransaction, request: PlanScan, *, rewrites: bool = False) -> PlannedScan:
    """Returns the plan of a scan under the snapshot of ``transaction``; see ``plan_scan`` for the errors.

    Args:
        rewrites: the rows are written back, so their timestamps must keep every digit.
    """
    site = transaction.txn.site
    table = named_table(site, request.table)
    filters = [request.row_filter] if request.row_filter is not None else []
    filters += [] if request.where is None else keep_alike_conditions(request.where, table)
    scan_request = ScanRequest(
        row_filter=" AND ".join(f"({text})" for text in filters) or None,
        selected_fields=request.columns,
        row_ids=request.row_ids or request.change is not None,
        timestamps=_TIMESTAMPS,
        versions=None if request.as_of is None else VersionRange(until=WriteId(request.as_of)),
    )
    shown = scan_request.schema(table)
    exact = replace(scan_request, timestamps=IN_PARTS) if rewrites else scan_request
    plan = plan_scan(transaction.txn, table, exact)
    if request.between is not None:
        plan = keep_later_rows(plan, *write_ids_between(site, table, request.between, plan.write_ids))
    plan = add_versions(plan, site.storage)
    stores = transaction.tokens.standing_in(site.storage.options, table.location)
    has_files = request.change is not None
    return PlannedScan(
        hold=transaction.hold,
        plan=plan,
        stores=stores,
        table_id=table.id,
        padded=_char_columns(table),
        has_files=has_files,
        shown=None if plan.schema.equals(shown) else shown,
    )


def add_versions(plan: ScanPlan, storage: Storage) -> ScanPlan:
    """Returns a plan whose tasks read no other files of the same names and lengths (PROTOCOL 13.3)."""

    def add_version(location: str, file: Input) -> Input:
        if file.has_flush_length:  # its writer may still extend it
            return file
        return file._replace(version=storage.version(os.path.join(location, file.path)) or "")

    with SideBySide(_THREADS, "versions") as threads:
        tasks = (
            replace(
                task,
                inserts=tuple(threads.map(partial(add_version, task.location), task.inserts)),
                deletes=tuple(threads.map(partial(add_version, task.location), task.deletes)),
            )
            for task in plan.tasks
        )
        return replace(plan, tasks=tuple(tasks))


def keep_alike_conditions(where: str, table: Table) -> list[str]:
    """Returns the parts of a condition that are true for every row for which Spark finds them true.

    These parts compare whole numbers, decimals, texts or dates with literals of the same kind. Their numbers have at most
    18 digits and no exponent: Spark compares longer numbers with less precision, and numbers with an exponent as doubles.
    """
    schema = comparable_schema(table, _TIMESTAMPS)
    parts = []
    for text in _split_at_and(where):
        with suppress(BadExpression, BadStatement):
            numbers = [token.value for token in tokenize(text) if token.kind == "number"]
            if all(len(number) <= _DIGITS and "e" not in number for number in numbers) and _is_alike(
                bind(text, schema, chars=_char_columns(table))
            ):
                parts.append(text)
    return parts


def _split_at_and(where: str) -> list[str]:
    """Returns the parts that AND joins; the whole condition if an AND may mean something else.

    Example: ``a > 1 AND (b = 2 OR c = 3)`` becomes ``a > 1`` and ``(b = 2 OR c = 3)``; ``a BETWEEN 1 AND 2`` stays whole.
    """
    try:
        where_tokens = tokenize(where)
    except BadStatement:
        return []
    depth, start, parts = 0, 0, []
    for token in where_tokens:
        if token.kind == "sign":
            depth += {"(": 1, ")": -1}.get(token.value, 0)
        elif token.kind == "word" and depth == 0 and token.value in ("or", "between"):
            return [where]
        elif token.kind == "word" and depth == 0 and token.value == "and":
            parts.append(where[start : token.start])
            start = token.end
    return [*parts, where[start:]]


def _is_alike(condition: Condition) -> bool:
    match condition:
        case All(parts=parts) | Any(parts=parts):
            return all(map(_is_alike, parts))
        case Negation(part=part):
            return _is_alike(part)
        case Compared(column=column) | OneOf(column=column) | Settled(column=column) | Missing(column=column):
            is_long = pa.types.is_decimal(column.type) and column.type.precision > _DIGITS
            return column.kind in (ValueKind.NUMBER, ValueKind.TEXT, ValueKind.DATE) and not is_long
    return isinstance(condition, Constant)


def _char_columns(table: Table) -> tuple[str, ...]:
    """Returns the columns of type char.

    This package ignores their trailing blanks in comparisons, Spark does not.
    """
    columns = (*table.columns, *table.partition_keys)
    return tuple(column.name for column in columns if parse_hive_type(column.type)[0].kind is TypeKind.CHAR)


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
            if source.is_version:
                continue
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
