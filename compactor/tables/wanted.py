"""What is asked of a scan, as it was given."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.tables.schema import NANOSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The arguments of ``Table.scan``; see there."""

    selected_fields: tuple[str, ...] | None = None
    row_ids: bool = False
    timestamps: str = NANOSECONDS
