"""Checks, in Spark's own parse of a query, that it only reads the allowed tables."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
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
_RELATION, _WITH = "UnresolvedRelation", "UnresolvedWith"
#: Unresolved plan nodes of SELECT, WITH, VALUES, joins and set operations
_ALLOWED = frozenset((*_PLANS.split(), _WITH))
_PARSED, _ANALYZED = "== Parsed Logical Plan ==\n", "\n\n== Analyzed Logical Plan ==\n"
#: A line of an explained plan, such as "   :  +- 'UnresolvedRelation [t], [], false". Each level is three characters wide.
_LINE = re.compile(r"(?P<levels>(?:(?:   |:  )*[+:]- )?)'?(?P<kind>\w+\$?)(?: (?P<rest>.*))?")
#: The rest of a relation's line: its name, its options, and whether it is a stream
_PLAIN_TABLE = re.compile(r"\[(\w+)\], \[\], false")
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
    plan = session.sessionState().sqlParser().parsePlan(text)
    _check_plan(lambda: _node_from_jvm(plan), known)


class _PlanNode(NamedTuple):
    """A node of a parsed plan."""

    kind: str
    table: str = ""  #: what a relation reads
    is_plain_table: bool = False  #: a name with one part, without options, and no stream
    definitions: Iterable[tuple[str, _PlanNode]] = ()  #: the names that WITH defines, and their queries
    is_recursive: bool = False  #: a query in WITH may refer to its own name
    children: Iterable[_PlanNode] = ()


def _check_plan(read_plan: Callable[[], _PlanNode], known: frozenset[str]) -> None:
    """Checks a whole plan; see ``_check_node``."""
    try:
        _check_node(read_plan(), known)
    except RecursionError:
        raise _not_a_read("more levels than can be checked") from None


def _check_node(node: _PlanNode, known: frozenset[str]) -> None:
    """Checks a node with all nodes below it.

    Raises:
        NotSupported: a node does more than read, or reads a table that is not among ``known``.
    """
    if node.kind == _RELATION:
        if not node.is_plain_table or node.table.lower() not in known:
            raise _not_a_read(f"the table {printable(node.table)[:_SHOWN]}, which was not understood as one here")
    elif node.kind not in _ALLOWED:
        raise _not_a_read(node.kind)
    for name, definition in node.definitions:
        _check_node(definition, known | {name.lower()} if node.is_recursive else known)
        known |= {name.lower()}
    for child in node.children:
        _check_node(child, known)


def _node_from_jvm(plan: Any) -> _PlanNode:
    """Returns a node of a plan in the JVM. The nodes below it are read when they are checked."""
    kind = str(plan.getClass().getSimpleName())
    if kind == _RELATION:
        names = [str(name) for name in _iterate(plan.multipartIdentifier())]
        is_plain = len(names) == 1 and plan.options().isEmpty() and not plan.isStreaming()
        return _PlanNode(kind, ".".join(names), is_plain)
    if kind == _WITH:
        relations = _iterate(plan.cteRelations())
        definitions = ((str(pair.productElement(0)), _node_from_jvm(pair.productElement(1))) for pair in relations)
        children = map(_node_from_jvm, _iterate(plan.children()))
        return _PlanNode(kind, definitions=definitions, is_recursive=plan.allowRecursion(), children=children)
    children = map(_node_from_jvm, _iterate(plan.children().appendedAll(plan.innerChildren())))
    return _PlanNode(kind, children=children)


def _iterate(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


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
    lines = []
    for line in parsed.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            raise _not_a_read(f"a plan that cannot be read: {printable(line)[:_SHOWN]}")
        lines.append(_PlanLine(len(match["levels"]) // 3, match["kind"], match["rest"] or ""))
    _check_plan(lambda: _node_from_lines(deque(lines), is_recursive), known)


class _PlanLine(NamedTuple):
    """A line of an explained plan. The nodes below it follow, with higher levels."""

    level: int
    kind: str
    rest: str


def _node_from_lines(lines: deque[_PlanLine], is_recursive: bool) -> _PlanNode:
    """Removes the lines of a node and of all nodes below it, and returns the node."""
    line = lines.popleft()
    kind = _WITH if line.kind == "CTE" else line.kind
    definitions: list[tuple[str, _PlanNode]] = []
    # The queries of WITH are two levels below it; its own plan follows one level below it.
    while kind == _WITH and lines and lines[0].level == line.level + 2:
        if lines[0].kind != "SubqueryAlias":
            raise _not_a_read(lines[0].kind)
        definitions.append((lines[0].rest, _node_from_lines(lines, is_recursive)))
    children: list[_PlanNode] = []
    while lines and lines[0].level > line.level:
        children.append(_node_from_lines(lines, is_recursive))
    match = _PLAIN_TABLE.fullmatch(line.rest)
    table = line.rest if match is None else match[1]
    return _PlanNode(kind, table, match is not None, definitions, is_recursive, children)


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


def _not_a_read(what: str) -> NotSupported:
    return NotSupported(f"query: Spark finds {what} in it; nothing was done. Write it with SELECT (docs/sql.md)")
