"""SQL keywords by what they begin. Parsers use them to see where a table's name, a list or a condition ends."""

from __future__ import annotations

#: Clauses that may follow the tables of a query.
CLAUSES = frozenset(
    ("where", "group", "having", "order", "sort", "distribute", "cluster", "limit", "window", "qualify")
)
SET_OPERATIONS = frozenset(("union", "intersect", "except", "minus"))
JOINS = frozenset(("join", "inner", "outer", "left", "right", "full", "cross", "semi", "anti", "natural"))
JOINED = frozenset(("lateral", "on", "using"))  #: words that may follow the table of a join
QUERIES = ("select", "with", "from", "(")  #: the beginnings of a query
