"""Rebalances a partition: distributes its rows evenly over files, with new ROW__IDs (PROTOCOL 1.6).

Without ORDER BY, rows stay in the order of their ROW__IDs and keep their write IDs. With it, all rows get the write ID of
the rebalance. Row numbers continue from file to file, as in Hive's rebalance.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid import bucket
from compactor.acid.bucket import RowId
from compactor.acid.names import DeltaKind
from compactor.base.errors import NotSupported, VerificationFailed
from compactor.base.ids import WriteId
from compactor.compaction.order_by import OrderBy
from compactor.orc.assembler import WrittenFile
from compactor.orc.codecs.bloom_filters import StripeFilters, common_filters, stripe_filters
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.codecs.wall_clock import wall_clock
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.java_zones import UTC_NAME, is_utc, java_zone
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Types, acid_types
from compactor.orc.format.widening import common_types
from compactor.orc.io.source import LocalSource
from compactor.orc.pieces import Piece, common_zone, piece_batches
from compactor.orc.reencode import (
    check_calendar,
    concatenate_small_batches,
    encode_acid,
    with_filters,
)
from compactor.rewrite.full_acid.delete_events import load_delete_events
from compactor.rewrite.full_acid.merge import Direction, RowSorter, SortKey
from compactor.rewrite.full_acid.output_format import output_of, piece_of, template_of_files
from compactor.rewrite.full_acid.stripe_choice import Action, choose_actions
from compactor.rewrite.full_acid.verify import check_same_events, verify_file
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Figures, FileNumberInputs, Rebalance, Unit, UnitResult
from compactor.rows.acid_file import open_files
from compactor.rows.checksum import MODULUS, checksum
from compactor.rows.delete_files import DeleteEvents, visible_events
from compactor.rows.keys import BUCKET, INSERT, ROW, ROW_ID, WRITE_ID
from compactor.rows.new_file import OutputMetadata, written_file
from compactor.storage.protocol import Storage


def plan_rebalance(plan: Plan, write_id: WriteId, files: int | None, order_by: Sequence[OrderBy]) -> Plan:
    """Turns the plan of a major into one of a rebalance: one unit that writes base ``write_id``.

    Args:
        files: the number of output files; None keeps the present number.

    Raises:
        NotSupported: more files than a bucket property can number.
    """
    parts = tuple(
        FileNumberInputs(number=unit.number, inserts=unit.inserts, deletes=unit.deletes) for unit in plan.units
    )
    rebalance = Rebalance(parts=parts, files=files or len(parts) or 1, write_id=write_id, order_by=tuple(order_by))
    if rebalance.files > bucket.MAX_BUCKET + 1:
        raise NotSupported(
            f"{plan.location}: {rebalance.files} files; a bucket property numbers {bucket.MAX_BUCKET + 1}"
        )
    units = [
        replace(
            unit,
            number=0,
            inserts=tuple(source for part in parts for source in part.inserts),
            deletes=tuple(source for part in parts for source in part.deletes),
            rebalance=rebalance,
        )
        for unit in plan.units[:1]
    ]
    return replace(plan, units=tuple(units), highest_write_id=write_id)


def rewrite_rebalanced(unit: Unit, rebalance: Rebalance, storage: Storage, folder: str) -> UnitResult:
    """Writes the files of the new base into the local directory ``folder``, and proves them.

    Raises:
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: the outputs do not hold the rows of the inputs.
    """
    inputs = _inputs(unit, rebalance, storage)
    if not inputs:
        return UnitResult(number=0, outputs=(), figures=_files(unit))
    tails = {name: tail for name, (tail, _) in inputs.items()}
    table = parse_hive_type(unit.row_type)
    types = acid_types(common_types({name: tail.types.row for name, tail in tails.items()}, table))
    like = template_of_files(list(tails.values()), types, unit.output_class)
    if like.filters is None:
        like = replace(
            like, filters=common_filters([], [own for _, filters in inputs.values() for own in filters], types)
        )
    for tail in tails.values():
        check_calendar(tail, like)
    work = _Attempt(
        unit=unit,
        rebalance=rebalance,
        storage=storage,
        folder=folder,
        types=types,
        like=like,
        zone=_zone(unit, rebalance, storage) if types.has_zoned_times else UTC_NAME,
    )

    def encode(filtered: frozenset[int]) -> UnitResult:
        work.filtered = filtered
        return with_codec([types, *(tail.types for tail in tails.values())], work.write)

    return with_filters(folder, like, encode)


def _inputs(unit: Unit, rebalance: Rebalance, storage: Storage) -> dict[str, tuple[Tail, list[StripeFilters]]]:
    """Returns the tail of each file with rows, by path, and the bloom filters of its stripes."""
    inputs: dict[str, tuple[Tail, list[StripeFilters]]] = {}
    for part in rebalance.parts:
        with open_files(unit.location, part.inserts, part.number, storage, zone=unit.default_zone) as files:
            for file in files:
                if file.tail.rows:
                    stripes = range(len(file.tail.stripes))
                    inputs[file.path] = file.tail, [stripe_filters(file.source, file.tail, n) for n in stripes]
    return inputs


def _zone(unit: Unit, rebalance: Rebalance, storage: Storage) -> str | None:
    """Returns the zone of all stripes' times; None if they differ."""
    zones: set[str | None] = set()
    for part in rebalance.parts:
        with open_files(unit.location, part.inserts, part.number, storage, zone=unit.default_zone) as files:
            pieces = [
                Piece(source=file.source, tail=file.tail, stripe_index=stripe)
                for file in files
                for stripe in range(len(file.tail.stripes))
                if file.tail.types.has_zoned_times
            ]
            if pieces:
                zones.add(common_zone(pieces))
    return UTC_NAME if not zones else zones.pop() if len(zones) == 1 else None


