"""The answer of a statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactor.answers.row import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a statement, or what it did.

    Attributes:
        statement: the form of the statement.
        rows: the rows for programs; iterate only once. A statement that changed something has one row that says what it did.
        columns: the columns that people see, in order; if empty, they see ``message``.
        message: for people: what was done, or that there are no rows.
        whole: true if columns without any value are shown too.
    """

    statement: str
    rows: Iterable[Mapping[str, object]] = ()
    columns: tuple[str, ...] = ()
    message: str = ""
    whole: bool = False


def build_list(statement: str, rows: Sequence[Row], columns: tuple[str, ...], empty: str) -> Answer:
    """Builds the answer of a statement that lists rows; ``empty`` is the message if there are none."""
    return Answer(statement=statement, rows=[row.to_json() for row in rows], columns=columns, message=empty)


def format_count(count: int) -> str:
    """Formats a number of rows: ``1 row``, ``2 rows``."""
    return f"{count} row{'' if count == 1 else 's'}"


def build_result(statement: str, message: str, **facts: object) -> Answer:
    """Builds the answer of a statement that changed something."""
    return Answer(statement=statement, rows=[{"statement": statement, **facts}], message=message)
