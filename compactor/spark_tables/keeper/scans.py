"""Plans scans for Spark, with as much of its conditions as Spark and this package evaluate alike."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from compactor.base.errors import BadExpression, BadStatement
from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind
from compactor.spark_tables.keeper.held_transaction import HeldTransaction
from compactor.spark_tables.keeper.stream_position import write_ids_between
from compactor.spark_tables.messages import PlannedScan, PlanScan
from compactor.statements.tokens import tokenize
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import (
    All,
    Any,
    Compared,
    Condition,
    Constant,
    Kind,
    Missing,
    Not,
    OneOf,
    Settled,
)
from compactor.tables.reading.later_rows import keep_later_rows
from compactor.tables.reading.scan_planning import plan_scan
from compactor.tables.reading.scan_request import ScanRequest, comparable_schema
from compactor.tables.schema import IN_PARTS
from compactor.tables.store import named_table

_TIMESTAMPS = "us"  #: the only precision of Spark
_DIGITS = 18  #: numbers with at most so many digits are compared exactly by Spark


def plan_for_spark(held: HeldTransaction, request: PlanScan, *, rewrites: bool = False) -> PlannedScan:
    """Returns the plan of a scan under the snapshot of ``held``; see ``plan_scan`` for the errors.

    Args:
        rewrites: the rows are written back, so their timestamps must keep every digit.
    """
    site = held.txn.site
    table = named_table(site, request.table)
    filters = [request.row_filter] if request.row_filter is not None else []
    filters += [] if request.where is None else keep_alike_conditions(request.where, table)
    wanted = ScanRequest(
        row_filter=" AND ".join(f"({text})" for text in filters) or None,
        selected_fields=request.columns,
        row_ids=request.row_ids or request.change is not None,
        timestamps=_TIMESTAMPS,
    )
    shown = wanted.schema(table)
    exact = replace(wanted, timestamps=IN_PARTS) if rewrites else wanted
    plan = plan_scan(held.txn, table, exact)
    if request.between is not None:
        plan = keep_later_rows(plan, *write_ids_between(site, table, request.between, plan.write_ids))
    stores = held.tokens.standing_in(site.storage.options, table.location)
    has_files = request.change is not None
    return PlannedScan(
        hold=held.hold,
        plan=plan,
        stores=stores,
        table_id=table.id,
        padded=_char_columns(table),
        has_files=has_files,
        shown=None if plan.schema.equals(shown) else shown,
    )


def keep_alike_conditions(where: str, table: Table) -> list[str]:
    """Returns the parts of a condition that are true for every row for which Spark finds them true.

    These parts compare whole numbers, decimals, texts or dates with literals of the same kind. Their numbers have at most
    18 digits and no exponent: Spark compares longer numbers with less precision, and numbers with an exponent as doubles.
    """
    schema = comparable_schema(table, _TIMESTAMPS)
    parts = []
    for text in _split_at_and(where):
        with suppress(BadExpression, BadStatement):
            numbers = [token.value for token in tokenize(text) if token.kind == "number"]
            if all(len(number) <= _DIGITS and "e" not in number for number in numbers) and _is_alike(
                bind(text, schema, chars=_char_columns(table))
            ):
                parts.append(text)
    return parts


def _split_at_and(where: str) -> list[str]:
    """Returns the parts that AND joins; the whole condition if an AND may mean something else.

    Example: ``a > 1 AND (b = 2 OR c = 3)`` becomes ``a > 1`` and ``(b = 2 OR c = 3)``; ``a BETWEEN 1 AND 2`` stays whole.
    """
    try:
        where_tokens = tokenize(where)
    except BadStatement:
        return []
    depth, start, parts = 0, 0, []
    for token in where_tokens:
        if token.kind == "sign":
            depth += {"(": 1, ")": -1}.get(token.value, 0)
        elif token.kind == "word" and depth == 0 and token.value in ("or", "between"):
            return [where]
        elif token.kind == "word" and depth == 0 and token.value == "and":
            parts.append(where[start : token.start])
            start = token.end
    return [*parts, where[start:]]


def _is_alike(condition: Condition) -> bool:
    match condition:
        case All(parts=parts) | Any(parts=parts):
            return all(map(_is_alike, parts))
        case Not(part=part):
            return _is_alike(part)
        case Compared(column=column) | OneOf(column=column) | Settled(column=column) | Missing(column=column):
            is_long = pa.types.is_decimal(column.type) and column.type.precision > _DIGITS
            return column.kind in (Kind.NUMBER, Kind.TEXT, Kind.DATE) and not is_long
    return isinstance(condition, Constant)


def _char_columns(table: Table) -> tuple[str, ...]:
    """Returns the columns of type char: this package ignores their trailing blanks in comparisons, Spark does not."""
    columns = (*table.columns, *table.partition_keys)
    return tuple(column.name for column in columns if parse_hive_type(column.type)[0].kind is TypeKind.CHAR)
