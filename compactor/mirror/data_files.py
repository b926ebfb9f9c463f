"""Writes data files: the rows of one ACID file that a snapshot sees, in the same order (PROTOCOL 15).

Stripes are copied without decoding them if every reader of Iceberg shows their bytes as Hive does. The others are encoded
again. A value that no data file can hold as Hive shows it is refused by name. Delete events are not applied: they become
position deletes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import pyarrow as pa
from pyiceberg.schema import Schema

from compactor.base.errors import BadSetting, NotLossless, NotSupported, VerificationFailed
from compactor.mirror.data_file_types import FileTypes
from compactor.mirror.manifest_entries import FileFigures, file_figures
from compactor.mirror.plain_values import PlainValues
from compactor.mirror.visible_rows import KeyRun, VisibleRows, find_visible_rows, join_runs, open_input
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec, relabel_batch
from compactor.orc.detach import PlainFileWriter
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.java_zones import UTC_NAME
from compactor.orc.format.stripe_footer import PRESENT, read_stripe_footer
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.time_digits import are_microseconds
from compactor.orc.format.types import TypeKind, Types, subtree
from compactor.orc.io.source import LocalSource, Sink
from compactor.orc.pieces import zone_of_stripe
from compactor.orc.reencode import concatenate_small_batches, encode_acid
from compactor.orc.stripe_compatibility import encodable_target, has_early_days, is_copyable, is_writable
from compactor.rewrite.full_acid.stripe_choice import Action, Choice
from compactor.rows.acid_file import AcidFile
from compactor.rows.inputs import Input
from compactor.rows.new_file import NewFile, NewFileTarget
from compactor.rows.remote_source import open_source
from compactor.storage.protocol import Storage
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.reading.stripe_reader import FileColumns, StripeRows, has_null_rows, read_stripe
from compactor.tables.schema import PARTS
from compactor.tables.time_forms import to_encodable

REFUSE, MICROSECONDS = "refuse", "us"  #: what happens to a timestamp with digits below a microsecond
MOST_RUNS = 1000  #: of keys that are remembered
_TIMES = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedFile:
    """A data file.

    ``keys`` are the ROW__IDs of its rows, in order; None if they make too many runs. ``is_whole`` tells that it has every
    row of its ACID file. ``encoded`` counts stripes that could not be copied, and ``cut`` timestamps that lost digits.
    """

    path: str
    length: int
    rows: int
    keys: tuple[KeyRun, ...] | None
    is_whole: bool
    figures: FileFigures
    encoded: int = 0
    cut: int = 0


def write_data_file(
    plan: ScanPlan,
    task: ScanTask,
    source: Input,
    *,
    schema: Schema,
    target: str,
    storage: Storage,
    timestamps: str = REFUSE,
    for_pyiceberg: bool = True,
) -> DetachedFile | None:
    """Writes the rows of ``source`` that the plan's snapshot sees to ``target``.

    If the snapshot sees no row, it writes no file and returns None. A local file is durable after
    ``storage.sync``. The directory of ``target`` must exist.

    Args:
        schema: the Iceberg schema; it has all columns of the table.
        timestamps: ``refuse`` timestamps with digits below a microsecond, or cut them to microseconds (``us``).
        for_pyiceberg: refuses what PyIceberg does not read or shows differently, though other readers show it.

    Raises:
        NotSupported: a type or value cannot be mirrored.
        SnapshotExpired: ``source`` is gone or was replaced.
        BadFile, NotLossless: it cannot be read.
    """
    if timestamps not in (REFUSE, MICROSECONDS):
        raise BadSetting(f"timestamps={timestamps!r}: expected {REFUSE!r} or {MICROSECONDS!r}")
    with open_input(plan, task, source, storage) as file:
        visible = [] if file is None else list(find_visible_rows(file, plan.write_ids))
        if file is None or not visible:
            return None
        detaching = _Detaching(
            plan=plan, file=file, schema=schema, cuts=timestamps == MICROSECONDS, for_pyiceberg=for_pyiceberg
        )
        with (
            tempfile.TemporaryDirectory(prefix="compactor-mirror-") as scratch,
            _new_file(storage, target, scratch) as sink,
        ):
            detaching.write(visible, sink, scratch)
        rows = sum(stripe.kept for stripe in visible)
        with open_source(storage, target) as written:
            tail = read_tail(written)
        if tail.rows != rows:
            raise VerificationFailed(
                f"{target}: read back, it has {tail.rows} rows, but the snapshot sees {rows} of {file.path}; nothing was "
                "committed, please report this"
            )
        keys = join_runs(run for stripe in visible for run in stripe.runs)
        return DetachedFile(
            path=target,
            length=tail.length,
            rows=rows,
            keys=keys if len(keys) <= MOST_RUNS else None,
            is_whole=rows == file.tail.rows,
            figures=file_figures(tail, schema),
            encoded=detaching.encoded,
            cut=detaching.values.cut,
        )


@contextmanager
def _new_file(storage: Storage, target: str, scratch: str) -> Iterator[NewFile]:
    """Yields a sink for ``target``, which is complete when the block ends.

    An error leaves no file behind.
    """
    local = storage.local_path(target)
    path = os.path.join(scratch, "data") if local is None else local
    with NewFileTarget(storage=storage, home=os.path.dirname(target), path=path).sink() as sink:
        yield sink
    if local is None:
        storage.upload(path, target, tuple(sink.ranges))


@dataclass(kw_only=True)
class _Detaching:
    """Writes the stripes of one ACID file to a data file."""

    plan: ScanPlan
    file: AcidFile
    schema: Schema
    cuts: bool
    for_pyiceberg: bool
    encoded: int = field(default=0, init=False)

    @cached_property
    def types(self) -> FileTypes:
        return FileTypes(plan=self.plan, file=self.file, schema=self.schema)

    @cached_property
    def values(self) -> PlainValues:
        return PlainValues(
            table=self.plan.table,
            path=self.file.path,
            types=self.types.table_types,
            cuts=self.cuts,
            is_near=self.for_pyiceberg,
        )

    def write(self, visible: Sequence[VisibleRows], sink: Sink, scratch: str) -> None:
        """Copies or encodes each stripe.

        Raises:
            NotSupported: a type or value cannot be mirrored.
        """
        try:
            self._write(visible, sink, scratch)
        except NotLossless as error:
            raise NotSupported(f"{self.plan.table}: cannot be mirrored: {error}") from error

    def _write(self, visible: Sequence[VisibleRows], sink: Sink, scratch: str) -> None:
        tail = self.file.tail
        if self.for_pyiceberg:
            for rows in visible:
                self._must_have_no_null_parents(rows.stripe)
        copies = [self._copies(rows) for rows in visible]
        if not all(copies) and not self._may_mix:
            copies = [False] * len(visible)
        types = self.types.copied if any(copies) else self.types.encoded
        like = tail if any(copies) else encodable_target(tail)
        writer = PlainFileWriter(sink=sink, types=types, like=like)
        for is_copied, run in groupby(zip(copies, visible, strict=True), key=lambda pair: pair[0]):
            stripes = [rows for _, rows in run]
            if is_copied:
                for rows in stripes:
                    writer.copy(self.file.source, tail, rows.stripe)
                continue
            self.encoded += len(stripes)
            path = os.path.join(scratch, f"stripe-{stripes[0].stripe}")
            encoded = self._encode(stripes, path, types, like)
            with LocalSource(path) as source:
                for number in range(len(encoded.stripes)):
                    writer.copy(source, encoded, number)
            os.unlink(path)
        writer.close()

    def _must_have_no_null_parents(self, stripe: int) -> None:
        """Refuses NULL arrays and maps of structs, which PyIceberg shows as empty ones.

        Raises:
            NotSupported: a stripe has one.
        """
        types = self.file.tail.types
        footer = read_stripe_footer(self.file.source, self.file.tail, stripe)
        nullable = {stream.column for stream in footer.streams if stream.kind == PRESENT}
        for place, column in enumerate(self._columns.ids[: len(self.types.fields)]):
            for number in range(column, column + len(subtree(types, column))):
                holds_structs = types[number].kind in (TypeKind.LIST, TypeKind.MAP) and (
                    types[types[number].children[-1]].kind is TypeKind.STRUCT
                )
                if holds_structs and (number in nullable or has_null_rows(self.file, stripe)):
                    raise NotSupported(
                        f"{self.plan.table}: column {self.plan.names[place]} has a NULL {schema_text(types, number)} in "
                        f"file {self.file.path}, and PyIceberg shows an empty one; replace it, or mirror the table "
                        "with --without-pyiceberg for other readers"
                    )

    @cached_property
    def _may_mix(self) -> bool:
        """True if encoded stripes may stand next to copied ones."""
        return is_writable(self.file.tail) and self.types.copied.shape == self.types.encoded.shape

    def _copies(self, rows: VisibleRows) -> bool:
        """Returns true if every reader of Iceberg shows a stripe's bytes as Hive does.

        Raises:
            NotSupported: a timestamp cannot be mirrored.
        """
        file, stripe = self.file, rows.stripe
        if not (self.types.fields and self.types.are_copyable and is_copyable(file.tail)):
            return False
        if rows.keep is not None or has_null_rows(file, stripe):
            return False
        if has_early_days(file.tail, stripe):
            return False  # also of the Gregorian calendar: ORC Java loses rows by the bounds of such days
        times = self._columns_with_times(stripe)
        if not times:
            return True
        if zone_of_stripe(file.source, file.tail, stripe) not in (None, UTC_NAME):
            return False
        if are_microseconds(file.source, file.tail, stripe, self._time_columns(stripe)):
            return True
        before = self.values.cut
        for _ in self._read(rows, times):
            pass
        has_cut, self.values.cut = self.values.cut > before, before  # encoding counts them again
        return not has_cut

    def _columns_with_times(self, stripe: int) -> tuple[int, ...]:
        """Returns the places of the columns that hold timestamps in a stripe, at any depth."""
        types, times = self.file.tail.types, set(self._time_columns(stripe))
        return tuple(
            place
            for place, column in enumerate(self._columns.ids)
            if not times.isdisjoint(range(column, column + len(subtree(types, column))))
        )

    def _time_columns(self, stripe: int) -> tuple[int, ...]:
        """Returns the ids of the columns of timestamps that have values in a stripe of a file with statistics."""
        types, statistics = self.file.tail.types, self.file.tail.stripe_statistics
        return tuple(
            number
            for number, item in enumerate(types)
            if item.kind in _TIMES and (statistics is None or statistics[stripe][number].number_of_values)
        )

    @cached_property
    def _columns(self) -> FileColumns:
        """The columns of the file, with timestamps in parts, so that none is beyond what can be decoded."""
        count = len(self.types.fields)
        types = self.types.table_types
        schema = pa.schema(
            [
                pa.field(name, arrow_type(types, child, timestamp=PARTS))
                for name, child in zip(self.plan.names[:count], types[0].children, strict=False)
            ]
        )
        return FileColumns(
            plan=replace(
                self.plan,
                schema=schema,
                comparable=schema,
                columns=tuple(range(count)),
                filter_columns=(),
                condition=None,
                row_ids=False,
            ),
            file=self.file,
        )

    def _read(self, rows: VisibleRows, places: Sequence[int]) -> Iterator[StripeRows]:
        """Yields the visible rows of a stripe as the data file holds them."""
        choice = Choice(
            file=self.file, stripe=rows.stripe, action=Action.ENCODE, rows=rows.rows, kept=rows.kept, keep=rows.keep
        )
        for batch in read_stripe(self._columns, choice, places):
            columns = {
                place: self.values.convert(array, self.types.table_types[0].children[place], self.plan.names[place])
                for place, array in batch.columns.items()
            }
            yield replace(batch, columns=columns)

    def _encode(self, stripes: Sequence[VisibleRows], path: str, types: Types, like: Tail) -> Tail:
        """Writes the rows of neighbouring stripes to a local file.

        Raises:
            NotSupported: a value cannot be mirrored.
        """
        cut = self.values.cut

        def batches(codec: Codec) -> Iterator[pa.RecordBatch]:
            self.values.cut = cut
            schema = codec.schema(types)
            for rows in stripes:
                for batch in self._read(rows, range(len(self.types.fields))):
                    arrays = [to_encodable(batch.columns[place], kind) for place, kind in enumerate(schema.types)]
                    yield relabel_batch(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema)

        return with_codec(
            [types],
            lambda codec: encode_acid(
                concatenate_small_batches(batches(codec)),
                path,
                like=replace(like, filters=None),
                types=types,
                codec=codec,
            ),
        )
