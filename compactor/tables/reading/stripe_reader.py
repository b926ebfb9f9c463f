"""Reads one stripe: the requested columns, and the key columns only if they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compactor.acid.bucket import RowId
from compactor.base.errors import NotLossless, NotSupported
from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.arrow_types import Array, ArrowType, arrow_type
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.codecs.pyorc_codec import raw_type
from compactor.orc.codecs.row_ranges import read_ranges
from compactor.orc.codecs.stripe_view import BATCH_ROWS
from compactor.orc.codecs.wall_clock import shown_zone, wall_clock
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.java_zones import JavaZone
from compactor.orc.format.tail import key_statistics
from compactor.orc.format.types import CALENDAR_KINDS, TypeKind, Types, subtree
from compactor.orc.format.widening import column_widens
from compactor.orc.widened_rows import widen
from compactor.rewrite.full_acid.stripe_choice import Choice, dense_start
from compactor.rows.acid_file import AcidFile
from compactor.tables.filters.conditions import find_columns
from compactor.tables.reading.scan_tasks import ScanPlan
from compactor.tables.schema import PARTS, PER_SECOND, ROW_ID_TYPE
from compactor.tables.time_forms import is_hybrid, to_gregorian_dates, to_gregorian_seconds

MOST_ROWS = 1 << 20  #: rows of a batch that has no columns of the file
_KEYS = (1, 2, 3)  #: positions of originalTransaction, bucket and rowId
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FileColumns:
    """Maps the columns of a file to those of the table, by position; columns newer than the file are NULL."""

    plan: ScanPlan
    file: AcidFile

    @cached_property
    def table_types(self) -> Types:
        """The types of the table."""
        return parse_hive_type(self.plan.row_type)

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The ids of the file's columns, in the order of the table's columns."""
        types = self.file.tail.types
        return types[types[0].children[-1]].children if types.is_acid else types[0].children

    @cached_property
    def is_hybrid(self) -> bool:
        return not self.plan.is_gregorian and is_hybrid(self.file.tail)

    def id_of(self, place: int) -> int | None:
        """Returns the id of a column by its position in the table; None if the file does not have it.

        Raises:
            NotSupported: its values may not fit the table's type.
        """
        if place >= len(self.ids):
            return None
        number, column = self.ids[place], self.table_types[0].children[place]
        if not column_widens(self.file.tail.types, number, self.table_types, column):
            name = self.table_types[0].field_names[place]
            raise NotSupported(
                f"file {self.file.path}: column {name} is {schema_text(self.file.tail.types, number)} there and "
                f"{schema_text(self.table_types, column)} in {self.plan.table}, which cannot hold all of its values "
                "unchanged; rewrite the partition with INSERT OVERWRITE, or select other columns"
            )
        return number

    def column(self, array: Array | None, place: int, rows: int, codec: Codec, zone: JavaZone | None = None) -> Array:
        """Converts a decoded column to the type that the filter compares, or to that of the scan's schema.

        ``array`` is None for a column that the file lacks.

        Args:
            zone: the zone of the stripe's timestamps; None for UTC.

        Raises:
            Unfit: a timestamp does not fit into this codec's type.
        """
        new = self.table_types[0].children[place]
        name = self.table_types[0].field_names[place]
        kind = self._kinds[place]
        if array is None:
            return pa.nulls(rows, kind)
        decoded = _decoded_type(self.table_types, new, codec)
        if zone is not None:
            array = wall_clock(array, self.file.tail.types, self.ids[place], zone)
        wide = widen(array, self.file.tail.types, self.ids[place], self.table_types, new, decoded)
        return convert(wide, Fit(types=self.table_types, column=new, kind=kind, name=name, is_hybrid=self.is_hybrid))

    def zone_of(self, stripe: int, places: Sequence[int]) -> JavaZone | None:
        """Returns the zone whose wall-clock time readers show for timestamps of ``places``.

        Returns None if decoded ones show it.

        Raises:
            NotLossless: the zone is unknown.
        """
        types = self.file.tail.types
        columns = [number for place in places if (number := self.id_of(place)) is not None]
        if not any(item.kind is TypeKind.TIMESTAMP for number in columns for item in subtree(types, number)):
            return None
        return shown_zone(self.file.source, self.file.tail, stripe)

    @cached_property
    def _kinds(self) -> dict[int, ArrowType]:
        """The Arrow types of decoded columns, by position."""
        plan = self.plan
        compared = () if plan.condition is None else find_columns(plan.condition)
        returned = dict(zip(plan.columns, plan.schema.types[int(plan.row_ids) :], strict=False))
        return {
            place: plan.comparable.field(plan.names[place]).type
            if plan.names[place] in compared or place not in returned
            else returned[place]
            for place in {*plan.columns, *plan.filter_columns}
        }


