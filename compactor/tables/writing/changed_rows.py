"""The rows of an UPDATE, DELETE or MERGE as they come to those who write them, and what of them is deleted.

A batch has ``KIND``, the ROW__ID and the file of the row that is changed (NULL for an added one), the new values in the
table's columns, and those values that stay of which Spark would cut digits off. The rows of one file come together, by
ROW__ID, so that one that is changed twice is next to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.errors import Refused, VerificationFailed
from compactor.rewrite.full_acid.delete_events import EventSorter, SortedEvents, events_of
from compactor.rows.keys import KEY, KeyBlock, Mask, is_sorted, row_id_at
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.delete_files import keys_of
from compactor.tables.writing.encodable import encodable
from compactor.tables.writing.row_change import CHECK, EXACT, FILE, KIND, Changed, Kind


class ChangedRows:
    """The rows that one writer changes: new versions pass through ``inserts``, and what is deleted is kept, sorted.

    Args:
        table: its name, for messages.
        is_checked: a row may be matched once at most.
        scratch: a directory for delete events that are too many for the memory.
    """

    def __init__(self, table: str, write_id: int, scratch: str, *, is_checked: bool) -> None:
        self._table, self._write_id, self._scratch, self._is_checked = table, write_id, scratch, is_checked
        self._files: dict[tuple[str, int], _DeletedOfFile] = {}
        self._counts = dict.fromkeys(Kind, 0)

    def inserts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows that are written, in the table's columns alone.

        Raises:
            Refused: a row is matched by several rows of the source, and must not be.
            VerificationFailed: the rows of a file come out of order.
        """
        for batch in batches:
            kinds = batch.column(KIND).to_numpy(zero_copy_only=False)
            for kind in Kind:
                self._counts[kind] += int(np.count_nonzero(kinds == kind))
            self._delete(batch.filter(pa.array(kinds != Kind.INSERT)))
            added = batch.filter(pa.array(kinds >= Kind.UPDATE)).drop_columns([KIND, ROW_ID, FILE])
            if added.num_rows:
                yield _exact(added) if EXACT in added.schema.names else added

    @property
    def counts(self) -> Changed:
        """The numbers of all rows that have passed."""
        return Changed(
            deleted=self._counts[Kind.DELETE],
            updated=self._counts[Kind.UPDATE],
            inserted=self._counts[Kind.INSERT],
        )

    def deletes(self) -> dict[str, dict[int, SortedEvents]]:
        """Returns the delete events of all rows that have passed, by partition and file number."""
        found: dict[str, dict[int, SortedEvents]] = {}
        for (partition, number), of_file in sorted(self._files.items()):
            events = of_file.sorter.done()
            if len(events):
                found.setdefault(partition, {})[number] = events
        return found

    def _delete(self, rows: pa.RecordBatch) -> None:
        for place, of_file in _by_file(rows):
            if place not in self._files:
                self._files[place] = _DeletedOfFile(sorter=EventSorter(self._scratch))
            keys = keys_of([pc.struct_field(of_file.column(ROW_ID), [at]) for at in range(3)])
            acts = of_file.column(KIND).to_numpy() != Kind.NOTHING
            self._add(self._files[place], keys, acts)

    def _add(self, file: _DeletedOfFile, keys: KeyBlock, acts: Mask) -> None:
        known = np.concatenate([file.last, keys])
        again = np.concatenate([[False], known[1:] == known[:-1]])[len(file.last) :]
        if self._is_checked and again.any():
            raise Refused(
                f"{self._table}: cardinality_violation: the row with ROW__ID {row_id_at(keys[again], 0)} matches several "
                f"rows of the source, and which of them counts is not known; nothing was changed. Make them one row, or "
                f"set {CHECK} = false"
            )
        if not is_sorted(np.concatenate([file.last, keys[~again]])):
            raise VerificationFailed(f"{self._table}: changed rows came out of order; nothing was named, try again")
        file.last = keys[-1:]
        kept = keys[acts & ~again]
        file.sorter.add(events_of(kept, np.full(len(kept), self._write_id, dtype=np.int64)))


@dataclass(slots=True)
class _DeletedOfFile:
    sorter: EventSorter
    last: KeyBlock = field(default_factory=lambda: np.empty(0, KEY))


def _exact(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns ``rows`` with the exact values in the columns that they belong to."""
    exact, here = rows.column(EXACT), np.arange(rows.num_rows)
    for at, name in enumerate(exact.type.names):
        kept = pc.struct_field(exact, [at])
        place = rows.schema.get_field_index(name)
        both = pa.concat_arrays([kept, encodable(rows.column(place), kept.type)])
        values = both.take(pa.array(np.where(np.asarray(kept.is_valid()), here, here + len(here))))
        rows = rows.set_column(place, name, values)
    return rows.drop_columns([EXACT])


def _by_file(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """Yields the partition and number of each file, with its rows in their order."""
    if not rows.num_rows:
        return
    places = [pc.struct_field(rows.column(FILE), [at]) for at in range(2)]
    every = pa.table([*places, pa.array(np.arange(rows.num_rows))], names=["partition", "number", "row"])
    few = pa.table({name: rows.column(name) for name in (KIND, ROW_ID)})
    for group in every.group_by(["partition", "number"], use_threads=False).aggregate([("row", "list")]).to_pylist():
        yield (group["partition"] or "", group["number"]), few.take(pa.array(group["row_list"], pa.int64()))
