"""Finds the parts of a file that may have rows for a condition: stripes, and row groups of a stripe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, ROW_INDEX, read_indexes, read_stripe_footer
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import Source
from compactor.rows.keys import Mask
from compactor.tables.filters.bloom_lookup import build_lookup
from compactor.tables.filters.conditions import Column, Condition
from compactor.tables.filters.file_facts import NULLS, read_facts
from compactor.tables.filters.outcomes import UNKNOWN, Facts, Outcomes, find_outcomes, may_match


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePruner:
    """A condition on the rows of one file.

    ``constants`` are facts about partition columns. ``columns`` are the condition's other columns by name, each with its id
    in the file, or None if the column is newer than the file.
    """

    source: Source
    tail: Tail
    condition: Condition
    constants: Mapping[str, Facts]
    columns: Mapping[str, tuple[Column, int | None]]

    def of_stripe(self, stripe: int) -> Outcomes:
        """Returns the possible outcomes of the condition in a stripe, by its statistics."""
        facts = dict(self.constants)
        for name, (column, number) in self.columns.items():
            if number is None:
                facts[name] = NULLS
            elif self.tail.stripe_statistics is not None:
                rows = self.tail.stripes[stripe].rows
                part = self.tail.stripe_statistics[stripe][number]
                facts[name] = read_facts(part, rows, column, self.tail.types[number], self.tail)
        return find_outcomes(self.condition, facts)

    def groups(self, stripe: int) -> Mask | None:
        """Tells for each row group of a stripe whether it may have matching rows, by row indexes and bloom filters.

        Returns None unless a row index has an entry for each group: a damaged stripe may claim billions of groups.
        """
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
        """Returns facts about a row group."""
        facts = dict(self.constants)
        for name, (column, number) in self.columns.items():
            if number is None:
                facts[name] = NULLS
                continue
            stored, index = self.tail.types[number], indexes.get((number, ROW_INDEX))
            known = UNKNOWN
            if index is not None and group < len(index.entry):
                known = read_facts(index.entry[group].statistics, rows, column, stored, self.tail)
            for kind in (BLOOM, BLOOM_UTF8):
                blooms = indexes.get((number, kind))
                contains = None
                if blooms is not None and group < len(blooms.bloom_filter):
                    contains = build_lookup(stored.kind, kind, blooms.bloom_filter[group])
                known = known if contains is None else replace(known, contains=contains)
            facts[name] = known
        return facts
