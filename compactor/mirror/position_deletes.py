"""Position deletes: which rows of a data file delete events hit, and Iceberg's files that say so.

Values are never read. Where the keys of a data file are known as runs, positions follow from arithmetic; otherwise the key
columns of its ACID file are read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from compactor.base.errors import BadFile
from compactor.mirror.visible_rows import KeyRun, find_visible_rows, open_input
from compactor.rewrite.full_acid.delete_events import Deletes
from compactor.rows.inputs import Input
from compactor.rows.keys import Numbers
from compactor.storage.protocol import Storage
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask

_PATH_ID, _POSITION_ID = 2147483546, 2147483545  #: reserved by Iceberg's specification
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)
_ROWS = 1 << 20  #: of a row group, so that readers need little memory


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesFile:
    """A file of position deletes of one data file, whose URI is ``data_file``."""

    path: str
    length: int
    rows: int
    data_file: str


def deleted_positions(keys: Iterable[KeyRun], events: Deletes) -> Numbers:
    """Returns the positions of the rows with these keys that ``events`` delete, in ascending order."""
    runs = list(keys)
    starts = accumulate((run.rows for run in runs), initial=0)
    positions = [
        start + events.row_ids(run.first, run.last) - run.first_row_id
        for start, run in zip(starts, runs, strict=False)
        if events.any_between(run.first, run.last)
    ]
    return np.unique(np.concatenate(positions)) if positions else np.empty(0, np.int64)


def read_deleted_positions(
    plan: ScanPlan, task: ScanTask, source: Input, events: Deletes, storage: Storage, *, rows: int
) -> Numbers:
    """Returns the same for a data file of ``rows`` rows whose keys are not known.

    Reads those of its ACID file ``source``.

    Raises:
        SnapshotExpired: ``source`` is gone or was replaced.
        BadFile: it cannot be read, or the plan's snapshot sees another number of rows in it.
    """
    with open_input(plan, task, source, storage) as file:
        keys = (
            [] if file is None else [run for stripe in find_visible_rows(file, plan.write_ids) for run in stripe.runs]
        )
    if (visible := sum(run.rows for run in keys)) != rows:
        raise BadFile(
            f"{os.path.join(task.location, source.path)}: the snapshot sees {visible} rows of it, its data file has {rows}; "
            "write the data file again"
        )
    return deleted_positions(keys, events)


def write_position_deletes(storage: Storage, target: str, data_file: str, positions: Numbers) -> DeletesFile:
    """Writes ``positions`` in the data file with the URI ``data_file`` to ``target``.

    A local file is durable after ``storage.sync``. The directory of ``target`` must exist.
    """
    table = pa.Table.from_arrays(
        [pa.repeat(data_file, len(positions)), pa.array(positions, pa.int64())], schema=_SCHEMA
    )
    with tempfile.TemporaryDirectory(prefix="compactor-mirror-") as scratch:
        path = storage.local_path(target) or os.path.join(scratch, "deletes")
        with open(path, "xb") as file:
            pq.write_table(table, file, row_group_size=_ROWS)
            length = file.tell()
        if path != storage.local_path(target):
            storage.upload(path, target)
    return DeletesFile(path=target, length=length, rows=len(positions), data_file=data_file)


def delete_file_entry(written: DeletesFile, path: str, partition: Record, spec_id: int) -> DataFile:
    """Returns the manifest's entry of a file of position deletes whose URI is ``path``."""
    bound = {_PATH_ID: written.data_file.encode()}
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=written.rows,
        file_size_in_bytes=written.length,
        # readers that find one data file between equal bounds skip the file for all others
        lower_bounds=bound,
        upper_bounds=bound,
    )
    entry.spec_id = spec_id
    return entry
