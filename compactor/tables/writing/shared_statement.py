"""A statement whose rows several processes write, as it travels to them; see ``part_files``."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.base.ids import WriteId
from compactor.tables.writing.shape import TravellingShape


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatement:
    """A statement whose rows several processes write; they stage below ``attempts``, a directory of their user alone."""

    table: TravellingShape
    attempts: str
    write_id: WriteId
    calendar: int
    time_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedChange:
    """A statement that changes rows by several processes. With ``is_checked`` a row may be matched once at most."""

    rows: SharedStatement
    is_checked: bool