def _files(unit: Unit) -> Figures:
    return Figures(files_in=len(unit.inserts) + len(unit.deletes), bytes_in=unit.input_bytes)


@dataclass(slots=True, kw_only=True, eq=False)
class _Attempt:
    """The state of one attempt.

    If the codec or the columns with bloom filters change, ``write`` starts from scratch.
    """

    unit: Unit
    rebalance: Rebalance
    storage: Storage
    folder: str
    types: Types
    like: Tail
    zone: str | None  #: of all times; None if they are written as the local times of their different zones
    filtered: frozenset[int] = frozenset()
    figures: Figures = Figures()
    checksum: int = 0

    def write(self, codec: Codec) -> UnitResult:
        """Writes the outputs and reads them again."""
        self.figures, self.checksum = _files(self.unit), 0
        for number in range(self.rebalance.files):
            with suppress(FileNotFoundError):
                os.unlink(self._path(number))  # from an attempt with another codec
        sorter = RowSorter(self.folder, self._keys)
        try:
            for batch in self._rows(codec):
                self.checksum = (self.checksum + checksum(batch.column(ROW))) % MODULUS
                sorter.add(batch)
            if sorter.rows != self.figures.rows_out:
                raise VerificationFailed(
                    f"{self.unit.location}: {sorter.rows} rows were read, expected {self.figures.rows_out}; nothing was "
                    "changed, please report this"
                )
            written = self._write_files(sorter, codec)
        finally:
            sorter.discard()
        tails = self._prove(written, codec)
        outputs = tuple(
            output_of(DeltaKind.INSERT, self._path(n), n, file, tail=tails[n]) for n, (file, _) in written.items()
        )
        sizes = Figures(files_out=len(outputs), bytes_out=sum(output.length for output in outputs))
        return UnitResult(number=0, outputs=outputs, figures=self.figures + sizes)

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"rows-{number:05d}")

    def _rows(self, codec: Codec) -> Iterator[pa.RecordBatch]:
        """Yields every visible, undeleted row."""
        unit = self.unit
        for part in self.rebalance.parts:
            events = load_delete_events(
                unit.location, part.deletes, part.number, unit.write_ids, self.folder, self.storage
            )
            if unit.full_verify:
                read = visible_events(unit.location, part.deletes, part.number, unit.write_ids, self.storage)
                check_same_events(read, unit.applies_from, None, events.events)
            self.figures += Figures(events_in=events.total, events_invisible=events.invisible)
            with open_files(unit.location, part.inserts, part.number, self.storage, zone=unit.default_zone) as files:
                for choice in choose_actions(files, events.events, unit.write_ids, look_always=unit.looks_always):
                    dropped = choice.action is Action.DROP
                    self.figures += Figures(
                        rows_in=choice.rows,
                        rows_deleted=choice.deleted,
                        rows_invisible=choice.invisible,
                        rows_out=choice.kept,
                        stripes_dropped=int(dropped),
                        stripes_encoded=int(not dropped),
                    )
                    if not dropped:
                        piece = piece_of(choice)._replace(to_zone=UTC_NAME if self.zone is None else None)
                        yield from piece_batches(piece, codec, self.types)

    def _keys(self, table: pa.Table) -> list[SortKey]:
        """Returns the columns that rows are sorted by: those of ORDER BY, then the ROW__ID."""
        names = _row_names(self.types)
        keys = [
            key
            for order in self.rebalance.order_by
            for key in column_keys(self._values(table, _place(names, order.column)), order)
        ]
        return [*keys, *(SortKey(values=table.column(place)) for place in (WRITE_ID, BUCKET, ROW_ID))]

    def _values(self, table: pa.Table, place: int) -> pa.ChunkedArray:
        """Returns a column of the rows, timestamps as readers show them."""
        values = pc.struct_field(table.column(ROW), [place])
        if self.zone is None or is_utc(self.zone):
            return values
        zone, column = java_zone(self.zone), self.types[self.types[0].children[ROW]].children[place]
        return pa.chunked_array([wall_clock(chunk, self.types, column, zone) for chunk in values.chunks], values.type)

    def _write_files(self, sorter: RowSorter, codec: Codec) -> dict[int, tuple[WrittenFile, list[RowId]]]:
        """Writes the files and returns them by number. With fewer rows than files, there are fewer files."""
        shares = _rows_per_file(sorter.rows, self.rebalance.files)
        rows = _Distributed(sorter.sorted())
        files: dict[int, tuple[WrittenFile, list[RowId]]] = {}
        first = 0
        for number, share in enumerate(shares):
            path = self._path(number)
            batches = self._number_rows(rows.next(share), number, first, codec)
            output_metadata = OutputMetadata()
            tail = encode_acid(
                concatenate_small_batches(batches),
                path,
                like=self.like,
                types=self.types,
                metadata=output_metadata.compute,
                codec=codec,
                filtered=self.filtered,
                zone=self.zone or UTC_NAME,
            )
            files[number] = written_file(path, tail), output_metadata.last_keys
            first += share
        return files

    def _number_rows(
        self, batches: Iterator[pa.RecordBatch], number: int, first: int, codec: Codec
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows with their new ROW__IDs in file ``number``. Row numbers begin at ``first``."""
        schema = codec.schema(self.types)
        bucket_property = bucket.encode(number)
        for batch in batches:
            rows = batch.num_rows
            write_ids = batch.column(WRITE_ID)
            if self.rebalance.order_by:
                write_ids = pa.array(np.full(rows, self.rebalance.write_id, dtype=np.int64))
            columns = [
                pa.array(np.full(rows, INSERT, dtype=np.int32)),
                write_ids,
                pa.array(np.full(rows, bucket_property, dtype=np.int32)),
                pa.array(np.arange(first, first + rows, dtype=np.int64)),
                write_ids,
                batch.column(ROW),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            first += rows

    def _prove(self, written: dict[int, tuple[WrittenFile, list[RowId]]], codec: Codec) -> dict[int, Tail]:
        """Checks that the files hold exactly the values that were read, and returns their tails.

        Only values can be compared, since keys have changed.
        """
        total = 0
        tails: dict[int, Tail] = {}
        for number, (file, last_keys) in written.items():
            path = self._path(number)
            tail = verify_file(
                path, last_keys, rows=file.rows, full=self.unit.full_verify, deletes=DeleteEvents.from_blocks([])
            )
            tails[number] = tail
            with LocalSource(path) as source:
                for stripe in range(len(tail.stripes)):
                    for batch in piece_batches(Piece(source=source, tail=tail, stripe_index=stripe), codec, self.types):
                        total = (total + checksum(batch.column(ROW))) % MODULUS
        if total != self.checksum:
            raise VerificationFailed(
                f"{self.unit.location}: the values read have the checksum {self.checksum:016x}, the values written "
                f"{total:016x}; nothing was changed, please report this"
            )
        return tails


class _Distributed:
    """Hands out the rows of batches, a given number at a time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: list[pa.RecordBatch] = []

    def next(self, rows: int) -> Iterator[pa.RecordBatch]:
        while rows:
            batch = self._rest.pop() if self._rest else next(self._batches)
            if batch.num_rows > rows:
                self._rest.append(batch.slice(rows))
                batch = batch.slice(0, rows)
            rows -= batch.num_rows
            yield batch


def _rows_per_file(rows: int, files: int) -> list[int]:
    """Returns the number of rows of each file that gets any. The numbers differ by at most one."""
    each, more = divmod(rows, files)
    return [share for number in range(files) if (share := each + (number < more))]


def _row_names(types: Types) -> list[str]:
    return [name.lower() for name in types[types[0].children[ROW]].field_names]


def _place(names: Sequence[str], column: str) -> int:
    if column not in names:
        raise NotSupported(f"ORDER BY {column}: is not a column of the rows; there are {', '.join(names)}")
    return names.index(column)


def column_keys(values: pa.ChunkedArray, order: OrderBy) -> list[SortKey]:
    """Returns the keys that sort rows by one column like Hive: NaN above all numbers, NULLs first or last."""
    direction: Direction = "descending" if order.descending else "ascending"
    rank = np.zeros(len(values), dtype=np.int8)
    if pa.types.is_floating(values.type):
        rank[np.asarray(pc.fill_null(pc.is_nan(values), False))] = -1 if order.descending else 1
    rank[np.asarray(values.is_null())] = -2 if order.nulls_first else 2
    parts = values.flatten() if pa.types.is_struct(values.type) else [values]  # pyorc's timestamps: seconds, nanos
    return [
        SortKey(values=pa.chunked_array([pa.array(rank)])),
        *(SortKey(values=part, direction=direction) for part in parts),
    ]
