"""Processes the changed rows of an UPDATE, DELETE or MERGE in a writer.

It checks them, and collects the deleted ones.

A batch has ``KIND``, ``CLAUSE``, and the ROW__ID and file of the changed row (NULL for an added row). New values are in the
columns that ``value_column`` names, in the types of their expressions. Unchanged values are in the table's columns, and in
``EXACT`` if Spark would cut off digits. The rows of a file come together, ordered by ROW__ID, so that a row that is changed
twice is next to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import Refused, VerificationFailed
from compactor.rewrite.full_acid.delete_events import EventSorter, SortedEvents, pack_events
from compactor.rows.keys import KEY, KeyBlock, Mask, is_sorted, row_id_at
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.row_change import CHECK, CLAUSE, EXACT, FILE, KIND, Changed, RowChangeKind, value_columns
from compactor.tables.writing.statement_files import build_keys


class ChangedRows:
    """The rows that a writer changes.

    New versions pass through ``inserts``, deleted rows are collected in order.

    Args:
        table: the table's name, for messages.
        columns: the names of its columns, partition columns last.
        is_checked: a row may be matched only once.
        scratch: a directory for delete events that do not fit into memory.
    """

    def __init__(self, table: str, columns: Sequence[str], write_id: int, scratch: str, *, is_checked: bool) -> None:
        self._table, self._write_id, self._scratch, self._is_checked = table, write_id, scratch, is_checked
        self._columns = tuple(columns)
        self._files: dict[tuple[str, int], _DeletedOfFile] = {}
        self._counts = dict.fromkeys(RowChangeKind, 0)

    def inserts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, Callable[[int], str]]]:
        """Yields the rows to write, grouped by clause, with the table's columns.

        Also yields a function that names each row.

        A column that neither the clause nor the rows have is left out.

        Raises:
            Refused: a row is matched by several rows of the source, which is not allowed.
            VerificationFailed: the rows of a file are out of order.
        """
        for batch in batches:
            kinds = batch.column(KIND).to_numpy(zero_copy_only=False)
            for kind in RowChangeKind:
                self._counts[kind] += int(np.count_nonzero(kinds == kind))
            self._delete(batch.filter(pa.array(kinds != RowChangeKind.INSERT)))
            numbers = _clauses(batch)
            for kind, clause in sorted(set(zip(kinds.tolist(), numbers.tolist(), strict=True))):
                if kind >= RowChangeKind.UPDATE:
                    of_clause = batch.filter(pa.array((kinds == kind) & (numbers == clause)))
                    yield (
                        self._values(of_clause, RowChangeKind(kind), clause),
                        partial(_name_row, of_clause.column(ROW_ID)),
                    )

    @property
    def counts(self) -> Changed:
        """The numbers of all rows that have passed."""
        return Changed(
            deleted=self._counts[RowChangeKind.DELETE],
            updated=self._counts[RowChangeKind.UPDATE],
            inserted=self._counts[RowChangeKind.INSERT],
        )

    def deletes(self) -> dict[str, dict[int, SortedEvents]]:
        """Returns the delete events of all rows that have passed, by partition and file number."""
        events_by_partition: dict[str, dict[int, SortedEvents]] = {}
        for (partition, number), of_file in sorted(self._files.items()):
            events = of_file.sorter.finish()
            if len(events):
                events_by_partition.setdefault(partition, {})[number] = events
        return events_by_partition

    def _values(self, rows: pa.RecordBatch, kind: RowChangeKind, clause: int) -> pa.Table:
        """Returns the values that a clause writes: new ones and unchanged ones."""
        assigned, names = value_columns(rows.schema.names), rows.schema.names
        exact = rows.column(EXACT) if EXACT in names else None
        arrays: dict[str, pa.Array] = {}
        for place, column in enumerate(self._columns):
            if (clause, place) in assigned:
                arrays[column] = rows.column(assigned[clause, place])
            elif kind is RowChangeKind.UPDATE and exact is not None and column in exact.type.names:
                arrays[column] = pc.struct_field(exact, [exact.type.get_field_index(column)])
            elif column in names:
                arrays[column] = rows.column(column)
        return pa.table(arrays)

    def _delete(self, rows: pa.RecordBatch) -> None:
        for place, of_file in _by_file(rows):
            if place not in self._files:
                self._files[place] = _DeletedOfFile(sorter=EventSorter(self._scratch))
            keys = build_keys([pc.struct_field(of_file.column(ROW_ID), [at]) for at in range(3)])
            acts = of_file.column(KIND).to_numpy() != RowChangeKind.NOTHING
            self._add(self._files[place], keys, acts)

    def _add(self, file: _DeletedOfFile, keys: KeyBlock, acts: Mask) -> None:
        known = np.concatenate([file.last, keys])
        repeated = np.concatenate([[False], known[1:] == known[:-1]])[len(file.last) :]
        if self._is_checked and repeated.any():
            raise Refused(
                f"{self._table}: cardinality_violation: the row with ROW__ID {row_id_at(keys[repeated], 0)} matches several "
                f"rows of the source, and it is unclear which one counts; nothing was changed. Merge them into one row, or "
                f"set {CHECK} = false"
            )
        if not is_sorted(np.concatenate([file.last, keys[~repeated]])):
            raise VerificationFailed(f"{self._table}: changed rows are out of order; nothing was published, try again")
        file.last = keys[-1:]
        kept = keys[acts & ~repeated]
        file.sorter.add(pack_events(kept, np.full(len(kept), self._write_id, dtype=np.int64)))


@dataclass(slots=True)
class _DeletedOfFile:
    sorter: EventSorter
    last: KeyBlock = field(default_factory=lambda: np.empty(0, KEY))


def _clauses(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    if CLAUSE not in rows.schema.names:
        return np.zeros(rows.num_rows, dtype=np.int64)
    numbers: npt.NDArray[np.int64] = rows.column(CLAUSE).cast(pa.int64()).fill_null(-1).to_numpy()
    return numbers


def _name_row(row_ids: pa.Array, row: int) -> str:
    """Returns what messages call a written row."""
    row_id = row_ids[row].as_py()
    return "a new row" if row_id is None else "the row with ROW__ID ({writeid}, {bucketid}, {rowid})".format(**row_id)


def _by_file(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """Yields the partition and number of each file, with its rows in order."""
    if not rows.num_rows:
        return
    places = [pc.struct_field(rows.column(FILE), [at]) for at in range(2)]
    every = pa.table([*places, pa.array(np.arange(rows.num_rows))], names=["partition", "number", "row"])
    few = pa.table({name: rows.column(name) for name in (KIND, ROW_ID)})
    for group in every.group_by(["partition", "number"], use_threads=False).aggregate([("row", "list")]).to_pylist():
        yield (group["partition"] or "", group["number"]), few.take(pa.array(group["row_list"], pa.int64()))