def _decoded_type(types: Types, column: int, codec: Codec) -> ArrowType:
    return arrow_type(types, column) if codec is ARROW else raw_type(types, column)


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeRows:
    """Rows of a stripe: ``columns`` by their positions in the table, and ``keys`` if they were requested."""

    count: int
    columns: dict[int, Array]
    keys: Array | None

    def filter(self, mask: Array) -> StripeRows:
        """Returns the rows that ``mask`` marks."""
        return StripeRows(
            count=int(np.count_nonzero(np.asarray(mask))),
            columns={place: array.filter(mask) for place, array in self.columns.items()},
            keys=None if self.keys is None else self.keys.filter(mask),
        )


def read_stripe(
    columns: FileColumns, choice: Choice, places: Sequence[int], ranges: Sequence[range] | None = None
) -> Iterator[StripeRows]:
    """Yields the kept rows of a stripe in batches of bounded size.

    Arrow decodes them. From the first batch on in which Arrow would lose something, pyorc decodes them. With ``ranges``,
    only rows with these numbers are read, if that is possible.

    Raises:
        BadFile: the stripe cannot be decoded.
        NotSupported: a column cannot be converted to the table's type.
    """
    if ranges is not None:
        try:
            yield from _read_ranges(columns, choice, places, ranges)
            return
        except Unfit:
            pass  # nothing has been read yet
    # Arrow decodes up to the first batch that it cannot hold
    shown = 0
    try:
        for rows in _all_rows(columns, choice, places, ARROW):
            shown += rows.count
            yield _keep(rows, choice, shown)
        return
    except Unfit:
        pass  # pyorc starts again at the stripe's first row, and skips the rows that Arrow has decoded
    seen = 0
    for rows in _all_rows(columns, choice, places, PYORC):
        seen += rows.count
        if seen > shown:
            yield _keep(_last(rows, min(rows.count, seen - shown)), choice, seen)


def _read_ranges(
    columns: FileColumns, choice: Choice, places: Sequence[int], ranges: Sequence[range]
) -> Iterator[StripeRows]:
    file, stripe = columns.file, choice.stripe
    numbers = {place: number for place in places if (number := columns.id_of(place)) is not None}
    if has_null_rows(file, stripe):
        raise Unfit("rows may be NULL")
    keys = KeyReader(file, stripe) if columns.plan.row_ids else None
    zone = columns.zone_of(stripe, places)
    at = 0
    for start, batch in read_ranges(file.source, file.tail, stripe, ranges, list(numbers.values())):
        decoded, count = dict(zip(numbers, batch.columns, strict=True)), batch.num_rows
        converted = {place: columns.column(decoded.get(place), place, count, PYORC, zone) for place in places}
        if keys is not None:
            keys.skip(start - at)
        at = start + count
        kept_keys = None if keys is None else keys.next(count)
        yield _keep(StripeRows(count=count, columns=converted, keys=kept_keys), choice, at)


def _keep(rows: StripeRows, choice: Choice, end: int) -> StripeRows:
    if choice.keep is None:
        return rows
    return rows.filter(choice.keep.slice(end - rows.count, rows.count))


def _last(rows: StripeRows, count: int) -> StripeRows:
    first = rows.count - count
    return StripeRows(
        count=count,
        columns={place: array.slice(first) for place, array in rows.columns.items()},
        keys=None if rows.keys is None else rows.keys.slice(first),
    )


