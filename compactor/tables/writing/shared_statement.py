"""A statement whose rows several processes write, in the form that is sent to them; see ``part_files``."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.base.ids import WriteId
from compactor.tables.writing.shape import TravellingShape


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatement:
    """A statement whose rows several processes write; they stage below ``attempts``, which only their user can read."""

    table: TravellingShape
    attempts: str
    write_id: WriteId
    calendar: int
    time_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedChange:
    """A statement that changes rows in several processes. With ``is_checked``, a row may be matched only once."""

    rows: SharedStatement
    is_checked: bool
