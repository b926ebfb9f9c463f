"""A small table of our own writer, and what a reader that honours visibility sees of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from compactor.acid.directory import acid_directory
from compactor.acid.names import staging_name
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import Site
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from demo.delta_writer import write_deletes, write_rows
from demo.snapshot_reader import read_snapshot

NUMBERS = (0, 1)  #: every insert writes both files


def with_settings(site: Site, **values: str) -> Site:
    """Returns the same site under other settings; keys with underscores for dots (``hive_txn_timeout``).

    Aborted writes are removed as soon as they are seen, unless ``compactor_forget_grace`` is given.
    """
    given = {"compactor.mode": "clean", "compactor.forget.grace": "0s"} | {
        key.replace("_", "."): value for key, value in values.items()
    }
    return replace(site, settings=Settings.of([Layer(name="flag", values=given)]))


def make_table(site: Site, warehouse: Path, name: str = "t", *, database: str = "default", **parameters: str) -> Table:
    """Creates ``<database>.<name>(a int, b string)``, empty."""
    if database not in site.metastore.catalog.databases():
        site.metastore.embedded_catalog.create_database(database, str(warehouse))
    location = warehouse / name
    location.mkdir()
    return site.metastore.embedded_catalog.create_table(
        NewTable(
            database,
            name,
            str(location),
            [Column(name="a", type="int"), Column(name="b", type="string")],
            parameters={"transactional": "true", "transactional_properties": "default", **parameters},
        )
    )


def entity_of(table: Table) -> Entity:
    return Entity(database=table.database, table=table.name)


def leave_manifest(table: Table, txn: TxnId, *names: str) -> None:
    """Leaves a dead worker's manifest, the list of what it read, beside the directories ``names`` that it had named."""
    location = Path(table.location)
    files = [path for path in sorted(location.glob("*/*")) if path.is_file()]
    read = [path for path in files if path.parent.name not in names and not path.parent.name.startswith(".")]
    staging = location / staging_name(txn)
    staging.mkdir(exist_ok=True)
    manifest = {
        "inputs": [{"path": f"{path.parent.name}/{path.name}", "length": path.stat().st_size} for path in read],
        "directories": [{"name": name} for name in names],
    }
    (staging / "manifest.json").write_text(json.dumps(manifest))


class _Changed(Exception):
    """Makes a transaction abort."""


def insert(site: Site, table: Table, values: Iterable[int], *, commits: bool = True) -> None:
    """Inserts rows ``(v, 'row v')`` in one transaction, half of them in each file."""
    with suppress(_Changed), transaction(site) as txn:
        insert_within(txn, table, values)
        if not commits:
            raise _Changed


def insert_within(txn: Transaction, table: Table, values: Iterable[int]) -> None:
    """Inserts such rows as one statement of ``txn``."""
    rows = list(values)
    statement = txn.begin_statement(entity_of(table), WriteOperation.INSERT)
    for number in NUMBERS:
        part = [v for v in rows if v % len(NUMBERS) == number]
        if part:
            write_rows(
                statement.location,
                statement.table.row_type,
                pa.table({"a": pa.array(part, pa.int32()), "b": [f"row {v}" for v in part]}),
                write_id=statement.write_id,
                statement_id=statement.statement_id,
                number=number,
            )


def insert_as_hive(
    site: Site,
    table: Table,
    values: Iterable[int],
    *,
    recorded: Entity | None = None,
    location: str | None = None,
    commits: bool = True,
) -> None:
    """Inserts such rows into one file, as another program does: also where our own transaction refuses to write, and with a
    component of another entity, or at another place, than the table's."""
    (txn,) = site.metastore.transactions.open("ann", "h")
    write_id = site.metastore.write_ids.allocate(txn, table.database, table.name)
    site.metastore.write_ids.add_component(txn, recorded or entity_of(table), "i", write_id)
    rows = list(values)
    columns = pa.table({"a": pa.array(rows, pa.int32()), "b": [f"row {v}" for v in rows]})
    write_rows(location or table.location, table.row_type, columns, write_id=write_id, statement_id=0)
    if commits:
        site.metastore.transactions.commit(txn)
    else:
        site.metastore.transactions.abort(txn, "died")


def delete(site: Site, table: Table, values: Iterable[int]) -> None:
    """Deletes the rows with these values of ``a`` in one transaction."""
    gone = set(values)
    with transaction(site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.DELETE)
        txns = site.metastore.transactions.snapshot(txn.id)
        write_ids = site.write_ids(table, txns)
        directory = acid_directory(site.storage.listing(statement.location), write_ids, txns)
        batches = list(read_snapshot(statement.location, directory, write_ids, statement.table.row_type))
        seen = pa.Table.from_batches(batches)
        for number in NUMBERS:
            wanted = [v in gone and v % len(NUMBERS) == number for v in seen["a"].to_pylist()]
            part = seen.filter(pa.array(wanted))
            if part.num_rows:
                write_deletes(
                    statement.location,
                    statement.table.row_type,
                    part,
                    write_id=statement.write_id,
                    statement_id=statement.statement_id,
                    number=number,
                )


def story(site: Site, table: Table) -> None:
    """Runs enough inserts for a base, deletes below and within it, and an aborted insert."""
    for start in range(0, 60, 10):
        insert(site, table, range(start, start + 10))
    delete(site, table, [3, 14, 55])
    insert(site, table, range(1000, 1010), commits=False)
    insert(site, table, range(60, 70))
    delete(site, table, [4, 61])


def rows_of(site: Site, table: Table) -> list[tuple[Any, ...]]:
    """Returns every row with its ROW__ID, sorted, as a new transaction sees it; the transaction is open during the read."""
    txn = site.metastore.transactions.open("reader", site.host)[0]
    try:
        target = site.target(entity_of(table))
        txns = site.metastore.transactions.snapshot(txn)
        write_ids = site.write_ids(table, txns)
        directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
        found = [
            tuple(row.values())
            for batch in read_snapshot(target.location, directory, write_ids, target.row_type)
            for row in batch.to_pylist()
        ]
    finally:
        site.metastore.transactions.commit(txn)
    return sorted(found)
