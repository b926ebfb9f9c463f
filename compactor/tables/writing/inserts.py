"""Stages rows of one Spark task for several tables; each row is in the column of its table."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from compactor.storage.protocol import Storage
from compactor.tables.writing.insert_files import WaitingRows
from compactor.tables.writing.part_files import write_part
from compactor.tables.writing.shared_statement import SharedStatement
from compactor.tables.writing.written_part import WrittenPart

TARGET = "row__target"  #: the number of a row's table among the written tables


def values_column(target: int) -> str:
    """Returns the name of the column with the rows of table number ``target``, as structs; NULL for rows of other tables."""
    return f"row__values_{target}"


def write_parts(
    works: Sequence[SharedStatement], rows: Iterable[pa.RecordBatch], writer: int, storage: Storage
) -> tuple[tuple[WrittenPart, ...], ...]:
    """Writes the rows of writer number ``writer``; returns what it staged for each of ``works``; see ``write_part``."""
    with tempfile.TemporaryDirectory(prefix="compactor-write-") as scratch:
        waiting = [WaitingRows() for _ in works]
        for batch in rows:
            for target, rows_of_target in enumerate(waiting):
                own = batch.filter(pc.equal(batch.column(TARGET), target))
                if own.num_rows:
                    structs = own.column(values_column(target))
                    rows_of_target.add(pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)]), scratch)
        return tuple(
            write_part(work, rows_of_target.batches(), writer, storage) if rows_of_target.rows else ()
            for work, rows_of_target in zip(works, waiting, strict=True)
        )
