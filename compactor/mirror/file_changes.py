"""Chooses which data files of a mirror stay, go and come (PROTOCOL 15.8).

A data file stays for as long as its rows are those of a file of the table: of the file from which it was written, or of a
compaction's output. Nothing is known of an output but its write IDs, so whoever applies a choice compares counts of rows; a
choice that does not count is replaced by ``FreshFile``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.mirror.offset import MirroredFile
from compactor.rows.inputs import Input
from compactor.tables.reading.scan_tasks import NOTHING, write_id_range


class LaterWriteIds:
    """The write IDs that a snapshot sees and the mirror does not show yet.

    One that was aborted when the mirror last looked stays so, although it counts as committed once it is forgotten.
    """

    def __init__(self, old: ValidWriteIdList, new: ValidWriteIdList) -> None:
        self.is_everything = old == NOTHING
        self._ids = [] if self.is_everything else new.committed_since(old)

    def __bool__(self) -> bool:
        return self.is_everything or bool(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def any_between(self, low: WriteId, high: WriteId) -> bool:
        """Returns true if one of them lies in ``low..high``, both inclusive."""
        if self.is_everything:
            return True
        at = bisect_left(self._ids, low)
        return at < len(self._ids) and self._ids[at] <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """``files`` show the rows of ``source``, without later rows and later delete events."""

    source: Input
    files: tuple[MirroredFile, ...]
    has_later_rows: bool
    is_same: bool  #: ``source`` is the file that the mirror has seen before


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshFile:
    """``source`` gets a data file of its own."""

    source: Input


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChoice:
    """The choice for one file number; data files in ``gone`` show rows of no file any more."""

    kept: tuple[KeptFiles, ...]
    fresh: tuple[FreshFile, ...]
    gone: tuple[MirroredFile, ...]


def choose_changes(inputs: Sequence[Input], files: Iterable[MirroredFile], later: LaterWriteIds) -> TaskChoice:
    """Chooses for each input whether data files show it already, and which data files go.

    Args:
        inputs: the files with rows of one file number, as a snapshot sees them.
        files: the data files that the mirror has of this file number, in the same directory.
        later: the write IDs that the mirror does not show yet.
    """
    waiting: dict[tuple[str, int], list[MirroredFile]] = {}
    for file in files:
        waiting.setdefault((file.source, file.source_length), []).append(file)
    kept: list[KeptFiles] = []
    rest: list[Input] = []
    for source in inputs:
        low, high = write_id_range(source)
        shown = waiting.pop((source.path, source.length), None)
        if shown is None:
            rest.append(source)
        else:
            has_later = later.any_between(low, high)
            kept.append(KeptFiles(source=source, files=tuple(shown), has_later_rows=has_later, is_same=True))
    orphans = [file for group in waiting.values() for file in group]
    fresh: list[FreshFile] = []
    for source in rest:
        low, high = write_id_range(source)
        inside = [file for file in orphans if low <= file.low and file.high <= high]
        if not inside or not _is_alone(source, rest) or not _all_inside(inside, orphans, low, high):
            fresh.append(FreshFile(source=source))
            continue
        taken = {file.path for file in inside}
        orphans = [file for file in orphans if file.path not in taken]
        has_later = later.any_between(low, high)
        kept.append(KeptFiles(source=source, files=tuple(inside), has_later_rows=has_later, is_same=False))
    return TaskChoice(kept=tuple(kept), fresh=tuple(fresh), gone=tuple(orphans))


def _is_alone(source: Input, others: Collection[Input]) -> bool:
    """Returns true if ``source`` alone among new files has write IDs of its range."""
    low, high = write_id_range(source)
    return not any(
        other is not source and write_id_range(other)[0] <= high and low <= write_id_range(other)[1] for other in others
    )


def _all_inside(inside: Sequence[MirroredFile], orphans: Sequence[MirroredFile], low: WriteId, high: WriteId) -> bool:
    """Returns true if no data file lies partly in ``low..high``."""
    return len(inside) == sum(1 for file in orphans if file.low <= high and low <= file.high)
