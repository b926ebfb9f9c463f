"""Lists the files with rows and delete events by file number, with the facts needed to read each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import AcidDir
from compactor.acid.names import Base
from compactor.base.ids import WriteId


class Input(NamedTuple):  # a tuple, since units with many of them go to other processes
    """A file to read.

    In ``raw`` files ``write_id`` and ``statement_id`` are used for the rows' synthetic ROW__IDs.

    ``group`` names the raw files across which row numbers continue: a table's originals, or one delta's files.

    ``version`` is what a file that replaces this one will not share (``Storage.version``); empty if it is not compared.
    """

    path: str  #: relative to the partition's directory
    length: int
    raw: bool = False
    write_id: WriteId = WriteId(0)
    statement_id: int | None = None
    group: str = ""
    has_flush_length: bool = False
    version: str = ""


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


def inputs_by_number(directory: AcidDirectory) -> tuple[dict[int, list[Input]], dict[int, list[Input]]]:
    """Returns the files with rows and those with delete events, each by file number, in reading order."""
    inserts: dict[int, list[Input]] = defaultdict(list)
    deletes: dict[int, list[Input]] = defaultdict(list)
    for number, source in inputs_of_originals(directory):
        inserts[number].append(source)
    for delta in (*((directory.base,) if directory.base else ()), *directory.insert_deltas):
        for number, source in inputs_of_directory(delta):
            inserts[number].append(source)
    for delete_delta in directory.delete_deltas:
        for number, source in inputs_of_directory(delete_delta):
            deletes[number].append(source)
    return inserts, deletes
