"""The files that one of several writers has staged, as they travel back to whoever names them; see ``part_files``."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid.names import DeltaKind
from compactor.rewrite.plan.unit import Output
from compactor.tables.writing.row_change import Changed


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """The rows or delete events that one writer has staged for one partition, "" in a table without any: ``directory``,
    with its files."""

    partition: str
    statement_id: int
    directory: str
    outputs: tuple[Output, ...]
    kind: DeltaKind = DeltaKind.INSERT

    @property
    def rows(self) -> int:
        return sum(output.rows for output in self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """The parts that one writer has staged, and the numbers of rows in them."""

    parts: tuple[WrittenPart, ...]
    counts: Changed
