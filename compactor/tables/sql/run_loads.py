"""LOAD DATA LOCAL: loads the rows of ORC files on this machine; the files stay where they are.

Hive moves the files themselves into a delta, where Trino cannot read them. We write their rows as an INSERT does; the rows
of a single file get the same ROW__IDs as in Hive.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from compactor.base.errors import NotConforming, NotSupported, Refused, SnapshotExpired, StorageError
from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import Types
from compactor.rows.inputs import Input
from compactor.rows.remote_source import open_source
from compactor.site.site import Site
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.tables.reading.scan_planning import find_default_zone
from compactor.tables.reading.scan_task_reader import read_task
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.schema import IN_PARTS, arrow_schema, select
from compactor.tables.sql.named_partitions import key_values
from compactor.tables.sql.sql_session import Answer, Session, build_result, format_count
from compactor.tables.transactions.held_locks import is_hive_4
from compactor.tables.writing.append import must_be_writable


def load(session: Session, statement: Statement, action: parsed_actions.Load) -> Answer:
    """Appends the rows of files to a table, or replaces its rows by them.

    Raises:
        NotConforming: a file has other columns than the table.
        BadFile: a file is not ORC, or is damaged.
        NotFound: the table or a partition key does not exist.
        NotSupported: we do not write such a table, or a partition key has no value.
        Refused, LockNotGranted, TransactionAborted, WriteConflict: as for ``Table.append`` and ``Table.overwrite``; Refused
            also if the files do not exist.
    """
    stored = session.load_table(action.table)
    must_be_writable(session.site, stored)
    static = key_values(stored, action.partition)
    if missing := [key.name for key in stored.partition_keys if key.name.lower() not in static]:
        raise NotSupported(
            f"{stored}: the files of LOAD DATA have no partition columns; give the value of {missing[0]} in PARTITION (…)"
        )
    folder, files = list_local_files(session.site, action.path)
    must_have_table_columns(session.site, stored, folder, files)
    table = session.open_table(stored)
    write = table.overwrite if action.overwrite else table.append
    count = write(read_rows(session.site, stored, folder, files), partition=static or None)
    message = f"{stored}: {format_count(count)} loaded from {len(files)} files"
    return build_result(statement.name, message, table=str(stored), rows=count, files=[file.path for file in files])


def list_local_files(site: Site, path: str) -> tuple[str, list[Input]]:
    """Returns the directory and the files of a path on this machine, or of its ``file:`` URL, in order.

    The path is a file or a directory of files. As in Hive, hidden files are left out.

    Raises:
        Refused: there is no file, or something other than files.
        StorageError: the path cannot be read.
    """
    plain = _strip_scheme(path)
    if not plain:
        raise Refused("LOAD DATA: the path is empty; expected an ORC file, or a directory of ORC files")
    try:
        return _files(site, path, Path(site.storage.resolve(f"file://{os.path.abspath(plain)}")))
    except OSError as error:
        raise StorageError(f"LOAD DATA: cannot read {path}: {error.strerror}; nothing was loaded") from error


def _strip_scheme(path: str) -> str:
    for beginning in ("file://", "file:"):
        if path.startswith(f"{beginning}/"):
            return path.removeprefix(beginning)
    return path


def _files(site: Site, path: str, place: Path) -> tuple[str, list[Input]]:
    """Does the same for a ``path`` that is at ``place``."""
    if not place.exists():
        raise Refused(f"LOAD DATA: {path} does not exist on {site.host}; expected an ORC file, or a directory of them")
    folder = place if place.is_dir() else place.parent
    entries = sorted(place.iterdir()) if place.is_dir() else [place]
    files = [entry for entry in entries if not entry.name.startswith((".", "_"))]
    if odd := next((entry for entry in files if entry.is_symlink() or not entry.is_file()), None):
        raise Refused(f"LOAD DATA: {path} holds {odd.name}, which is not a regular file; expected only ORC files")
    if not files:
        raise Refused(f"LOAD DATA: {path} holds no file; expected ORC files")
    inputs = [Input(path=file.name, length=file.stat().st_size, raw=True, group="loaded") for file in files]
    return str(folder), inputs


def must_have_table_columns(site: Site, table: Table, folder: str, files: Sequence[Input]) -> None:
    """Refuses files whose columns differ from the table's columns without its partition columns.

    Order, types and names must agree; names may also be ``_col0`` and so on, as Hive writes them.

    Raises:
        BadFile: a file is not ORC, or is truncated.
        NotConforming: a file has other columns; the message has the first difference.
    """
    expected = _columns(parse_hive_type(table.row_type))
    for file in files:
        with open_source(site.storage, f"{folder}/{file.path}") as source:
            types = read_tail(source).types
        if types.is_acid:
            raise NotConforming(
                f"{table}: {folder}/{file.path} has ACID columns, with ROW__IDs of another table; expected its plain columns"
            )
        actual = _columns(types)
        plain = [(f"_col{place}", kind) for place, (_, kind) in enumerate(expected)]
        if actual not in (expected, plain):
            odd = next((pair for pair, other in zip(actual, expected, strict=False) if pair != other), None)
            shown = f"column {odd[0]} {odd[1]}" if odd and len(actual) == len(expected) else f"{len(actual)} columns"
            raise NotConforming(
                f"{table}: {folder}/{file.path} has {shown}; expected "
                f"{', '.join(f'{name} {kind}' for name, kind in expected)}, in this order"
            )


def _columns(types: Types) -> list[tuple[str, str]]:
    top = types[0]
    names = [name.lower() for name in top.field_names]
    return [(name, schema_text(types, child)) for name, child in zip(names, top.children, strict=True)]


def read_rows(site: Site, table: Table, folder: str, files: Sequence[Input]) -> pa.RecordBatchReader:
    """Returns the rows of the files in order, without partition columns.

    Reading raises StorageError for a file that changed since it was checked, and BadFile for a damaged one.
    """
    columns = [column.name for column in table.columns]
    schema = arrow_schema(table, select(table, columns), timestamps=IN_PARTS)
    plan = ScanPlan(
        table=str(table),
        txn=0,
        write_ids=site.write_ids(table, site.metastore.transactions.snapshot()),
        row_type=table.row_type,
        names=tuple(columns),
        schema=schema,
        comparable=schema,
        columns=tuple(range(len(columns))),
        default_zone=find_default_zone(site, table),
        is_gregorian=not is_hive_4(site),
    )
    task = ScanTask(location=folder, number=0, inserts=tuple(files), deletes=())

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from read_task(plan, task, site.storage)
        except SnapshotExpired as error:
            raise StorageError(
                f"{table}: a file in {folder} changed while it was loaded; nothing was loaded: {error.__cause__}"
            ) from error

    return pa.RecordBatchReader.from_batches(schema, batches())
