"""Words of SQL by what they begin, for those that tell where a table's name, a list or a condition ends."""

from __future__ import annotations

#: What a query continues with behind its tables.
CLAUSES = frozenset(
    ("where", "group", "having", "order", "sort", "distribute", "cluster", "limit", "window", "qualify")
)
SET_OPERATIONS = frozenset(("union", "intersect", "except", "minus"))
JOINS = frozenset(("join", "inner", "outer", "left", "right", "full", "cross", "semi", "anti", "natural"))
JOINED = frozenset(("lateral", "on", "using"))  #: what belongs to a join behind its table
QUERIES = ("select", "with", "from", "(")  #: the beginnings of a query
