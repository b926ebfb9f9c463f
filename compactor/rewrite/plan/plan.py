"""Plans a compaction from the state of a directory: which files are read, and how the output is named.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import AcidDir, describe_unparsable
from compactor.acid.names import Base, Delta, DeltaKind, Layout, staging_name
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import BadFile, BadName, NotLossless, NotSupported, Refused
from compactor.base.ids import ORIGINALS_ONLY, TxnId, WriteId
from compactor.base.printable import count_text
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.unit import Figures, Shape, Unit
from compactor.rows.inputs import Input, inputs_of_directory, inputs_of_originals
from compactor.settings.output_class import UNKNOWN_TO_ORC_1_5, OutputClass
from compactor.storage.store_options import StoreOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """The input that a request did not merge because of its bound.

    ``because`` names the bound; it is empty without rest.
    """

    deltas: int = 0
    bytes: int = 0
    because: str = ""
    again: bool = False  #: true if another request of the same kind gets further

    def __bool__(self) -> bool:
        return bool(self.because)

    def __str__(self) -> str:
        if not self.because:
            return ""
        left = f"; {count_text(self.deltas, 'delta')}, {self.bytes} bytes left" if self.deltas else ""
        return f"{self.because}{left}"


NOTHING_LEFT = Remainder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The work of one entry.

    ``highest_write_id`` is both the output's number and CQ_HIGHEST_WRITE_ID (PROTOCOL 1.2).

    Each of the ``chunks`` makes its own deltas (``rewrite.plan.chunks``). The other fields then describe all chunks
    together.
    """

    shape: Shape
    units: tuple[Unit, ...]
    lowest_write_id: WriteId
    highest_write_id: WriteId
    txn: TxnId
    location: str
    staging: str
    row_type: str
    inputs: tuple[str, ...]  #: top-level names of the directories and files that are read
    layout: Layout = Layout.VISIBILITY
    file_format: FileFormat | None = None  #: of an insert-only table
    chunks: tuple[Plan, ...] = ()  #: oldest first; their units, one after the other, are ``units``
    left: Remainder = NOTHING_LEFT  #: the input that a bounded request leaves to the next one
    slices: tuple[Plan, ...] = ()  #: minors of some of the deltas, done first (``rewrite.plan.slices``)
    before: Figures = field(default_factory=Figures)  #: of the slices

    @property
    def outputs(self) -> tuple[Plan, ...]:
        """The parts of the plan. Each makes one base or one pair of deltas."""
        return self.chunks or (self,)

    def directory(self, kind: DeltaKind) -> str:
        """Returns the final name of the output that holds rows (``INSERT``) or delete events (``DELETE``)."""
        visibility = self.txn if self.layout.has_visibility else TxnId(0)
        if self.shape is Shape.MAJOR:
            return Base(write_id=self.highest_write_id, visibility_txn_id=visibility).name
        return Delta(
            kind=kind,
            min_write_id=self.lowest_write_id,
            max_write_id=self.highest_write_id,
            visibility_txn_id=visibility,
        ).name

    @property
    def input_bytes(self) -> int:
        return sum(u.input_bytes for u in self.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """Everything that a plan depends on besides the state of the directory."""

    location: str
    txn: TxnId
    write_ids: ValidWriteIdList
    row_type: str
    token: str = ""  #: the random part of the staging directory's name
    layout: Layout = Layout.VISIBILITY
    small_stripe_bytes: int | None = None  #: None for the unit's own bound
    full_verify: bool = False
    stores: StoreOptions = field(default_factory=StoreOptions)  #: how executors reach the location
    file_format: FileFormat | None = None  #: of an insert-only table; None for a full ACID table
    is_bucketed: bool = True  #: the file numbers of an insert-only table are buckets
    output_class: OutputClass | None = None
    default_zone: str | None = None  #: of stripes that name no zone


def plan(directory: AcidDirectory, shape: Shape, context: PlanContext) -> Plan:
    """Plans the work that makes one base (major) or one pair of deltas (minor) out of ``directory``.

    The smallest and largest write ID of the directories that are read name the output. Its name never reaches to the high
    watermark, or over a directory that was left out (PROTOCOL 1.2).

    Raises:
        BadName: a directory's name cannot be understood, so its rows might be lost.
        BadFile: a data file has a name that gives no file number.
        Refused: there is nothing to read.
        NotLossless: rows of Hive 2 share their ROW__IDs with others.
        NotSupported: an insert-only table has files outside of its bases and deltas, or delete deltas.
    """
    location = context.location
    _check_directory(directory, context)
    deltas = directory.compactable()
    inputs = _inputs if context.file_format is None or context.is_bucketed else _any_inputs
    sources = _Sources.from_directory(directory, deltas, shape, inputs)
    if not deltas and not sources.inserts:
        raise Refused(f"{location}: nothing to compact")
    lowest, highest = _range(directory, deltas, shape)
    template = _template(context, shape, lowest)
    return Plan(
        shape=shape,
        units=sources.units(template),
        lowest_write_id=lowest,
        highest_write_id=highest,
        txn=context.txn,
        location=location,
        staging=template.staging,
        row_type=context.row_type,
        inputs=_names(directory, deltas, shape),
        layout=context.layout,
        file_format=context.file_format,
    )


def _template(context: PlanContext, shape: Shape, first_write_id: WriteId) -> Unit:
    """Returns a unit without file number and inputs."""
    template = Unit(
        location=context.location,
        staging=f"{context.location}/{staging_name(context.txn, context.token)}",
        number=0,
        shape=shape,
        inserts=(),
        deletes=(),
        write_ids=context.write_ids,
        first_write_id=first_write_id,
        row_type=context.row_type,
        full_verify=context.full_verify,
        stores=context.stores,
        file_format=context.file_format,
        output_class=_output_class(context),
        version_1=context.layout is Layout.VERSION_1,
        default_zone=context.default_zone,
    )
    if context.small_stripe_bytes is None:
        return template
    return replace(template, small_stripe_bytes=context.small_stripe_bytes)


def _output_class(context: PlanContext) -> OutputClass | None:
    """Returns the class of the output, without anything that the metastore's version of Hive cannot read."""
    if context.layout.has_visibility:
        return context.output_class
    return replace(context.output_class or OutputClass(), avoids=UNKNOWN_TO_ORC_1_5)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """The inputs by file number, in reading order."""

    inserts: Mapping[int, Sequence[Input]]
    deletes: Mapping[int, Sequence[Input]]

    @classmethod
    def from_directory(
        cls,
        directory: AcidDirectory,
        deltas: Iterable[AcidDir],
        shape: Shape,
        inputs: Callable[[AcidDir], list[tuple[int, Input]]],
    ) -> _Sources:
        inserts: dict[int, list[Input]] = defaultdict(list)
        deletes: dict[int, list[Input]] = defaultdict(list)
        if shape is Shape.MAJOR:
            for number, source in (*_originals(directory), *(inputs(directory.base) if directory.base else ())):
                inserts[number].append(source)
        for delta in deltas:
            target = inserts if delta.delta.kind is DeltaKind.INSERT else deletes
            for number, source in inputs(delta):
                target[number].append(source)
        return cls(inserts=inserts, deletes=deletes)

    def units(self, template: Unit) -> tuple[Unit, ...]:
        """Returns one unit for each file number. A major needs no unit for delete events alone."""
        numbers = {*self.inserts, *(self.deletes if template.shape is Shape.MINOR else ())}
        return tuple(
            replace(template, number=n, inserts=tuple(self.inserts.get(n, ())), deletes=tuple(self.deletes.get(n, ())))
            for n in sorted(numbers)
        )


def _check_directory(directory: AcidDirectory, context: PlanContext) -> None:
    location = context.location
    if context.file_format is not None:
        _check_holds_only_inserts(directory, location)
    if context.layout is Layout.VERSION_1:
        _check_suits_hive_2(directory, location)
    if directory.unparsable:
        raise BadName(
            f"{location}: {describe_unparsable(directory.unparsable)}; find out who wrote it and move it out of the "
            "table, then request it again"
        )


def _check_holds_only_inserts(directory: AcidDirectory, location: str) -> None:
    if directory.originals:
        raise NotSupported(
            f"{location}: {directory.originals[0].path} lies outside of every base and delta, and whether readers of an "
            "insert-only table show it depends on hive.mm.allow.originals; rewrite the partition with INSERT OVERWRITE"
        )
    if directory.delete_deltas:
        raise NotSupported(
            f"{location}: {directory.delete_deltas[0].directory} is a delete delta in an insert-only table; find out who "
            "wrote it and move it away"
        )


def _check_suits_hive_2(directory: AcidDirectory, location: str) -> None:
    """Refuses directories that Hive 2 cannot read without loss.

    Hive 2 numbers the rows of each original file from 0, so the rows of two files of one bucket share ROW__IDs. Its
    compactor reads only one of the files (``OrcInputFormat.findOriginalBucket``).
    """
    numbers: set[int] = set()
    for file in directory.originals:
        if "/" in file.path or file.number in numbers:
            raise NotLossless(
                f"{location}/{file.path}: is one of several files of bucket {file.number} from before the table was "
                "transactional, whose rows Hive 2 gives the same ROW__IDs; rewrite the partition into a new table"
            )
        numbers.add(file.number)
    for delta in directory.deltas:
        if delta.raw:
            raise NotLossless(
                f"{location}/{delta.directory}: holds files without ACID columns, which Hive 2 never writes; find out "
                "who did, and move it away"
            )


def _any_inputs(directory: AcidDir) -> list[tuple[int, Input]]:
    """Returns all files, including files with names of other writers of insert-only tables.

    Readers show them all.
    """
    group = directory.directory
    named = [(0, Input(path=f.path, length=f.length, raw=True, group=group)) for f in directory.unnumbered]
    return [*inputs_of_directory(directory), *named]


def _range(directory: AcidDirectory, deltas: Iterable[AcidDir], shape: Shape) -> tuple[WriteId, WriteId]:
    read = [d.delta for d in deltas]
    lows = [d.min_write_id for d in read]
    highs = [d.max_write_id for d in read]
    if shape is Shape.MAJOR and directory.base is not None:
        highs.append(directory.base.base.write_id)
    # Originals alone get Long.MIN_VALUE, as in Hive's MRCompactor: every snapshot admits that number.
    return min(lows, default=ORIGINALS_ONLY), max(highs, default=ORIGINALS_ONLY)


def _originals(directory: AcidDirectory) -> list[tuple[int, Input]]:
    originals = list(inputs_of_originals(directory))
    for number, source in originals:
        if number < 0:
            raise _no_number(source.path)
    return originals


def _inputs(directory: AcidDir) -> list[tuple[int, Input]]:
    for file in directory.unnumbered:
        raise _no_number(file.path)
    return list(inputs_of_directory(directory))


def _no_number(path: str) -> BadFile:
    return BadFile(
        f"{path}: expected a data file named bucket_<N> or <N>_<M>; its rows belong to no file number, and a compaction "
        "would hide them from readers that show them; move it out of the table, or name it as Hive would"
    )


def _names(directory: AcidDirectory, deltas: Iterable[AcidDir], shape: Shape) -> tuple[str, ...]:
    names = [d.directory for d in deltas]
    if shape is Shape.MAJOR:
        names += [directory.base.directory] if directory.base else []
        names += [f.path for f in directory.originals]
    return tuple(names)
