"""The files that one of several writers has staged, in the form that is sent to the driver; see ``part_files``."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid.names import DeltaKind
from compactor.rewrite.plan.unit import Output
from compactor.tables.writing.row_change import Changed


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """The rows or delete events that a writer has staged for one partition ("" for a table without partitions).

    ``directory`` holds the files ``outputs``.
    """

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
    """The parts that a writer has staged, and the numbers of changed rows in them."""

    parts: tuple[WrittenPart, ...]
    counts: Changed
