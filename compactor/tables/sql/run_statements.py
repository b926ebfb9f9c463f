"""Runs the statements of a text: all are parsed and checked before the first is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compactor.base.errors import BadExpression, NotSupported
from compactor.compaction.states import parse_type
from compactor.site.site import Site
from compactor.statements import actions
from compactor.statements.script import parse_script
from compactor.statements.statement import Statement
from compactor.tables.filters.expressions import parse as parse_filter
from compactor.tables.sql import (
    catalog_answers,
    run_changes,
    run_creations,
    run_definitions,
    run_loads,
    run_queries,
    run_utilities,
)
from compactor.tables.sql.answer import Answer
from compactor.tables.sql.sql_session import Session

Handler = Callable[[Session, Statement, Any], Answer]

#: How each action is done. An action that is not here is refused before anything is done.
HANDLERS: dict[type, Handler] = {
    actions.ShowCompactions: run_utilities.compactions,
    actions.ShowTransactions: run_utilities.transactions,
    actions.ShowLocks: run_utilities.locks,
    actions.AbortTransactions: run_utilities.abort_transactions,
    actions.AbortCompactions: run_utilities.abort_compactions,
    actions.Compact: run_utilities.compact,
    actions.ExplainLocks: run_utilities.explain_locks,
    actions.Use: run_utilities.use,
    actions.ShowDatabases: catalog_answers.databases,
    actions.ShowTables: catalog_answers.tables,
    actions.ShowPartitions: catalog_answers.partitions,
    actions.ShowCreateTable: catalog_answers.create_table,
    actions.Describe: catalog_answers.describe,
    actions.CreateDatabase: run_definitions.create_database,
    actions.DropDatabase: run_definitions.drop_database,
    actions.CreateTable: run_definitions.create,
    actions.CreateTableAs: run_creations.create_as,
    actions.DropTable: run_definitions.drop,
    actions.TruncateTable: run_definitions.truncate,
    actions.AddPartitions: run_definitions.add_partitions,
    actions.DropPartitions: run_definitions.drop_partitions,
    actions.AddColumns: run_definitions.add_columns,
    actions.RenameTable: run_definitions.rename,
    actions.SetProperties: run_definitions.set_properties,
    actions.Insert: run_changes.insert,
    actions.Load: run_loads.load,
    actions.Update: run_changes.update,
    actions.Delete: run_changes.delete,
    actions.StartTransaction: run_changes.start,
    actions.Commit: run_changes.commit,
    actions.Rollback: run_changes.roll_back,
    actions.Select: run_queries.select,
}


def checked(text: str, *, has_spark: bool = False) -> tuple[Statement, ...]:
    """Parses ``text``, and checks what can be checked of it without looking at any table.

    Args:
        has_spark: there is a session that runs what needs it.

    Raises:
        BadStatement: a statement is none of the list; the message has the place.
        NotSupported: one needs Spark, or is not run at all; the message says why.
        BadExpression: a condition is none of ``compactor.tables``.
        Refused: a compaction has an unknown type.
    """
    statements = parse_script(text)
    in_transaction = False
    for one in statements:
        match one.action:
            case actions.StartTransaction():
                in_transaction = True
            case actions.Commit() | actions.Rollback():
                in_transaction = False
        _check(one, has_spark and not in_transaction)
    return statements


def _check(statement: Statement, has_spark: bool) -> None:
    """Checks one statement; within a transaction nothing is Spark's."""
    what = f"{statement.name} at {statement.place}"
    match statement.action:
        case actions.NotRun(because=because):
            raise NotSupported(f"{what}: {because}")
        case actions.NeedsSpark(because=because) if not has_spark:
            raise NotSupported(
                f"{what} needs Spark: {because} is more than SELECT columns FROM table WHERE filter, or INSERT of literals; "
                "compactor.spark_tables.sql(spark, text) runs it"
            )
        case actions.CreateTableAs(select=None, because=because) if not has_spark:
            raise NotSupported(
                f"{what} needs Spark: {because} is more than SELECT columns FROM table WHERE filter; "
                "compactor.spark_tables.sql(spark, text) runs it"
            )
        case actions.CreateTableAs(select=actions.Select(where=where)) if not has_spark:
            _check_filter(what, where)
        case actions.Merge() | actions.MultiInsert() if not has_spark:
            raise NotSupported(f"{what} needs Spark; compactor.spark_tables.sql(spark, text) runs it")
        case actions.Update(nested=nested) | actions.Delete(nested=nested) if nested is not None and not has_spark:
            raise NotSupported(
                f"{what} needs Spark, outside of transactions: its condition has a query of its own; "
                "compactor.spark_tables.sql(spark, text) runs it"
            )
        case actions.Select(where=where) | actions.Delete(where=where) if not has_spark:
            _check_filter(what, where)
        case actions.Update(where=where, assignments=assignments) if not has_spark:
            _check_filter(what, where)
            for column, value in assignments:
                _check_filter(f"{what}: {column}", f"c = {value}")
        case actions.Compact(type=kind):
            parse_type(kind)


def run(site: Site, statements: Sequence[Statement], database: str = "default") -> Iterator[Answer]:
    """Does what ``checked`` has returned, one statement after another, and yields the answer of each; the rows of one are
    read before the next is asked for.

    What a statement has done stays when a later one fails; of a transaction nothing stays.

    Args:
        database: the current one at the beginning.

    Raises:
        CompactorError: a statement cannot be done; the message says why.
    """
    session = Session(site, database)
    try:
        for statement in statements:
            yield HANDLERS[type(statement.action)](session, statement, statement.action)
    finally:
        session.roll_back()


def _check_filter(what: str, where: str | None) -> None:
    if where is None:
        return
    try:
        parse_filter(where)
    except BadExpression as error:
        raise BadExpression(f"{what}: {error}; what a filter does not have needs Spark") from error
