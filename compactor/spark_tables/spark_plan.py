"""Checks that a query, as Spark's own parser reads it, only reads the tables that it was given."""

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
#: Kinds of plans before names are resolved: what SELECT, VALUES, joins and set operations are made of
_ALLOWED = frozenset(_PLANS.split())
_PARSED, _ANALYZED = "== Parsed Logical Plan ==\n", "\n\n== Analyzed Logical Plan ==\n"
#: A line of an explained plan: "   :  +- 'UnresolvedRelation [t], [], false". Each level is three characters wide.
_LINE = re.compile(r"(?P<levels>(?:(?:   |:  )*[+:]- )?)'?(?P<kind>\w+\$?)(?: (?P<rest>.*))?")
_RELATION = re.compile(r"\[(\w+)\], \[\], false")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_SHOWN = 200  #: characters of a plan in a message


def must_only_read(spark: SparkSession, text: str, names: Collection[str]) -> None:
    """Checks a query as Spark parses it.

    In a session of Connect, where the parser is elsewhere, the server explains the query: it parses and analyzes it, and
    runs nothing.

    Args:
        names: those that stand for the tables of the query.

    Raises:
        NotSupported: it reads something else, or does more than read.
        Exception: Spark does not understand it.
    """
    known = frozenset(name.lower() for name in names)
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        _must_have_no_line_breaks(text)
        row = spark.sql(f"EXPLAIN EXTENDED {text}").collect()[0]
        check_explained(str(row[0]), known, is_recursive="recursive" in text.lower())
        return
    _check(session.sessionState().sqlParser().parsePlan(text), known)


def check_explained(plan: str, known: frozenset[str], *, is_recursive: bool = False) -> None:
    """Checks the parsed plan in what EXPLAIN EXTENDED prints of a query without line breaks.

    Args:
        is_recursive: names of a WITH may stand for themselves.

    Raises:
        NotSupported: it has something else than reading, or cannot be understood.
    """
    parsed, marker, rest = plan.removeprefix(_PARSED).partition(_ANALYZED)
    if not plan.startswith(_PARSED) or not marker or _ANALYZED in rest:
        raise _not_read("no plan that can be read")
    nodes = []
    for line in parsed.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            raise _not_read(f"a plan that cannot be read: {printable(line)[:_SHOWN]}")
        nodes.append(_Node(len(match["levels"]) // 3, match["kind"], match["rest"] or ""))
    _check_node(nodes, 0, known, is_recursive)


class _Node(NamedTuple):
    """A line of an explained plan; those below it have higher levels."""

    level: int
    kind: str
    rest: str


def _check_node(nodes: Sequence[_Node], at: int, known: frozenset[str], is_recursive: bool) -> int:
    """Checks a node with all that is below it, and returns the number of the next one."""
    node = nodes[at]
    at += 1
    if node.kind == "CTE":
        while (
            at < len(nodes) and nodes[at].level == node.level + 2
        ):  # what it defines; its own plan follows, a level higher
            if nodes[at].kind != "SubqueryAlias":
                raise _not_read(nodes[at].kind)
            name = nodes[at].rest.lower()
            at = _check_node(nodes, at, known | {name} if is_recursive else known, is_recursive)
            known |= {name}
    elif node.kind == "UnresolvedRelation":
        relation = _RELATION.fullmatch(node.rest)
        if relation is None or relation[1].lower() not in known:
            raise _not_read(f"the table {printable(node.rest)[:_SHOWN]}, which was not understood as one here")
    elif node.kind not in _ALLOWED:
        raise _not_read(node.kind)
    while at < len(nodes) and nodes[at].level > node.level:
        at = _check_node(nodes, at, known, is_recursive)
    return at


def _must_have_no_line_breaks(text: str) -> None:
    """Checks that no text or name in a query makes a line of its own in an explained plan.

    Raises:
        NotSupported: one may.
    """
    if "\n" in text or any(escape[1] in "n01uU" for escape in _ESCAPE.finditer(text)):
        raise NotSupported(
            "query: in a session of Connect a text or name with a line break, or with a number of a character, cannot be "
            "told from Spark's plan; nothing was done. Write char(10), or give the text as a column of a DataFrame"
        )


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
