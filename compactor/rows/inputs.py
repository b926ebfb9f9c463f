"""The files with the rows and delete events of one file number, and the facts needed to read each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import AcidDir
from compactor.acid.names import Base
from compactor.ids import WriteId


class Input(NamedTuple):  # a tuple, since units with many of them go to other processes
    """A file to read. In ``raw`` files ``write_id`` and ``statement_id`` are used for the rows' synthetic ROW__IDs.

    ``group`` names the raw files across which row numbers continue: a table's originals, or one delta's files.
    """

    path: str  #: relative to the partition's directory
    length: int
    raw: bool = False
    write_id: WriteId = WriteId(0)
    statement_id: int | None = None
    group: str = ""
    has_flush_length: bool = False


def inputs_of_originals(directory: AcidDirectory) -> Iterator[tuple[int, Input]]:
    """Yields the file number and input of each original file, in path order."""
    for file in directory.originals:
        yield file.number, Input(path=file.path, length=file.length, raw=True, group="originals")


def inputs_of_directory(directory: AcidDir) -> Iterator[tuple[int, Input]]:
    """Yields the file number and input of each data file of a base or delta, in path order."""
    acid = directory.acid
    write_id, statement_id = (acid.write_id, None) if isinstance(acid, Base) else (acid.min_write_id, acid.statement_id)
    for file in directory.files:
        yield (
            file.number,
            Input(
                path=file.path,
                length=file.length,
                raw=file.raw,
                write_id=write_id,
                statement_id=statement_id,
                group=directory.directory,
                has_flush_length=file.has_flush_length,
            ),
        )
