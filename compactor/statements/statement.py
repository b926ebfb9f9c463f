"""A parsed statement."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.locking.statement_rules import Access
from compactor.statements.parsed_actions import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a text.

    Attributes:
        name: the form, such as INSERT OVERWRITE or ALTER TABLE ADD COLUMNS.
        accesses: what the statement reads and changes; its locks follow from them.
        action: what the statement does.
        place: where its first character is, for messages.
        text: the statement as written.
    """

    name: str
    accesses: tuple[Access, ...] = ()
    action: Action
    place: str = ""
    text: str = ""
