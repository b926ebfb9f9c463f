"""Stages the files of one of several processes that write the rows of a statement.

The driver publishes them.

Each writer has its own statement ID, like the branches of Hive's UNION ALL, and its own first row number, so that row
numbers of several writers do not collide (PROTOCOL 14.15). Nobody knows of staged files until the driver accepts them, so a
writer that is retried, or that runs twice, writes nothing twice.

The delete events and new rows of a change are written in one pass over the same rows, so that the two halves of an update
come from one evaluation.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap

import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.bucket import MAX_STATEMENT
from compactor.acid.names import BucketFile, DeltaKind
from compactor.base.errors import Refused
from compactor.rewrite.full_acid.delete_events import SortedEvents
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.run.attempt_files import attempt_folder, hand_over
from compactor.storage.protocol import Storage
from compactor.tables.writing.conform import Door
from compactor.tables.writing.merge_check import ChangedRows
from compactor.tables.writing.statement_files import (
    WaitingRows,
    divide_rows,
    join_batches,
    write_deleted,
    write_inserts,
)
from compactor.tables.writing.writer_messages import ChangedPart, SharedChange, SharedStatement, WrittenPart

ROWS = 1 << 36  #: the distance of the first row IDs of two writers; 4,096 of them stay below 2^48
TARGET = "row__target"  #: the number of a row's table among the written tables


def write_part(
    work: SharedStatement, rows: Iterable[pa.RecordBatch], writer: int, storage: Storage
) -> tuple[WrittenPart, ...]:
    """Writes the rows of writer ``writer``, and returns what it staged for each of their partitions.

    Raises:
        Refused: there are more writers than statement IDs.
        NotConforming: a column or value does not fit the table.
        StorageError: a file cannot be written.
    """
    must_have_a_statement(work, writer)
    with tempfile.TemporaryDirectory(prefix="compactor-write-") as scratch:
        parts = stage_inserts(work, map(build_door(work).conform, join_batches(rows)), writer, storage, scratch)
    make_durable(storage, parts)
    return parts


def must_have_a_statement(work: SharedStatement, writer: int) -> None:
    """Refuses a writer for which there is no statement ID.

    Raises:
        Refused: its number is too large.
    """
    if writer > MAX_STATEMENT:
        raise Refused(
            f"{work.table}: there is no statement ID for writer {writer}; a statement has {MAX_STATEMENT + 1} writers at "
            "most; repartition the rows into fewer tasks"
        )


def build_door(work: SharedStatement, *, is_assignment: bool = False) -> Door:
    """Returns the door through which a statement's rows enter its table."""
    columns = tuple((column.name, column.type) for column in (*work.table.columns, *work.table.partition_keys))
    return Door(
        table=str(work.table),
        columns=columns,
        time_zone=work.time_zone,
        is_assignment=is_assignment,
        is_gregorian=work.is_gregorian,
    )


def stage_inserts(
    work: SharedStatement, rows: Iterable[pa.Table], writer: int, storage: Storage, scratch: str
) -> tuple[WrittenPart, ...]:
    """Stages fitted rows, see ``write_part``; nothing is durable yet.

    Args:
        scratch: a directory for rows that do not fit into memory.
    """
    waiting = divide_rows(work.table, rows, scratch)
    return tuple(_stage(work, name, files, writer, storage) for name, files in sorted(waiting.items()))


def make_durable(storage: Storage, parts: Iterable[WrittenPart]) -> None:
    """Makes staged parts durable.

    Raises:
        StorageError: a part could not be made durable.
    """
    for error in storage.sync([part.directory for part in parts]).values():
        raise error


def _stage(
    work: SharedStatement, partition: str, files: Mapping[int, WaitingRows], writer: int, storage: Storage
) -> WrittenPart:
    home = f"{work.attempts}/{secrets.token_hex(8)}"
    with attempt_folder(storage, home) as folder:
        outputs = [
            write_inserts(
                folder,
                work.table,
                waiting,
                write_id=work.write_id,
                statement_id=writer,
                number=number,
                first_row=writer * ROWS,
                is_gregorian=work.is_gregorian,
            )
            for number, waiting in sorted(files.items())
        ]
        staged = hand_over(storage, outputs, home, full=False)
    return WrittenPart(partition=partition, statement_id=writer, directory=home, outputs=staged)


def values_column(target: int) -> str:
    """Returns the name of the column with the rows of table number ``target``, as structs.

    The structs are NULL for rows of other tables.
    """
    return f"row__values_{target}"


def write_parts(
    works: Sequence[SharedStatement], rows: Iterable[pa.RecordBatch], writer: int, storage: Storage
) -> tuple[tuple[WrittenPart, ...], ...]:
    """Writes the rows of writer number ``writer``.

    Returns what it staged for each of ``works``; see ``write_part``.
    """
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


def write_changes(work: SharedChange, batches: Iterable[pa.RecordBatch], writer: int, storage: Storage) -> ChangedPart:
    """Writes the changes in ``batches``, see ``merge_check``, as writer number ``writer``.

    Raises:
        Refused: there are more writers than statement IDs, or a row is matched by several rows of the source.
        NotConforming: a value does not fit its column's type.
        StorageError: a file cannot be written.
        VerificationFailed: the rows of a file are out of order.
    """
    must_have_a_statement(work.rows, writer)
    with tempfile.TemporaryDirectory(prefix="compactor-change-") as scratch:
        door = build_door(work.rows, is_assignment=True)
        columns = [name for name, _ in door.columns]
        rows = ChangedRows(door.table, columns, work.rows.write_id, scratch, is_checked=work.is_checked)
        whole = (batch for part in join_batches(batches) for batch in part.combine_chunks().to_batches())
        conformed = starmap(door.conform, rows.inserts(whole))
        inserted = stage_inserts(work.rows, conformed, writer, storage, scratch)
        deleted = tuple(
            _stage_deletes(work.rows, *deletes, writer, storage) for deletes in sorted(rows.deletes().items())
        )
    make_durable(storage, (*deleted, *inserted))
    return ChangedPart(parts=(*deleted, *inserted), counts=rows.counts)


def _stage_deletes(
    work: SharedStatement, partition: str, files: Mapping[int, SortedEvents], writer: int, storage: Storage
) -> WrittenPart:
    home = f"{work.attempts}/{secrets.token_hex(8)}"
    with attempt_folder(storage, home) as folder:
        outputs = []
        for number, events in files.items():
            path = f"{folder}/{BucketFile(number=number).name}"
            outputs.append(output_of(DeltaKind.DELETE, path, number, write_deleted(path, work.table.row_type, events)))
        staged = hand_over(storage, outputs, home, full=False)
    return WrittenPart(partition=partition, statement_id=writer, directory=home, outputs=staged, kind=DeltaKind.DELETE)
