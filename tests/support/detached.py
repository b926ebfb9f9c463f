"""Data files of small ACID tables, and PyIceberg as their reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO, _pyarrow_to_schema_without_ids
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.mirror.data_files import REFUSE, DetachedFile, write_data_file
from compactor.mirror.manifest_entries import data_file_entry
from compactor.mirror.position_deletes import delete_file_entry, write_position_deletes
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import JULIAN, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import LocalSource
from compactor.rows.inputs import Input
from compactor.storage.local import LocalStorage
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask

FIRST_FILE = 1 << 29  #: the bucket property of file 0, statement 0
_NO_ROWS = pa.schema([])


def iceberg_schema(row_type: str) -> Schema:
    """Returns the Iceberg schema of a Hive row type, with IDs in the order of PyIceberg."""
    arrow = arrow_type(parse_hive_type(row_type))
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(pa.schema(list(_in_microseconds(arrow)))))


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, _in_microseconds(inner.type)) for inner in kind])
    if pa.types.is_list(kind):
        return pa.list_(_in_microseconds(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_in_microseconds(kind.key_type), _in_microseconds(kind.item_type))
    return kind


@dataclass(kw_only=True)
class SmallTable:
    """The ACID files below ``root``, with rows of ``row_type``."""

    root: Path
    row_type: str
    options: dict[str, Any] = field(default_factory=dict)  #: of the plan
    aborted: frozenset[int] = frozenset()
    inputs: list[Input] = field(default_factory=list)

    @property
    def schema(self) -> Schema:
        return iceberg_schema(self.row_type)

    def write(
        self, rows: Sequence[Any], *, write_id: int = 1, first: int = 0, row_type: str | None = None, **options: Any
    ) -> Input:
        """Writes inserts with dense keys in a delta of their own."""
        keys = [(write_id, FIRST_FILE, first + at) for at in range(len(rows))]
        return self.write_keyed(keys, rows, row_type=row_type, **options)

    def write_keyed(
        self,
        keys: Sequence[tuple[int, int, int]],
        rows: Sequence[Any],
        *,
        row_type: str | None = None,
        raw: bool = False,
        **options: Any,
    ) -> Input:
        """Writes inserts with these keys; each was written by the write ID in its key."""
        types = parse_hive_type(row_type or self.row_type)
        folder = self.root / f"delta_{len(self.inputs) + 1:07}_{len(self.inputs) + 1:07}_0000"
        folder.mkdir(parents=True)
        path = folder / ("000000_0" if raw else "bucket_00000")
        schema = schema_text(types if raw else acid_types(types))
        with open(path, "wb") as file, pyorc.Writer(file, schema, **options) as writer:
            for key, row in zip(keys, rows, strict=True):
                writer.write(row if raw else (0, *key, key[0], row))
        return self.add(path, raw=raw)

    def count_in_julian_days(self) -> None:
        """Makes the last file say, as those of Hive do, that its early days are of the Julian calendar."""
        path = self.root / self.inputs[-1].path
        with LocalSource(path) as source:
            tail = read_tail(source)
        end = tail_bytes(replace(tail, calendar=JULIAN))
        path.write_bytes(path.read_bytes()[: tail.stripes[-1].end] + end)
        self.inputs[-1] = self.inputs[-1]._replace(length=path.stat().st_size)

    def add(self, path: Path, *, raw: bool = False) -> Input:
        """Adds a file that is there already."""
        self.inputs.append(
            Input(
                path=str(path.relative_to(self.root)),
                length=path.stat().st_size,
                raw=raw,
                write_id=WriteId(len(self.inputs) + 1),
                group=path.parent.name,
            )
        )
        return self.inputs[-1]

    @property
    def task(self) -> ScanTask:
        return ScanTask(location=str(self.root), number=0, inserts=tuple(self.inputs), deletes=())

    @property
    def plan(self) -> ScanPlan:
        """The plan that sees every row whose write was not aborted."""
        values: dict[str, Any] = {
            "table": "d.t",
            "txn": 1,
            "write_ids": ValidWriteIdList(
                table="d.t", high_watermark=WriteId(1000), aborted=frozenset(map(WriteId, self.aborted))
            ),
            "row_type": self.row_type,
            "names": parse_hive_type(self.row_type)[0].field_names,
            "schema": _NO_ROWS,
            "comparable": _NO_ROWS,
            "columns": (),
        }
        return ScanPlan(**{**values, **self.options})

    def detach(
        self, source: Input | None = None, *, timestamps: str = REFUSE, for_pyiceberg: bool = True
    ) -> DetachedFile | None:
        """Writes the data file of an ACID file, of the last one by default."""
        target = self.root / "data" / f"{len(list((self.root).glob('data/*')))}.orc"
        target.parent.mkdir(exist_ok=True)
        return write_data_file(
            self.plan,
            self.task,
            source or self.inputs[-1],
            schema=self.schema,
            target=str(target),
            storage=LocalStorage(),
            timestamps=timestamps,
            for_pyiceberg=for_pyiceberg,
        )

    def read(self, files: Iterable[DetachedFile | None], deleted: Sequence[int] = ()) -> list[tuple[Any, ...]]:
        """Returns the rows that PyIceberg shows of data files; ``deleted`` are positions in each."""
        return [tuple(row.values()) for row in read_by_pyiceberg(self.schema, files, deleted).to_pylist()]


def read_by_pyiceberg(schema: Schema, files: Iterable[DetachedFile | None], deleted: Sequence[int] = ()) -> pa.Table:
    """Returns the rows that PyIceberg shows of data files; ``deleted`` are positions in each."""
    metadata = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///nowhere")
    tasks = []
    for file in files:
        if file is None:
            continue
        uri, deletes = f"file://{file.path}", set()
        if len(deleted):
            written = write_position_deletes(LocalStorage(), f"{file.path}.deletes", uri, np.array(deleted, np.int64))
            deletes.add(delete_file_entry(written, f"file://{written.path}", Record(), 0))
        tasks.append(FileScanTask(data_file_entry(uri, file.length, file.rows, file.figures, Record(), 0), deletes))
    return ArrowScan(metadata, PyArrowFileIO(), metadata.schema(), AlwaysTrue()).to_table(tasks)
