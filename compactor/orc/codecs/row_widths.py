"""Bounds the memory of decoded rows of a stripe by its streams, since its statistics may be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from compactor.orc.format import messages
from compactor.orc.format.length_checks import Lengths, exact_lengths
from compactor.orc.format.plain_streams import PlainStream
from compactor.orc.format.stripe_footer import DATA, DICTIONARY, DICTIONARY_V2, LENGTH
from compactor.orc.format.types import TEXT_KINDS, TypeKind, Types, cached_with_types

MOST_BYTES = 256 * 1024 * 1024  #: of a batch of rows, even if one value is much longer than the others
MOST_ROW_BYTES = 1 << 33  #: of one row with the longest value of each column
EXACT_BYTES = 256 * 1024  #: below it an estimate is good enough; it may be a hundred times too high
_LONG = frozenset({TypeKind.DECIMAL, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
_BINARIES = TEXT_KINDS | {TypeKind.BINARY}
_WORD = 8


def flat_bytes(types: Types, lengths: Mapping[int, Lengths], rows: int) -> int | None:
    """Returns a quick bound of the bytes of ``rows`` rows; None if columns have lists or maps."""
    if not _is_flat(types):
        return None
    return rows * (2 * _WORD * len(types) + sum([known.longest for known in lengths.values()]))


@cached_with_types
def _is_flat(types: Types) -> bool:
    return not any(item.kind in (TypeKind.LIST, TypeKind.MAP) for item in types)


@dataclass(frozen=True, kw_only=True)
class RowWidths:
    """The widths of one stripe's columns, by its checked ``lengths`` and the sizes of its data streams."""

    types: Types
    footer: messages.Message
    lengths: Mapping[int, Lengths]
    streams: Sequence[PlainStream]

    def bytes_of(self, columns: Iterable[int], rows: int) -> int:
        """Returns the most bytes that ``rows`` consecutive rows of ``columns`` (ids) may take."""
        quick = self._bytes(columns, rows)
        return quick if quick <= EXACT_BYTES else self._exact._bytes(columns, rows)

    def rows_within(self, columns: Sequence[int], rows: int) -> int:
        """Returns how many rows at once stay within ``MOST_BYTES``, at most ``rows`` and at least one."""
        if self._bytes(columns, rows) > MOST_BYTES:
            exact = self._exact
            while rows > 1 and exact._bytes(columns, rows) > MOST_BYTES:
                rows //= 2
        return max(1, rows)

    @cached_property
    def _exact(self) -> RowWidths:
        exact = {s.column: exact_lengths(s, self.footer) for s in self.streams if s.kind == LENGTH}
        return replace(self, lengths={**self.lengths, **exact})

    def _bytes(self, columns: Iterable[int], rows: int) -> int:
        return sum([self._column(column, rows) for column in columns])

    def _column(self, column: int, rows: int) -> int:
        item = self.types[column]
        known = self.lengths.get(column)
        if not item.children:
            if known is None or item.kind not in _BINARIES:
                return rows * (2 * _WORD if item.kind in _LONG else _WORD)
            if self.footer.columns[column].kind in (DICTIONARY, DICTIONARY_V2):
                return rows * (_WORD + known.longest)
            return rows * _WORD + min(rows * known.longest, self._data.get(column, known.total))
        inside = rows
        if item.kind in (TypeKind.LIST, TypeKind.MAP):
            inside = 0 if known is None else min(rows * known.longest, known.total)
        return rows * _WORD + self._bytes(item.children, inside)

    @cached_property
    def _data(self) -> Mapping[int, int]:
        return {stream.column: stream.length for stream in self.streams if stream.kind == DATA}
