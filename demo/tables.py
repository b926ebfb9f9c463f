"""The demo's tables: a year of flights that our writer wrote, and three tables that a real Hive or Trino wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.acid import bucket
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.site.site import Site
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.transactions.transaction_block import transaction
from demo import flights
from demo.delta_writer import write_deletes, write_rows
from demo.fixtures import register_fixture
from demo.flights import Change, ChangeKind
from demo.snapshot_reader import ROW_ID_COLUMNS

DATABASE = "demo"
_THRESHOLDS = "compactorthreshold.hive.compactor.delta."


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureTable:
    """A table of the fixtures, with properties that make the initiator take it or leave it."""

    name: str
    step: str
    properties: Mapping[str, str]


_TAKE = {f"{_THRESHOLDS}num.threshold": "1"}
_LEAVE = {f"{_THRESHOLDS}num.threshold": "1000", f"{_THRESHOLDS}pct.threshold": "1000"}
FIXTURE_TABLES = (
    FixtureTable(name="hive31_aborts", step="hive-3.1/f3_abort/s1_aborts", properties=_TAKE),
    FixtureTable(name="hive41_query", step="hive-4.1/q1_query/s1_minor_not_cleaned", properties=_LEAVE),
    FixtureTable(name="trino_deletes", step="trino-476/t8_nobucket_multi/s1_trino_deletes", properties=_TAKE),
)
FLIGHTS = "flights"
TABLES = tuple((DATABASE, name) for name in (FLIGHTS, *(table.name for table in FIXTURE_TABLES)))
#: Tables that the initiator skips, to be requested by hand.
BY_HAND = tuple(Entity(database=DATABASE, table=table.name) for table in FIXTURE_TABLES if table.properties is _LEAVE)


def list_due(months: int) -> list[Entity]:
    """Returns the tables and partitions that the initiator must find."""
    partitions = [
        Entity(database=DATABASE, table=FLIGHTS, partition=name_partition(month)) for month in range(1, months + 1)
    ]
    return partitions + [
        Entity(database=DATABASE, table=table.name) for table in FIXTURE_TABLES if table.properties is _TAKE
    ]


def name_partition(month: int) -> str:
    """Returns a month's PART_NAME."""
    return f"{flights.PARTITION_KEY}={month}"


def load(site: Site, fixtures: Path, warehouse: Path, months: int, report: Callable[[str], None]) -> None:
    """Creates and fills every table of ``TABLES``, with the first ``months`` of flights."""
    site.metastore.embedded_catalog.create_database(DATABASE, str(warehouse / f"{DATABASE}.db"))
    # Transaction ids are part of the fixtures' directory names, so these come before any transaction of ours.
    for fixture in FIXTURE_TABLES:
        table = register_fixture(
            site.metastore, fixtures / fixture.step, warehouse, database=DATABASE, table=fixture.name
        )
        for key, value in fixture.properties.items():
            site.metastore.embedded_catalog.set_table_parameter(table, key, value)
    report(f"{len(FIXTURE_TABLES)} tables that Hive 3.1, Hive 4.1 and Trino wrote are registered")
    # While one connection stays open, SQLite does not checkpoint its log at the end of each of a thousand others.
    with site.metastore.database.read():
        _Flights(site, warehouse, months).write(report)


class _Flights:
    """Writes ``demo.flights`` into the warehouse."""

    def __init__(self, site: Site, warehouse: Path, months: int) -> None:
        self._site = site
        self._loaded: dict[tuple[int, int], WriteStatement] = {}
        self._days = {(month, day): rows for month, day, rows in flights.split_by_day(flights.read_flights(), months)}
        self._table = self._create(warehouse, months)

    def _create(self, warehouse: Path, months: int) -> Table:
        embedded = self._site.metastore.embedded_catalog
        table = embedded.create_table(
            NewTable(
                DATABASE,
                FLIGHTS,
                str(warehouse / f"{DATABASE}.db" / FLIGHTS),
                [Column(name=name, type=kind) for name, kind in flights.COLUMNS.items()],
                partition_keys=[Column(name=flights.PARTITION_KEY, type="int")],
                parameters={"transactional": "true", "transactional_properties": "default"},
            )
        )
        for month in range(1, months + 1):
            location = Path(self._site.storage.resolve(embedded.add_partition(table, [str(month)]).location))
            location.mkdir(parents=True)
        return table

    def write(self, report: Callable[[str], None]) -> None:
        changes = flights.plan_changes(list(self._days))
        for change in changes:
            try:
                with transaction(self._site) as txn:
                    self._apply(txn, change)
                    if not change.commits:
                        raise _ChangedMindError
            except _ChangedMindError:
                continue
        aborted = sum(not change.commits for change in changes)
        report(f"{DATABASE}.{FLIGHTS}: {len(changes) - aborted} transactions committed, {aborted} aborted")

    def _apply(self, txn: Transaction, change: Change) -> None:
        entity = Entity(database=DATABASE, table=FLIGHTS, partition=name_partition(change.month))
        if change.kind is ChangeKind.LOAD:
            statement = txn.begin_statement(entity, WriteOperation.INSERT)
            _insert(statement, self._days[change.month, change.day])
            if change.commits:
                self._loaded[change.month, change.day] = statement
            return
        old = self._read_loaded(change)
        old = old.filter(flights.select_affected(change, old))
        _delete(txn.begin_statement(entity, WriteOperation.DELETE), old)
        if change.kind is ChangeKind.CORRECT:
            new = flights.correct(old.drop_columns(list(ROW_ID_COLUMNS)))
            _insert(txn.begin_statement(entity, WriteOperation.INSERT), new)

    def _read_loaded(self, change: Change) -> pa.Table:
        """Returns the day's rows with the ROW__IDs from its load; no day is changed twice in this demo."""
        day = change.month, change.day
        return _add_row_ids(self._loaded[day], self._days[day])


def _insert(statement: WriteStatement, rows: pa.Table) -> None:
    write_rows(
        statement.location,
        statement.table.row_type,
        rows,
        write_id=statement.write_id,
        statement_id=statement.statement_id,
    )


def _delete(statement: WriteStatement, rows: pa.Table) -> None:
    write_deletes(
        statement.location,
        statement.table.row_type,
        rows,
        write_id=statement.write_id,
        statement_id=statement.statement_id,
    )


def _add_row_ids(statement: WriteStatement, rows: pa.Table) -> pa.Table:
    """Returns ``rows`` with the ROW__IDs that they got when ``statement`` wrote them into file 0."""
    count = rows.num_rows
    columns = (
        np.full(count, statement.write_id, dtype=np.int64),
        np.full(count, bucket.encode(0, statement.statement_id), dtype=np.int32),
        np.arange(count, dtype=np.int64),
    )
    for at, (name, values) in enumerate(zip(ROW_ID_COLUMNS, columns, strict=True)):
        rows = rows.add_column(at, name, pa.array(values))
    return rows


class _ChangedMindError(Exception):
    """Makes a transaction abort."""
