"""The parts of a file that a condition leaves: whole stripes, and row groups of a stripe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, ROW_INDEX, read_indexes, read_stripe_footer
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import Source
from compactor.rows.keys import Mask
from compactor.tables.filters.bloom_lookup import lookup
from compactor.tables.filters.conditions import Column, Condition
from compactor.tables.filters.file_facts import NULLS, facts_of
from compactor.tables.filters.outcomes import UNKNOWN, Facts, Outcomes, may_match, outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePruner:
    """A condition on the rows of one file.

    ``constants`` is what is known of partition columns; ``columns`` are the condition's other columns by name, each with its
    id in the file, None for one that the file is older than.
    """

    source: Source
    tail: Tail
    condition: Condition
    constants: Mapping[str, Facts]
    columns: Mapping[str, tuple[Column, int | None]]

    def of_stripe(self, stripe: int) -> Outcomes:
        """Returns what the condition may come to in a stripe, by the stripe's statistics."""
        facts = dict(self.constants)
        for name, (column, number) in self.columns.items():
            if number is None:
                facts[name] = NULLS
            elif self.tail.stripe_statistics is not None:
                rows = self.tail.stripes[stripe].rows
                part = self.tail.stripe_statistics[stripe][number]
                facts[name] = facts_of(part, rows, column, self.tail.types[number], self.tail)
        return outcomes(self.condition, facts)

    def groups(self, stripe: int) -> Mask | None:
        """Returns which row groups of a stripe may have rows that meet the condition, by row indexes and bloom filters; None
        if there is no row index with an entry for each: a stripe may say that it has billions of groups."""
        stride, rows = self.tail.row_index_stride, self.tail.stripes[stripe].rows
        if stride == 0 or not rows or all(number is None for _, number in self.columns.values()):
            return None
        count = -(-rows // stride)
        footer = read_stripe_footer(self.source, self.tail, stripe)
        numbers = {number for _, number in self.columns.values() if number is not None}
        indexes = {
            (number, kind): index
            for kind, number, index in read_indexes(self.source, self.tail, stripe, footer, numbers)
        }
        if any(kind == ROW_INDEX and len(index.entry) != count for (_, kind), index in indexes.items()) or not indexes:
            return None
        last = rows - (count - 1) * stride
        known = [self._facts(indexes, group, stride if group < count - 1 else last) for group in range(count)]
        return np.array([may_match(self.condition, facts) for facts in known], dtype=np.bool_)

    def _facts(self, indexes: Mapping[tuple[int, int], messages.Message], group: int, rows: int) -> dict[str, Facts]:
        """Returns what is known of one row group."""
        facts = dict(self.constants)
        for name, (column, number) in self.columns.items():
            if number is None:
                facts[name] = NULLS
                continue
            stored, index = self.tail.types[number], indexes.get((number, ROW_INDEX))
            found = UNKNOWN
            if index is not None and group < len(index.entry):
                found = facts_of(index.entry[group].statistics, rows, column, stored, self.tail)
            for kind in (BLOOM, BLOOM_UTF8):
                blooms = indexes.get((number, kind))
                contains = None
                if blooms is not None and group < len(blooms.bloom_filter):
                    contains = lookup(stored.kind, kind, blooms.bloom_filter[group])
                found = found if contains is None else replace(found, contains=contains)
            facts[name] = found
        return facts
