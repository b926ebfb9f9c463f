"""Conditions of statements, as text for the product and as functions of rows for the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.model.programs.versions import Row


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in both forms; the function is false where SQL's answer is unknown."""

    text: str | None
    holds: Callable[[Row], bool]


def _is(row: Row, *ids: int) -> bool:
    return row.id is not None and row.id in ids


CONDITIONS = (
    Condition("id = 2", lambda row: _is(row, 2)),
    Condition("id IN (0, 3)", lambda row: _is(row, 0, 3)),
    Condition("id <= 1", lambda row: row.id is not None and row.id <= 1),
    Condition("note = 'a'", lambda row: row.note == "a"),
    Condition(
        "note LIKE 'a%' AND NOT id = 1",
        lambda row: (row.note or "").startswith("a") and not _is(row, 1) and row.id is not None,
    ),
    Condition("NOT (note = 'b')", lambda row: row.note not in (None, "b")),
    Condition("id IS NULL OR note IS NULL", lambda row: row.id is None or row.note is None),
    Condition("day = 'x'", lambda row: row.day == "x"),
    Condition("day = 'y' AND id > 1", lambda row: row.day == "y" and row.id is not None and row.id > 1),
    Condition(None, lambda row: True),
)
