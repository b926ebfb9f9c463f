"""One of several processes that write the rows of one statement at once: its files, staged, for the driver to name.

Each writer has a statement ID of its own, as the branches of Hive's UNION ALL have, and numbers its rows from a start of its
own, so that they run on from one writer to the next (PROTOCOL 14.15). What it stages is known to nobody until the driver
accepts it, so a writer that is tried again, or that runs twice, writes nothing twice.
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
from compactor.tables.writing.divided import divided, together
from compactor.tables.writing.insert_files import WaitingRows, write_inserts
from compactor.tables.writing.shared_statement import SharedStatement
from compactor.tables.writing.written_part import WrittenPart

ROWS = 1 << 36  #: between the first row IDs of two writers; 4,096 of them stay below 2^48


def write_part(
    work: SharedStatement, rows: Iterable[pa.RecordBatch], writer: int, storage: Storage
) -> tuple[WrittenPart, ...]:
    """Writes the rows of writer number ``writer``, and returns what it staged, for each partition among them.

    Raises:
        Refused: there are more writers than statement IDs.
        NotConforming: a column or value is not the table's.
        StorageError: a file cannot be written.
    """
    must_have_a_statement(work, writer)
    with tempfile.TemporaryDirectory(prefix="compactor-write-") as scratch:
        found = staged_inserts(work, map(door_of(work).conform, together(rows)), writer, storage, scratch)
    make_durable(storage, found)
    return found


def must_have_a_statement(work: SharedStatement, writer: int) -> None:
    """Refuses a writer for whom there is no statement ID.

    Raises:
        Refused: it is one.
    """
    if writer > MAX_STATEMENT:
        raise Refused(
            f"{work.table}: writer {writer}, of {MAX_STATEMENT + 1} that one statement has at most; repartition the rows "
            "into fewer tasks"
        )


def door_of(work: SharedStatement, *, is_assignment: bool = False) -> Door:
    """Returns the way of a statement's rows into its table."""
    columns = tuple((column.name, column.type) for column in (*work.table.columns, *work.table.partition_keys))
    return Door(table=str(work.table), columns=columns, time_zone=work.time_zone, is_assignment=is_assignment)


def staged_inserts(
    work: SharedStatement, rows: Iterable[pa.Table], writer: int, storage: Storage, scratch: str
) -> tuple[WrittenPart, ...]:
    """Stages conformed rows, see ``write_part``; nothing is durable yet.

    Args:
        scratch: a directory for rows that are too many for the memory.
    """
    waiting = divided(work.table, rows, scratch)
    return tuple(_staged(work, name, of_number, writer, storage) for name, of_number in sorted(waiting.items()))


def make_durable(storage: Storage, parts: Iterable[WrittenPart]) -> None:
    """Makes what is staged durable.

    Raises:
        StorageError: something could not be made durable.
    """
    for error in storage.sync([part.directory for part in parts]).values():
        raise error


def _staged(
    work: SharedStatement, partition: str, of_number: Mapping[int, WaitingRows], writer: int, storage: Storage
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
            for number, waiting in sorted(of_number.items())
        ]
        outputs_there = hand_over(storage, outputs, home, full=False)
    return WrittenPart(partition=partition, statement_id=writer, directory=home, outputs=outputs_there)
