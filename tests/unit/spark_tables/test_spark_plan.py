"""The parsed plan of a query, as EXPLAIN EXTENDED of Spark 4 prints it; real sessions are in ``tests/security``."""

from __future__ import annotations

import pytest

from compactor.base.errors import NotSupported
from compactor.spark_tables.spark_plan import check_explained, must_only_read

FAILED = "\n\n== Analyzed Logical Plan ==\norg.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] …"
WITH = """\
CTE [q, r]
:  :- 'SubqueryAlias q
:  :  +- 'UnresolvedSubqueryColumnAliases [a]
:  :     +- 'Project [unresolvedalias(1)]
:  :        +- OneRowRelation
:  +- 'SubqueryAlias r
:     +- 'Project ['a]
:        +- 'UnresolvedRelation [q], [], false
+- 'Filter ('a IN (list#1 []) AND exists#2 [])
   :  +- 'Project ['b]
   :     +- 'UnresolvedRelation [f], [], false
   +- 'Join UsingJoin(Inner, [a])
      :- 'UnresolvedRelation [r], [], false
      +- 'UnresolvedRelation [Q], [], false"""
RECURSIVE = """\
CTE [q]
:  +- 'SubqueryAlias q
:     +- 'UnresolvedRelation [q], [], false
+- 'Project [*]
   +- OneRowRelation"""
OUT_OF_SCOPE = """\
'Join Inner
:- 'SubqueryAlias x
:  +- CTE [q]
:     :  +- 'SubqueryAlias q
:     :     +- OneRowRelation
:     +- 'UnresolvedRelation [q], [], false
+- 'UnresolvedRelation [q], [], false"""


def explained(plan: str, after: str = FAILED) -> str:
    return f"== Parsed Logical Plan ==\n{plan}{after}"


def test_a_query_that_reads_its_tables_and_names_of_with() -> None:
    check_explained(explained(WITH), frozenset(["f"]))
    check_explained(explained(RECURSIVE), frozenset(), is_recursive=True)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (WITH.replace("[f]", "[evil]"), "the table evil"),
        (WITH.replace("[f]", "[f, x]"), r"the table \[f, x\]"),
        (WITH.replace("[f], []", "[f], [a=b]"), r"the table \[f\], \[a=b\]"),
        (WITH.replace("[r], [], false", "[r], [], true"), r"the table \[r\], \[\], true"),
        (WITH.replace("'Join UsingJoin(Inner, [a])", "'PipeOperator"), "PipeOperator"),
        (WITH.replace("CTE [q, r]", "SetCommand (a,Some(b))"), "SetCommand"),
        (WITH.replace("'SubqueryAlias r", "'Project r"), "Project"),
        (WITH.replace("[q], [], false", "[r], [], false"), "the table r,"),
        (RECURSIVE, "the table q,"),
        (OUT_OF_SCOPE, "the table q,"),
        ("'Project [a\n)]\n+- OneRowRelation", r"a plan that cannot be read: \)\]"),
        ("'Project [*]\n+-- OneRowRelation", "a plan that cannot be read"),
        ("", "a plan that cannot be read"),
        ("\n".join(f"{'   ' * (n - 1)}{'+- ' * (n > 0)}'Union false, false" for n in range(2000)), "more levels than"),
    ],
)
def test_anything_else_is_refused(plan: str, said: str) -> None:
    with pytest.raises(NotSupported, match=f"Spark finds {said}"):
        check_explained(explained(plan), frozenset(["f"]))


@pytest.mark.parametrize("after", ["", "\n== Analyzed Logical Plan ==\n", FAILED + FAILED])
def test_a_plan_without_its_one_end_is_refused(after: str) -> None:
    """It was cut off, or a text in it has such an end."""
    with pytest.raises(NotSupported, match="no plan that can be read"):
        check_explained(explained(WITH, after), frozenset(["f"]))
    with pytest.raises(NotSupported, match="no plan that can be read"):
        check_explained(WITH + FAILED, frozenset(["f"]))


class Session:
    """A session of Connect, which counts what it is asked."""

    def __init__(self, plan: str) -> None:
        self.asked: list[str] = []
        self._plan = plan

    def sql(self, text: str) -> Session:
        self.asked.append(text)
        return self

    def collect(self) -> list[tuple[str]]:
        return [(explained(self._plan),)]


@pytest.mark.parametrize("text", ["'a\n'", r"'\n'", r"'\\\n'", r"'\012'", r"'\u000a'", "`a\nb`"])
def test_the_server_is_not_asked_about_what_makes_lines_of_its_own(text: str) -> None:
    session = Session("'Project [*]\n+- OneRowRelation")
    with pytest.raises(NotSupported, match="a text or name with a line break"):
        must_only_read(session, f"select {text}", [])  # type: ignore[arg-type]
    assert session.asked == []


def test_the_server_is_asked_about_other_escapes() -> None:
    session = Session("'Project [*]\n+- OneRowRelation")
    must_only_read(session, r"select '\\d+ \'it\' \t'", [])  # type: ignore[arg-type]
    assert session.asked == [r"EXPLAIN EXTENDED select '\\d+ \'it\' \t'"]
