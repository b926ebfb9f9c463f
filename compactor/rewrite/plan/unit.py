"""One unit of work: the files of one file number, and the output of rewriting them.

Values only, so they can travel.

A unit is one file number of a partition, as in every reader: delete events of ``bucket_00003`` apply only to rows of
``bucket_00003``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields, replace
from operator import add, attrgetter

from compactor.acid.names import ACID_VERSION, BucketFile, DeltaKind
from compactor.acid.row_figures import RowFigures
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import VerificationFailed
from compactor.base.ids import WriteId
from compactor.compaction.order_by import OrderBy
from compactor.compaction.states import CompactionType
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rows.inputs import Input
from compactor.settings.output_class import OutputClass
from compactor.storage.capabilities import TakenRange, Upload
from compactor.storage.store_options import StoreOptions

FIRST_WRITE_ID = WriteId(0)  #: of original rows; no event aims below it


class Shape(enum.Enum):
    """The output that a compaction makes of its inputs."""

    MAJOR = "base"  #: every visible row that is not deleted
    MINOR = "deltas"  #: the rows of the insert deltas, and the delete events aimed below them


#: The shape of each type of request that a worker handles.
SHAPES = {
    CompactionType.MAJOR: Shape.MAJOR,
    CompactionType.MINOR: Shape.MINOR,
    CompactionType.REBALANCE: Shape.MAJOR,  # planned further by ``rewrite.full_acid.rebalance``
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNumberInputs:
    """The files of one file number that a rebalance reads. Its delete events apply only to its rows."""

    number: int
    inserts: tuple[Input, ...]
    deletes: tuple[Input, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """The work of a rebalance: all ``parts`` become ``files`` files of equally many rows.

    With ``order_by``, rows get that order and ``write_id``. Otherwise they keep their order and write IDs.
    """

    parts: tuple[FileNumberInputs, ...]
    files: int
    write_id: WriteId  #: the rebalance's own, which names its base
    order_by: tuple[OrderBy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Everything that an executor needs to rewrite one file number.

    Paths are absolute, ids come as values.
    """

    location: str
    staging: str
    number: int
    shape: Shape
    inserts: tuple[Input, ...]  #: base, originals and insert deltas, in reading order
    deletes: tuple[Input, ...]
    write_ids: ValidWriteIdList
    first_write_id: WriteId  #: a minor applies delete events for rows of this write ID and later, and keeps the others
    row_type: str  #: Hive's type of ``row`` as the table has it now
    small_stripe_bytes: int = 1 << 20  #: neighbouring stripes smaller than this are re-encoded together
    split_bytes: int = 64 << 20  #: the most bytes of stripes that one task re-encodes; see ``full_acid.split``
    full_verify: bool = False
    reads_keys: bool = False  #: decode the keys of all stripes, whatever their statistics say; after ``UnforeseenKeys``
    stores: StoreOptions = field(default_factory=StoreOptions)
    rebalance: Rebalance | None = None  #: if set, ``inserts`` and ``deletes`` are those of all its parts
    file_format: FileFormat | None = None  #: of an insert-only table; None if files hold ACID rows
    final: tuple[
        tuple[DeltaKind, str], ...
    ] = ()  #: the outputs' directories, if uploads go to their final keys at once
    output_class: OutputClass | None = None  #: None for the class of the inputs
    version_1: bool = False  #: Hive 2's files, in which the newest event of a key counts
    default_zone: str | None = None  #: of times in stripes that name no zone; None if it is unknown

    @property
    def acid_version(self) -> bytes | None:
        """The ACID version in the output's metadata; None for Hive 2's files."""
        return None if self.version_1 else ACID_VERSION

    @property
    def looks_always(self) -> bool:
        """True if statistics are not trusted."""
        return self.full_verify or self.reads_keys

    @property
    def input_bytes(self) -> int:
        return sum(i.length for i in (*self.inserts, *self.deletes))

    @property
    def applies_from(self) -> WriteId:
        """The first write ID whose delete events are applied. No base holds rows of a minor's range."""
        return FIRST_WRITE_ID if self.shape is Shape.MAJOR else self.first_write_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A finished attempt file at ``path`` (absolute).

    It becomes ``file_name`` in the directory of ``kind``.

    Without ``file_name`` it becomes ``bucket_<number>``.
    """

    kind: DeltaKind
    path: str
    number: int
    rows: int
    length: int
    crc32: int | None  #: None if not every byte passed through the process that wrote it
    file_name: str | None = None
    upload: Upload | None = None  #: if set, there is no file at ``path``: completing the upload names it
    ranges: tuple[TakenRange, ...] = ()  #: that the store takes over as it is uploaded
    row_figures: RowFigures | None = None  #: None if the file does not give them for all of its rows

    @property
    def name(self) -> str:
        return self.file_name or BucketFile(number=self.number).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a unit's work: rows, events, stripes and bytes."""

    rows_in: int = 0
    rows_deleted: int = 0
    rows_invisible: int = 0
    rows_out: int = 0
    events_in: int = 0
    events_invisible: int = 0
    events_applied: int = 0  #: dropped with their rows, or because nothing can hold their rows
    events_out: int = 0
    stripes_copied: int = 0
    stripes_encoded: int = 0
    stripes_dropped: int = 0
    bytes_copied: int = 0
    bytes_taken_over: int = 0  #: by the file system or store, without passing through the process
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    core_seconds: float = field(default=0.0, compare=False)  #: processor time of its tasks

    def __add__(self, other: Figures) -> Figures:
        return Figures(**dict(zip(_FIGURES, map(add, _numbers(self), _numbers(other)), strict=True)))

    def check(self, location: str, shape: Shape) -> None:
        """Checks that no row is missing, and no delete event of a minor.

        Raises:
            VerificationFailed: the sums do not agree.
        """
        if self.rows_in != self.rows_out + self.rows_deleted + self.rows_invisible:
            raise VerificationFailed(
                f"{location}: {self.rows_in} rows were read and {self.rows_out} written, {self.rows_deleted} are deleted "
                f"and {self.rows_invisible} invisible; the sum must agree. Nothing was changed; please report this"
            )
        if shape is Shape.MINOR and self.events_in != self.events_out + self.events_applied + self.events_invisible:
            raise VerificationFailed(
                f"{location}: {self.events_in} delete events were read and {self.events_out} written, "
                f"{self.events_applied} applied and {self.events_invisible} invisible; the sum must agree. Nothing was "
                "changed; please report this"
            )

    def without_handed_on(self) -> Figures:
        """Returns the figures of a step without the outputs that the next step reads.

        Added to the figures of the next step, they describe the inputs of the first step and the outputs of the second.
        """
        return replace(
            self,
            rows_in=self.rows_in - self.rows_out,
            rows_out=0,
            events_in=self.events_in - self.events_out,
            events_out=0,
            stripes_copied=0,
            stripes_encoded=0,
            bytes_copied=0,
            bytes_taken_over=0,
            files_in=self.files_in - self.files_out,
            files_out=0,
            bytes_in=self.bytes_in - self.bytes_out,
            bytes_out=0,
        )


_FIGURES = tuple(figure.name for figure in fields(Figures))
_numbers = attrgetter(*_FIGURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    number: int
    outputs: tuple[Output, ...]
    figures: Figures = field(default_factory=Figures)
    is_done: bool = True

    def plus(self, outputs: tuple[Output, ...], figures: Figures) -> UnitResult:
        """Returns the result with more outputs and figures."""
        return replace(self, outputs=(*self.outputs, *outputs), figures=self.figures + figures)

    def timed(self, seconds: float) -> UnitResult:
        """Returns the result with ``seconds`` more of processor time."""
        return self.plus((), Figures(core_seconds=seconds))


def skipped_result(unit: Unit) -> UnitResult:
    """Returns the result of a unit that did not begin. Its rows are where they were."""
    return UnitResult(number=unit.number, outputs=(), is_done=False)
