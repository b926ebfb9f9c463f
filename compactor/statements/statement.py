"""A parsed statement."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.locking.accesses import Access
from compactor.statements.parsed_actions import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a text.

    Attributes:
        name: its form, such as INSERT OVERWRITE or ALTER TABLE ADD COLUMNS.
        accesses: what its locks follow from.
        action: what it does.
        place: of its first character, for messages.
        text: as it was written.
    """

    name: str
    accesses: tuple[Access, ...] = ()
    action: Action
    place: str = ""
    text: str = ""
