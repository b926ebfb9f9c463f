"""Runs the statements of a text; all are parsed and checked before the first one runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compactor.base.errors import BadExpression, NotSupported
from compactor.compaction.states import parse_type
from compactor.site.site import Site
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.statements.parser import parse_script
from compactor.tables.filters.expressions import parse as parse_filter
from compactor.tables.sql import (
    catalog_answers,
    run_changes,
    run_definitions,
    run_loads,
    run_queries,
    run_utilities,
)
from compactor.tables.sql.sql_session import Answer, Session

Handler = Callable[[Session, Statement, Any], Answer]

#: The function that runs each action. An action that is missing here is refused before anything runs.
HANDLERS: dict[type, Handler] = {
    parsed_actions.ShowCompactions: run_utilities.compactions,
    parsed_actions.ShowTransactions: run_utilities.transactions,
    parsed_actions.ShowLocks: run_utilities.locks,
    parsed_actions.AbortTransactions: run_utilities.abort_transactions,
    parsed_actions.AbortCompactions: run_utilities.abort_compactions,
    parsed_actions.Compact: run_utilities.compact,
    parsed_actions.ExplainLocks: run_utilities.explain_locks,
    parsed_actions.Use: run_utilities.use,
    parsed_actions.ShowDatabases: catalog_answers.show_databases,
    parsed_actions.ShowTables: catalog_answers.show_tables,
    parsed_actions.ShowPartitions: catalog_answers.show_partitions,
    parsed_actions.ShowCreateTable: catalog_answers.show_create_table,
    parsed_actions.Describe: catalog_answers.describe,
    parsed_actions.CreateDatabase: run_definitions.create_database,
    parsed_actions.DropDatabase: run_definitions.drop_database,
    parsed_actions.CreateTable: run_definitions.create,
    parsed_actions.CreateTableAs: run_queries.create_as,
    parsed_actions.DropTable: run_definitions.drop,
    parsed_actions.TruncateTable: run_definitions.truncate,
    parsed_actions.AddPartitions: run_definitions.add_partitions,
    parsed_actions.DropPartitions: run_definitions.drop_partitions,
    parsed_actions.AddColumns: run_definitions.add_columns,
    parsed_actions.RenameTable: run_definitions.rename,
    parsed_actions.SetProperties: run_definitions.set_properties,
    parsed_actions.Insert: run_changes.insert,
    parsed_actions.Load: run_loads.load,
    parsed_actions.Update: run_changes.update,
    parsed_actions.Delete: run_changes.delete,
    parsed_actions.StartTransaction: run_changes.start,
    parsed_actions.Commit: run_changes.commit,
    parsed_actions.Rollback: run_changes.roll_back,
    parsed_actions.Select: run_queries.select,
}


def check_text(text: str, *, has_spark: bool = False) -> tuple[Statement, ...]:
    """Parses ``text`` and checks everything that can be checked without looking at tables.

    Args:
        has_spark: a Spark session runs the statements that need it.

    Raises:
        BadStatement: a statement is not on the list; the message has the place.
        NotSupported: a statement needs Spark, or is not run at all; the message says why.
        BadExpression: a condition is not a filter of ``compactor.tables``.
        Refused: a compaction has an unknown type.
    """
    statements = parse_script(text)
    in_transaction = False
    for statement in statements:
        match statement.action:
            case parsed_actions.StartTransaction():
                in_transaction = True
            case parsed_actions.Commit() | parsed_actions.Rollback():
                in_transaction = False
        _check(statement, has_spark and not in_transaction)
    return statements


def _check(statement: Statement, has_spark: bool) -> None:
    """Checks one statement. In a transaction no statement runs in Spark."""
    what = f"{statement.name} at {statement.place}"
    match statement.action:
        case parsed_actions.NotRun(because=because):
            raise NotSupported(f"{what}: {because}")
        case parsed_actions.NeedsSpark(because=because) if not has_spark:
            raise NotSupported(
                f"{what} needs Spark: {because} is more than SELECT columns FROM table WHERE filter, or INSERT of literals; "
                "compactor.spark_tables.sql(spark, text) runs it"
            )
        case parsed_actions.CreateTableAs(select=None, because=because) if not has_spark:
            raise NotSupported(
                f"{what} needs Spark: {because} is more than SELECT columns FROM table WHERE filter; "
                "compactor.spark_tables.sql(spark, text) runs it"
            )
        case parsed_actions.CreateTableAs(select=parsed_actions.Select(where=where)) if not has_spark:
            _check_filter(what, where)
        case parsed_actions.MergeStatement() | parsed_actions.MultiInsert() if not has_spark:
            raise NotSupported(f"{what} needs Spark; compactor.spark_tables.sql(spark, text) runs it")
        case parsed_actions.Update(nested=nested) | parsed_actions.Delete(nested=nested) if (
            nested is not None and not has_spark
        ):
            raise NotSupported(
                f"{what} needs Spark, outside of transactions: its condition contains a query; "
                "compactor.spark_tables.sql(spark, text) runs it"
            )
        case parsed_actions.Select(where=where) | parsed_actions.Delete(where=where) if not has_spark:
            _check_filter(what, where)
        case parsed_actions.Update(where=where, assignments=assignments) if not has_spark:
            _check_filter(what, where)
            for column, value in assignments:
                _check_filter(f"{what}: {column}", f"c = {value}")
        case parsed_actions.Compact(type=kind):
            parse_type(kind)


def run(site: Site, statements: Sequence[Statement], database: str = "default") -> Iterator[Answer]:
    """Runs the statements of ``check_text`` one after another, and yields the answer of each.

    Read the rows of an answer before asking for the next. If a statement fails, the effects of the earlier ones stay; of an
    open transaction nothing stays.

    Args:
        database: the current database at the beginning.

    Raises:
        CompactorError: a statement failed; the message says why.
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
        raise BadExpression(f"{what}: {error}; richer conditions need Spark") from error
