"""Files of ORC that are loaded into a table (LOAD DATA LOCAL): all are looked at before a row is written.

Hive puts the files themselves into a delta, where Trino cannot read them. Here their rows are written as those of an INSERT
are; those of one file get the ROW__IDs that Hive gives them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from compactor.base.errors import NotConforming, Refused, SnapshotExpired, StorageError
from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import Types
from compactor.rows.inputs import Input
from compactor.rows.remote_source import open_source
from compactor.site.site import Site
from compactor.tables.reading.scan_planning import find_default_zone
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.reading.task_reader import read_task
from compactor.tables.schema import IN_PARTS, arrow_schema, select


def local_files(site: Site, path: str) -> tuple[str, list[Input]]:
    """Returns the directory and the files of a path of this machine, or of its ``file:`` URL, in their order: a file, or
    those of a directory; hidden ones are left out, as Hive does.

    Raises:
        Refused: there is no file, or something else than files.
        StorageError: they cannot be looked at.
    """
    plain = _of_url(path)
    if not plain:
        raise Refused("LOAD DATA: the path is empty; wanted that of a file of ORC, or of a directory of them")
    try:
        return _files(site, path, Path(site.storage.resolve(f"file://{os.path.abspath(plain)}")))
    except OSError as error:
        raise StorageError(f"LOAD DATA: cannot look at {path}: {error.strerror}; nothing was loaded") from error


def _of_url(path: str) -> str:
    for beginning in ("file://", "file:"):
        if path.startswith(f"{beginning}/"):
            return path.removeprefix(beginning)
    return path


def _files(site: Site, path: str, place: Path) -> tuple[str, list[Input]]:
    """Returns the same for a ``path`` that lies at ``place``."""
    if not place.exists():
        raise Refused(f"LOAD DATA: {path} is not there on {site.host}; wanted a file of ORC, or a directory of them")
    folder = place if place.is_dir() else place.parent
    every = sorted(place.iterdir()) if place.is_dir() else [place]
    found = [one for one in every if not one.name.startswith((".", "_"))]
    if odd := next((one for one in found if one.is_symlink() or not one.is_file()), None):
        raise Refused(f"LOAD DATA: {path} holds {odd.name}, which is no regular file; wanted files of ORC alone")
    if not found:
        raise Refused(f"LOAD DATA: {path} holds no file; wanted files of ORC")
    inputs = [Input(path=one.name, length=one.stat().st_size, raw=True, group="loaded") for one in found]
    return str(folder), inputs


def must_have_its_columns(site: Site, table: Table, folder: str, files: Sequence[Input]) -> None:
    """Refuses files that have other columns than the table has beside its partition columns: by their order, their types,
    and their names, which may be ``_col0`` and so on as Hive writes them.

    Raises:
        BadFile: a file is not ORC, or is cut off.
        NotConforming: a file has other columns; the message has the first one.
    """
    wanted = _columns(parse_hive_type(table.row_type))
    for file in files:
        with open_source(site.storage, f"{folder}/{file.path}") as source:
            types = read_tail(source).types
        if types.is_acid:
            raise NotConforming(
                f"{table}: {folder}/{file.path} has ACID columns, with ROW__IDs of another table; wanted its plain columns"
            )
        found = _columns(types)
        plain = [(f"_col{place}", kind) for place, (_, kind) in enumerate(wanted)]
        if found not in (wanted, plain):
            odd = next((pair for pair, one in zip(found, wanted, strict=False) if pair != one), None)
            shown = f"column {odd[0]} {odd[1]}" if odd and len(found) == len(wanted) else f"{len(found)} columns"
            raise NotConforming(
                f"{table}: {folder}/{file.path} has {shown}; wanted are {', '.join(f'{n} {k}' for n, k in wanted)}, in this "
                "order"
            )


def _columns(types: Types) -> list[tuple[str, str]]:
    top = types[0]
    names = [name.lower() for name in top.field_names]
    return [(name, schema_text(types, child)) for name, child in zip(names, top.children, strict=True)]


def rows_of(site: Site, table: Table, folder: str, files: Sequence[Input]) -> pa.RecordBatchReader:
    """Returns the rows of the files in their order, without partition columns. Reading them raises StorageError for a file
    that was changed since it was looked at, and BadFile for one that is damaged."""
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
    )
    task = ScanTask(location=folder, number=0, inserts=tuple(files), deletes=())

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from read_task(plan, task, site.storage)
        except SnapshotExpired as error:
            raise StorageError(
                f"{table}: a file in {folder} changed while it was loaded, and nothing is: {error.__cause__}"
            ) from error

    return pa.RecordBatchReader.from_batches(schema, batches())
