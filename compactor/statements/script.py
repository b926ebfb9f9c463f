"""The statements of one text together: which of them a transaction may hold, and that it ends within the text."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.base.errors import BadStatement
from compactor.statements import parsed_actions
from compactor.statements.parser import parse_all
from compactor.statements.statement import Statement

#: Actions that change nothing, and need no right to.
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
    """Parses all statements of ``text`` before any of them is done.

    Raises:
        BadStatement: one is none of the list, is none that a transaction may hold (Hive's ``Operation … is not allowed in a
            transaction``), or a transaction does not end within the text.
    """
    statements = parse_all(text)
    _check_transactions(statements)
    return statements


def only_reads(statements: Sequence[Statement]) -> bool:
    """Tells whether no statement changes anything, not even by a snapshot of its own."""
    return all(isinstance(one.action, READING) for one in statements)


def _check_transactions(statements: Sequence[Statement]) -> None:
    opened: Statement | None = None
    for one in statements:
        match one.action:
            case parsed_actions.StartTransaction():
                if opened is not None:
                    raise BadStatement(f"START TRANSACTION at {one.place}: the one at {opened.place} has not ended")
                opened = one
            case parsed_actions.Commit() | parsed_actions.Rollback():
                if opened is None:
                    raise BadStatement(f"{one.name} at {one.place}: no transaction was started in this text")
                opened = None
            case action if opened is not None and not isinstance(action, _IN_TRANSACTION):
                raise BadStatement(
                    f"{one.name} at {one.place} is not allowed in a transaction, which began at {opened.place}; INSERT, "
                    "UPDATE, DELETE, SELECT, SHOW and DESCRIBE are"
                )
    if opened is not None:
        raise BadStatement(f"START TRANSACTION at {opened.place}: the text ends without its COMMIT or ROLLBACK")
