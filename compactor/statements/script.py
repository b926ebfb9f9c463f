"""Parses a text of several statements, and checks its transactions: what they may hold, and that they end."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.base.errors import BadStatement
from compactor.statements import parsed_actions
from compactor.statements.parser import parse_all
from compactor.statements.statement import Statement

#: Actions that change nothing, so that no right to change is needed.
READING = (
    parsed_actions.ShowCompactions,
    parsed_actions.ShowTransactions,
    parsed_actions.ShowLocks,
    parsed_actions.ExplainLocks,
    parsed_actions.Use,
    parsed_actions.ShowDatabases,
    parsed_actions.ShowTables,
    parsed_actions.ShowPartitions,
    parsed_actions.ShowCreateTable,
    parsed_actions.Describe,
)
_IN_TRANSACTION = (*READING, parsed_actions.Insert, parsed_actions.Update, parsed_actions.Delete, parsed_actions.Select)


def parse_script(text: str) -> tuple[Statement, ...]:
    """Parses all statements of ``text`` before any of them runs.

    Raises:
        BadStatement: a statement is not on the list, a transaction holds a statement that it must not (in Hive:
            ``Operation … is not allowed in a transaction``), or a transaction does not end within the text.
    """
    statements = parse_all(text)
    _check_transactions(statements)
    return statements


def only_reads(statements: Sequence[Statement]) -> bool:
    """Tells whether all statements only read metadata; a SELECT does not count, because it opens a snapshot."""
    return all(isinstance(statement.action, READING) for statement in statements)


def _check_transactions(statements: Sequence[Statement]) -> None:
    opened: Statement | None = None
    for statement in statements:
        match statement.action:
            case parsed_actions.StartTransaction():
                if opened is not None:
                    raise BadStatement(
                        f"START TRANSACTION at {statement.place}: the one at {opened.place} has not ended"
                    )
                opened = statement
            case parsed_actions.Commit() | parsed_actions.Rollback():
                if opened is None:
                    raise BadStatement(
                        f"{statement.name} at {statement.place}: no transaction was started in this text"
                    )
                opened = None
            case action if opened is not None and not isinstance(action, _IN_TRANSACTION):
                raise BadStatement(
                    f"{statement.name} at {statement.place} is not allowed in a transaction, which began at {opened.place}; "
                    "INSERT, UPDATE, DELETE, SELECT, SHOW and DESCRIBE are"
                )
    if opened is not None:
        raise BadStatement(f"START TRANSACTION at {opened.place}: the text ends without its COMMIT or ROLLBACK")
