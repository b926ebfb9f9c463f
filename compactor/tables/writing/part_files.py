"""Stages the files of one of several processes that write the rows of a statement; the driver publishes them.

Each writer has its own statement ID, like the branches of Hive's UNION ALL, and its own first row number, so that row
numbers of several writers do not collide (PROTOCOL 14.15). Nobody knows of staged files until the driver accepts them, so a
writer that is retried, or that runs twice, writes nothing twice.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Mapping

import pyarrow as pa

from compactor.acid.bucket import MAX_STATEMENT
from compactor.base.errors import Refused
from compactor.rewrite.run.attempt_files import attempt_folder, hand_over
from compactor.storage.protocol import Storage
from compactor.tables.writing.conform import Door
from compactor.tables.writing.divided import divide_rows, join_batches
from compactor.tables.writing.insert_files import WaitingRows, write_inserts
from compactor.tables.writing.shared_statement import SharedStatement
from compactor.tables.writing.written_part import WrittenPart

ROWS = 1 << 36  #: the distance of the first row IDs of two writers; 4,096 of them stay below 2^48


def write_part(
    work: SharedStatement, rows: Iterable[pa.RecordBatch], writer: int, storage: Storage
) -> tuple[WrittenPart, ...]:
    """Writes the rows of writer number ``writer``, and returns what it staged for each partition among them.

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
    return Door(table=str(work.table), columns=columns, time_zone=work.time_zone, is_assignment=is_assignment)


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
                calendar=work.calendar,
            )
            for number, waiting in sorted(files.items())
        ]
        staged = hand_over(storage, outputs, home, full=False)
    return WrittenPart(partition=partition, statement_id=writer, directory=home, outputs=staged)
