"""Checks, in Spark's own parse of a query, that it only reads the allowed tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from compactor.base.errors import NotSupported
from compactor.base.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLANS = """
Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit LocalRelation
Offset OneRowRelation OneRowRelation$ Pivot Project Repartition RepartitionByExpression Sample Sort SubqueryAlias
Union Unpivot UnresolvedHaving UnresolvedHint UnresolvedInlineTable UnresolvedQualify UnresolvedSubqueryColumnAliases
UnresolvedTVFAliases UnresolvedTableValuedFunction Window WithWindowDefinition
"""
#: Unresolved plan nodes of SELECT, VALUES, joins and set operations
_ALLOWED = frozenset(_PLANS.split())
_PARSED, _ANALYZED = "== Parsed Logical Plan ==\n", "\n\n== Analyzed Logical Plan ==\n"
#: A line of an explained plan, such as "   :  +- 'UnresolvedRelation [t], [], false". Each level is three characters wide.
_LINE = re.compile(r"(?P<levels>(?:(?:   |:  )*[+:]- )?)'?(?P<kind>\w+\$?)(?: (?P<rest>.*))?")
_RELATION = re.compile(r"\[(\w+)\], \[\], false")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_SHOWN = 200  #: characters of a plan in a message


def must_only_read(spark: SparkSession, text: str, names: Collection[str]) -> None:
    """Checks that a query, as Spark parses it, only reads the tables ``names``.

    A session of Connect has no parser in this process. There the server explains the query: it parses and analyzes it
    without running it.

    Args:
        names: the names that stand for the tables of the query.

    Raises:
        NotSupported: the query reads another table, or does more than read.
        Exception: Spark cannot parse the query.
    """
    known = frozenset(name.lower() for name in names)
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        _must_have_no_line_breaks(text)
        row = spark.sql(f"EXPLAIN EXTENDED {text}").collect()[0]
        check_explained(str(row[0]), known, is_recursive="recursive" in text.lower())
        return
    _check_plan(session.sessionState().sqlParser().parsePlan(text), known)


def check_explained(plan: str, known: frozenset[str], *, is_recursive: bool = False) -> None:
    """Checks the parsed plan that EXPLAIN EXTENDED prints for a query without line breaks.

    Args:
        is_recursive: a query in WITH may refer to its own name.

    Raises:
        NotSupported: the plan does more than read, or has an unknown form.
    """
    parsed, marker, rest = plan.removeprefix(_PARSED).partition(_ANALYZED)
    if not plan.startswith(_PARSED) or not marker or _ANALYZED in rest:
        raise _not_a_read("no plan that can be read")
    nodes = []
    for line in parsed.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            raise _not_a_read(f"a plan that cannot be read: {printable(line)[:_SHOWN]}")
        nodes.append(_PlanLine(len(match["levels"]) // 3, match["kind"], match["rest"] or ""))
    _check_node(nodes, 0, known, is_recursive)


class _PlanLine(NamedTuple):
    """A line of an explained plan. The nodes below it follow, with higher levels."""

    level: int
    kind: str
    rest: str


def _check_node(nodes: Sequence[_PlanLine], at: int, known: frozenset[str], is_recursive: bool) -> int:
    """Checks a node with all nodes below it, and returns the number of the node after them."""
    node = nodes[at]
    at += 1
    if node.kind == "CTE":
        # Its definitions are two levels below it; its own plan follows one level below it.
        while at < len(nodes) and nodes[at].level == node.level + 2:
            if nodes[at].kind != "SubqueryAlias":
                raise _not_a_read(nodes[at].kind)
            name = nodes[at].rest.lower()
            at = _check_node(nodes, at, known | {name} if is_recursive else known, is_recursive)
            known |= {name}
    elif node.kind == "UnresolvedRelation":
        relation = _RELATION.fullmatch(node.rest)
        if relation is None or relation[1].lower() not in known:
            raise _not_a_read(f"the table {printable(node.rest)[:_SHOWN]}, which was not understood as one here")
    elif node.kind not in _ALLOWED:
        raise _not_a_read(node.kind)
    while at < len(nodes) and nodes[at].level > node.level:
        at = _check_node(nodes, at, known, is_recursive)
    return at


def _must_have_no_line_breaks(text: str) -> None:
    """Checks that no text or name in a query can forge a line of the explained plan.

    Raises:
        NotSupported: a text or name may contain a line break.
    """
    if "\n" in text or any(escape[1] in "n01uU" for escape in _ESCAPE.finditer(text)):
        raise NotSupported(
            "query: in a session of Connect, a text or name with a line break or a character's number cannot be "
            "distinguished from Spark's plan; nothing was done. Write char(10), or put the text into a column of a DataFrame"
        )


def _check_plan(plan: Any, known: frozenset[str]) -> None:
    kind = str(plan.getClass().getSimpleName())
    if kind == "UnresolvedWith":
        for defined in _iterate(plan.cteRelations()):
            name = str(defined.productElement(0)).lower()
            _check_plan(defined.productElement(1), known | {name} if plan.allowRecursion() else known)
            known |= {name}
    elif kind == "UnresolvedRelation":
        names = [str(name) for name in _iterate(plan.multipartIdentifier())]
        if len(names) != 1 or names[0].lower() not in known:
            raise _not_a_read(f"the table {'.'.join(names)}, which was not understood as one here")
    elif kind not in _ALLOWED:
        raise _not_a_read(kind)
    children = plan.children() if kind == "UnresolvedWith" else plan.children().appendedAll(plan.innerChildren())
    for child in _iterate(children):
        _check_plan(child, known)


def _iterate(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def _not_a_read(what: str) -> NotSupported:
    return NotSupported(f"query: Spark finds {what} in it; nothing was done. Write it with SELECT (docs/sql.md)")
