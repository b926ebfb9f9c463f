"""The answer of a statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactor.answers.row import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a statement, or what it did.

    Attributes:
        statement: its form.
        rows: as a program reads them, each once; a statement that changed something has one with what it did.
        columns: those that people see, in their order; without any they see ``said``.
        said: for people: what was done, or that there is nothing.
        whole: true if a column without any value is shown, too.
    """

    statement: str
    rows: Iterable[Mapping[str, object]] = ()
    columns: tuple[str, ...] = ()
    said: str = ""
    whole: bool = False


def listed(statement: str, rows: Sequence[Row], columns: tuple[str, ...], empty: str) -> Answer:
    """Returns the answer of a statement that lists rows; ``empty`` is said without any."""
    return Answer(statement=statement, rows=[row.to_json() for row in rows], columns=columns, said=empty)


def counted(count: int) -> str:
    """Formats a number of rows."""
    return f"{count} row{'' if count == 1 else 's'}"


def done(statement: str, said: str, **facts: object) -> Answer:
    """Returns the answer of a statement that changed something."""
    return Answer(statement=statement, rows=[{"statement": statement, **facts}], said=said)