def _all_rows(columns: FileColumns, choice: Choice, places: Sequence[int], codec: Codec) -> Iterator[StripeRows]:
    file, stripe = columns.file, choice.stripe
    keys = KeyReader(file, stripe) if columns.plan.row_ids else None
    zone = columns.zone_of(stripe, places)
    done = 0
    for count, arrays in _batches(columns, stripe, places, codec):
        converted = {place: columns.column(arrays.get(place), place, count, codec, zone) for place in places}
        yield StripeRows(count=count, columns=converted, keys=None if keys is None else keys.next(count))
        done += count
    total = file.tail.stripes[stripe].rows
    if done != total:
        raise NotLossless(f"file {file.path}, stripe {stripe}: {done} rows were decoded, but the footer says {total}")


def _batches(
    columns: FileColumns, stripe: int, places: Sequence[int], codec: Codec
) -> Iterator[tuple[int, dict[int, Array]]]:
    """Yields the number of rows and the decoded columns of each batch."""
    file = columns.file
    numbers = {place: number for place in places if (number := columns.id_of(place)) is not None}
    if not numbers:
        total = file.tail.stripes[stripe].rows
        for start in range(0, total, MOST_ROWS):
            yield min(MOST_ROWS, total - start), {}
        return
    if has_null_rows(file, stripe):
        inner = {place: place for place in numbers}
        for batch in codec.read_batches(file.source, file.tail, columns=[5], stripes=[stripe]):
            flat = batch.column(0).flatten()
            yield batch.num_rows, {place: flat[at] for place, at in inner.items()}
        return
    for batch in codec.read_batches(file.source, file.tail, stripes=[stripe], inner=list(numbers.values())):
        yield batch.num_rows, dict(zip(numbers, batch.columns, strict=True))


def has_null_rows(file: AcidFile, stripe: int) -> bool:
    """Tells whether a row of an ACID file may be NULL as a whole.

    Its struct then hides how many values the columns have.
    """
    if file.is_raw:
        return False
    statistics = file.tail.stripe_statistics
    if statistics is None:
        return True
    row = statistics[stripe][file.tail.types[0].children[-1]]
    return bool(row.has_null or row.number_of_values != file.tail.stripes[stripe].rows)


