"""A partitioned table with many small partitions: metastore rows inserted in bulk, files as links to a few real ones."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from sqlalchemy import func, insert, select

from compactor.base.ids import WriteId
from compactor.metastore.catalog.embedded import ORC_SERDE, NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    PARTITION_KEY_VALS,
    PARTITIONS,
    SDS,
    SERDES,
    TBLS,
)
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from compactor.storage.local import LocalStorage
from demo.delta_writer import write_rows

ROWS = 10  #: of each delta
_APART = 1_000_000
_COLUMNS = (Column(name="a", type="int"), Column(name="b", type="string"))
#: Writes one statement's files below a location, with the write ID of its transaction.
Write: TypeAlias = Callable[[str, WriteId], object]


def row_type(columns: Sequence[Column]) -> str:
    """Returns Hive's type of a row of these columns."""
    return f"struct<{','.join(f'{column.name}:{column.type}' for column in columns)}>"


def site_of(metastore: Metastore, state: OwnState | None = None, **values: str) -> Site:
    """Returns a site that may do everything; keys of settings have underscores for dots."""
    given = {"compactor.mode": "clean"} | {key.replace("_", "."): value for key, value in values.items()}
    settings = Settings.of([Layer(name="flag", values=given)])
    return Site.here("default", metastore, state, LocalStorage(), settings)


def make_partitions(metastore: Metastore, warehouse: Path, count: int, *, deltas: int, name: str = "t") -> Table:
    """Creates ``default.<name>(a int, b string) partitioned by (p string)`` with ``count`` partitions of ``deltas`` tiny
    deltas.
    """
    return make_table(metastore, warehouse, count, columns=_COLUMNS, writes=[_few_rows] * deltas, name=name)


def make_table(
    metastore: Metastore, warehouse: Path, count: int, *, columns: Sequence[Column], writes: Sequence[Write], name: str
) -> Table:
    """Creates ``default.<name>`` partitioned by (p string) with ``count`` partitions that hold what ``writes`` wrote.

    Every write is one transaction with dynamic partitions, so each has the same write ID in all of them.
    """
    if "default" not in metastore.catalog.databases():
        metastore.embedded_catalog.create_database("default", str(warehouse))
    location = warehouse / name
    location.mkdir(parents=True)
    table = metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            name,
            str(location),
            list(columns),
            partition_keys=[Column(name="p", type="string")],
            parameters={"transactional": "true", "transactional_properties": "default"},
            owner="hive",
        )
    )
    names = [f"p={number:06d}" for number in range(count)]
    _register(metastore, table, names)
    model = warehouse / f".{name}"
    model.mkdir()
    for write in writes:
        txn = metastore.transactions.open("hive", "here")[0]
        write_id = metastore.write_ids.allocate(txn, table.database, table.name)
        write(str(model), write_id)
        metastore.transactions.commit(txn)
        written = {"CTC_DATABASE": table.database, "CTC_TABLE": table.name, "CTC_UPDATE_DELETE": "N"}
        written |= {"CTC_TXNID": txn, "CTC_WRITEID": write_id}
        with metastore.database.write() as conn:
            conn.execute(insert(COMPLETED_TXN_COMPONENTS), [{**written, "CTC_PARTITION": part} for part in names])
    for part in names:
        copy_tree(model, location / part)
    return table


def _few_rows(location: str, write_id: WriteId) -> None:
    rows = pa.table({"a": pa.array(range(ROWS), pa.int32()), "b": [f"row {write_id}.{i}" for i in range(ROWS)]})
    write_rows(location, row_type(_COLUMNS), rows, write_id=write_id, statement_id=0)


def _register(metastore: Metastore, table: Table, names: list[str]) -> None:
    """Inserts partitions with one statement for each kind of row; ``add_partition`` takes a dozen for each partition."""
    with metastore.database.write() as conn:
        of_table = select(SDS).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID).where(table.id == TBLS.c.TBL_ID)
        storage = dict(conn.execute(of_table).mappings().one())
        used = max(
            int(conn.execute(select(func.coalesce(func.max(column), 0))).scalar_one())
            for column in (SDS.c.SD_ID, SERDES.c.SERDE_ID, PARTITIONS.c.PART_ID)
        )
        first = (used // _APART + 1) * _APART  # out of reach of whatever draws ids
        ids = range(first, first + len(names))
        conn.execute(insert(SERDES), [{"SERDE_ID": number, "SLIB": ORC_SERDE} for number in ids])
        places = [
            {**storage, "SD_ID": number, "SERDE_ID": number, "LOCATION": f"{table.location}/{part}"}
            for number, part in zip(ids, names, strict=True)
        ]
        conn.execute(insert(SDS), places)
        row = {"CREATE_TIME": 0, "LAST_ACCESS_TIME": 0, "TBL_ID": table.id}
        parts = [
            {**row, "PART_ID": number, "SD_ID": number, "PART_NAME": part}
            for number, part in zip(ids, names, strict=True)
        ]
        conn.execute(insert(PARTITIONS), parts)
        values = [
            {"PART_ID": number, "PART_KEY_VAL": part.removeprefix("p="), "INTEGER_IDX": 0}
            for number, part in zip(ids, names, strict=True)
        ]
        conn.execute(insert(PARTITION_KEY_VALS), values)


def copy_tree(model: Path, target: Path) -> None:
    """Copies a tree of directories whose files become links, as far as the file system allows that many of them."""
    target.mkdir()
    for delta in os.scandir(model):
        os.mkdir(target / delta.name)
        for file in os.scandir(delta.path):
            _link(Path(file.path), target / delta.name / file.name)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        shutil.copyfile(source, target)
        os.replace(target, source)  # later ones are links to this one
        os.link(source, target)
