"""Checks that a query, as Spark's own parser reads it, only reads the tables that it was given."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from compactor.errors import NotSupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLANS = """
Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit LocalRelation
Offset OneRowRelation OneRowRelation$ Pivot Project Repartition RepartitionByExpression Sample Sort SubqueryAlias
Union Unpivot UnresolvedHaving UnresolvedHint UnresolvedInlineTable UnresolvedQualify UnresolvedSubqueryColumnAliases
UnresolvedTVFAliases UnresolvedTableValuedFunction Window WithWindowDefinition
"""
#: Kinds of plans before names are resolved: what SELECT, VALUES, joins and set operations are made of
_ALLOWED = frozenset(_PLANS.split())


def must_only_read(spark: SparkSession, text: str, names: Collection[str]) -> None:
    """Checks a query as Spark parses it; in a session of Connect, where the parser is elsewhere, its words decide alone.

    Args:
        names: those that stand for the tables of the query.

    Raises:
        NotSupported: it reads something else, or does more than read.
        Exception: Spark does not understand it.
    """
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return
    plan = session.sessionState().sqlParser().parsePlan(text)
    _check(plan, frozenset(name.lower() for name in names))


def _check(plan: Any, known: frozenset[str]) -> None:
    kind = str(plan.getClass().getSimpleName())
    if kind == "UnresolvedWith":
        for defined in _items(plan.cteRelations()):
            name = str(defined.productElement(0)).lower()
            _check(defined.productElement(1), known | {name} if plan.allowRecursion() else known)
            known |= {name}
    elif kind == "UnresolvedRelation":
        names = [str(name) for name in _items(plan.multipartIdentifier())]
        if len(names) != 1 or names[0].lower() not in known:
            raise _not_read(f"the table {'.'.join(names)}, which was not understood as one here")
    elif kind not in _ALLOWED:
        raise _not_read(kind)
    children = plan.children() if kind == "UnresolvedWith" else plan.children().appendedAll(plan.innerChildren())
    for child in _items(children):
        _check(child, known)


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def _not_read(what: str) -> NotSupported:
    return NotSupported(f"query: Spark finds {what} in it; nothing was done. Write it with SELECT (docs/sql.md)")