class KeyReader:
    """Reads the ROW__IDs of a stripe from the first row on.

    They come from statistics or the file's name if possible, else they are decoded.
    """

    def __init__(self, file: AcidFile, stripe: int) -> None:
        rows = file.tail.stripes[stripe].rows
        known = None if file.is_raw else key_statistics(file.tail, stripe)
        self._next = None if known is None else dense_start(known, rows)
        if file.is_raw:
            self._next = RowId(file.write_id, file.bucket, file.first_row_id + file.first_row_of(stripe))
        self._decoded = arrow_codec.read_batches(file.source, file.tail, columns=_KEYS, stripes=[stripe])
        self._buffered: pa.Table | None = None

    def next(self, count: int) -> Array:
        """Returns the keys of the next ``count`` rows."""
        if self._next is not None:
            first = self._next
            self._next = first._replace(row_id=first.row_id + count)
            arrays = [
                pa.array(np.full(count, first.write_id, np.int64)),
                pa.array(np.full(count, first.bucket, np.int32)),
                pa.array(np.arange(first.row_id, first.row_id + count, dtype=np.int64)),
            ]
        else:
            arrays = [column.combine_chunks() for column in self._take(count).columns]
        return pa.StructArray.from_arrays(arrays, fields=list(ROW_ID_TYPE))

    def skip(self, count: int) -> None:
        """Skips the next ``count`` rows."""
        if self._next is not None:
            self._next = self._next._replace(row_id=self._next.row_id + count)
            return
        for start in range(0, count, BATCH_ROWS):
            self._take(min(BATCH_ROWS, count - start))

    def _take(self, count: int) -> pa.Table:
        parts = [] if self._buffered is None else [self._buffered]
        while sum(part.num_rows for part in parts) < count:
            parts.append(pa.Table.from_batches([next(self._decoded)]))
        whole = pa.concat_tables(parts)
        self._buffered = whole.slice(count)
        return whole.slice(0, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A column ``column`` of ``types``, called ``name``, and the Arrow type ``kind`` that it gets.

    ``is_hybrid`` says that the file counts early days in the Julian calendar.
    """

    types: Types
    column: int
    kind: ArrowType
    name: str
    is_hybrid: bool

    @property
    def changes(self) -> bool:
        """True if converted values may differ from decoded ones."""
        return any(item.kind in CALENDAR_KINDS for item in subtree(self.types, self.column))


def convert(array: Array, fit: Fit) -> Array:
    """Converts ``array`` to the type in the schema. In microseconds the last three digits are cut off.

    Raises:
        NotSupported: a timestamp does not fit into 64 bits of nanoseconds.
    """
    return _convert(array, fit, fit.column, fit.kind) if fit.changes else array


def _convert(array: Array, fit: Fit, column: int, kind: ArrowType) -> Array:
    item = fit.types[column]
    below = partial(_convert, fit=fit)
    match item.kind:
        case TypeKind.TIMESTAMP | TypeKind.TIMESTAMP_INSTANT:
            return _timestamps(array, kind, fit.name, fit.is_hybrid)
        case TypeKind.DATE:
            return to_gregorian_dates(array) if fit.is_hybrid else array
        case TypeKind.STRUCT if item.children:
            parts = [
                below(array.field(place), column=child, kind=kind.field(place).type)
                for place, child in enumerate(item.children)
            ]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
        case TypeKind.LIST:
            return _nested(array, kind, below(array.values, column=item.children[0], kind=kind.value_type))
        case TypeKind.MAP:
            keys = below(array.keys, column=item.children[0], kind=kind.key_type)
            items = below(array.items, column=item.children[1], kind=kind.item_type)
            pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
            return _nested(array, kind, pairs)
    return array


def _nested(array: Array, kind: ArrowType, values: Array) -> Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def in_unit(array: Array, kind: ArrowType, name: str) -> Array:
    """Converts the timestamps of column ``name`` from parts to ``kind``; other arrays must have that type.

    Raises:
        NotSupported: a timestamp does not fit into 64 bits of nanoseconds.
    """
    return array if array.type.equals(kind) else _timestamps(array, kind, name, False)


def _timestamps(array: Array, kind: ArrowType, name: str, is_hybrid: bool) -> Array:
    if pa.types.is_timestamp(array.type) and array.type.equals(kind) and not is_hybrid:
        return array
    nulls = np.asarray(array.is_null())
    seconds, nanos = _parts(array)
    if is_hybrid:
        seconds = to_gregorian_seconds(seconds)
    if kind.equals(PARTS):
        arrays = [pa.array(seconds, pa.int64()), pa.array(nanos.astype(np.int32), pa.int32())]
        return pa.StructArray.from_arrays(arrays, fields=list(PARTS), mask=pa.array(nulls))
    per_second = PER_SECOND[kind.unit]
    _must_fit(seconds, per_second, name)
    values = seconds * per_second + nanos // (10**9 // per_second)
    return pa.array(values, pa.int64(), mask=nulls).cast(kind)


def _parts(array: Array) -> tuple[Numbers, Numbers]:
    """Returns seconds and nanoseconds, 0 for NULL."""
    if pa.types.is_timestamp(array.type):
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        seconds, nanos = np.divmod(numbers, PER_SECOND[array.type.unit])
        return seconds, nanos * (10**9 // PER_SECOND[array.type.unit])
    seconds, nanos = (part.fill_null(0).to_numpy(zero_copy_only=False) for part in array.flatten())
    return seconds.astype(np.int64), nanos.astype(np.int64)


def _must_fit(seconds: Numbers, per_second: int, name: str) -> None:
    beyond = np.abs(seconds) > (2**63 - 1) // per_second - 1
    if np.any(beyond):
        shown = str(np.datetime64(int(seconds[beyond][0]), "s")).replace("T", " ")
        raise NotSupported(
            f"column {name}: the timestamp {shown} does not fit into 64 bits of nanoseconds; scan with timestamps='us', or "
            "'parts' to lose no digit"
        )
