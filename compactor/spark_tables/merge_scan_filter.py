"""The rows of a table that a merge may match at all, by the keys of its source.

Where a merge's condition asks for ``t.key = s.key``, no row matches whose key is none of the source's. So only rows with
these keys are read: partitions, stripes and rows without them are left out. Spark evaluates the whole condition over what is
left.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.datasource import In
from pyspark.sql.types import DecimalType, IntegralType, StringType

from compactor.base.errors import BadStatement
from compactor.spark_tables.pushdown import filter_texts, quoted
from compactor.statements.tokens import Token, tokens
from compactor.tables.filters.expressions import LONGEST
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.row_change import EXACT, FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from compactor.spark_tables.messages import BegunChange

MOST_KEYS = 100_000  #: beyond that a read evaluates longer than it saves
LONGEST_KEY = 100  #: characters
_BESIDE = (ROW_ID, FILE, EXACT)  #: what the table's rows have besides its columns
_COMPARES = frozenset(("=", "==", "<", "<=", ">", ">=", "<>", "!="))
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
#: Words without a qualifier that Spark may read as a literal or a function, whatever columns there are.
_NO_COLUMNS = frozenset(("true", "false", "null", "user", "session_user", "current_user"))
_VARIABLES = "session"  #: the qualifier of Spark's session variables
_EQUALS = frozenset(("=", "=="))


def equal_columns(on: object, alias: str, columns: Collection[str], source: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the pairs of a column of the table and one of the source that are equal in each match.

    Args:
        on: SQL text. There are none in a Column, nor in a text that is more than comparisons of columns and literals, joined
            by AND, nor in one that Spark may read otherwise than this package.
        alias: that of the table.
        columns: the table's.
        source: the source's columns.
    """
    if not isinstance(on, str):
        return []
    try:
        found = tokens(on)
    except BadStatement:  # Spark says so, or reads it otherwise
        return []
    if not _is_read_alike(on, found):
        return []
    names = _Names(alias, columns, source)
    pairs = []
    for comparison in _conjuncts(_without_parentheses(found)):
        sides = _sides(comparison)
        if sides is None:
            return []
        left, operator, right = sides
        if operator in _EQUALS:
            pairs += names.pair(left, right) or names.pair(right, left)
    return pairs


def key_filter(on: object, alias: str, target: BegunChange, source: DataFrame) -> str | None:
    """Returns a filter, in the grammar of tables, that every row meets which matches a row of ``source``; None for none.

    The source is read for it: ``stored`` makes that cheap, and the same as what is merged.
    """
    if source.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return None  # names here are as Hive's, which are not
    types = dict(zip(target.columns, target.types, strict=True))
    for column, key in equal_columns(on, alias, (*types, *_BESIDE), source.columns):
        if column in types and _is_compared_alike(types[column], source.schema[key].dataType):
            values = _values(source, key)
            texts = filter_texts([In((column,), tuple(values))], [column]) if values else []
            if texts and len(texts[0]) <= LONGEST:
                return texts[0]
    return None


def _values(source: DataFrame, key: str) -> list[Any]:
    """Returns the values of a column of the source but NULL; none if they are too many, too long, or no text."""
    column = F.col(quoted(key))
    if source.schema[key].dataType == StringType():
        column = F.substring(column, 1, LONGEST_KEY + 1)  # of a longer one no more than that travels
    found = source.select(column).distinct().limit(MOST_KEYS + 1).toArrow().column(0).drop_null()
    try:
        values = found.to_pylist()
    except UnicodeDecodeError:
        return []
    is_long = any(isinstance(value, str) and len(value) > LONGEST_KEY for value in values)
    return [] if is_long or len(values) > MOST_KEYS else values


class _Names:
    """The names in a condition: of which side each is."""

    def __init__(self, alias: str, target: Collection[str], source: Collection[str]) -> None:
        self._alias, self._target, self._source = alias.lower(), _once(target), _once(source)
        of_target, of_source = ({name.lower() for name in names} for names in (target, source))
        self._every, self._shared = of_target | of_source, of_target & of_source

    def pair(self, one: Sequence[Token], other: Sequence[Token]) -> list[tuple[str, str]]:
        """Returns the table's column that is ``one`` and the source's that is ``other``, if they are."""
        column = self._of(one, self._target, is_target=True)
        key = self._of(other, self._source, is_target=False)
        return [] if column is None or key is None else [(column, key)]

    def _of(self, side: Sequence[Token], own: Mapping[str, str], *, is_target: bool) -> str | None:
        """Returns the column among ``own`` that ``side`` is for sure."""
        name = _column(side)
        if name is None:
            return None
        if len(side) == 1:
            means_more = name in self._shared or (side[0].kind == "word" and name in _NO_COLUMNS)
            return None if means_more else own.get(name)
        qualifier = side[0].value
        if qualifier in self._every or qualifier == _VARIABLES:
            return None  # a column's field, or a variable, perhaps
        return own.get(name) if (qualifier == self._alias) is is_target else None


def _once(columns: Collection[str]) -> dict[str, str]:
    """Returns names by their lower case, those left out that are there twice then."""
    lowered = [column.lower() for column in columns]
    return {column.lower(): column for column in columns if lowered.count(column.lower()) == 1}


def _is_read_alike(text: str, found: Sequence[Token]) -> bool:
    """Returns true for a text in which Spark sees the same tokens for sure: it ends comments and literals in another way,
    knows other blanks, and puts in the values of its own variables."""
    if "${" in text or "\\" in text:
        return False
    ends, starts = [0, *(token.end for token in found)], [*(token.start for token in found), len(text)]
    if any(text[end:start].strip(" \t\r\n") for end, start in zip(ends, starts, strict=True)):
        return False
    return all(token.kind != "word" or _WORD.fullmatch(token.value) for token in found)


def _without_parentheses(found: Sequence[Token]) -> Sequence[Token]:
    while len(found) > 1 and found[0].value == "(" and found[-1].value == ")" and found[0].kind == "sign":
        found = found[1:-1]
    return found


def _conjuncts(found: Sequence[Token]) -> Iterator[Sequence[Token]]:
    start = 0
    for place, token in enumerate(found):
        if token.kind == "word" and token.value == "and":
            yield found[start:place]
            start = place + 1
    yield found[start:]


def _sides(comparison: Sequence[Token]) -> tuple[Sequence[Token], str, Sequence[Token]] | None:
    """Returns both sides of a comparison of columns and literals, and its operator; None for anything else."""
    places = [at for at, token in enumerate(comparison) if token.kind == "sign" and token.value in _COMPARES]
    if len(places) != 1:
        return None
    left, right = comparison[: places[0]], comparison[places[0] + 1 :]
    if not all(_is_literal(side) or _column(side) is not None for side in (left, right)):
        return None
    return left, comparison[places[0]].value, right


def _is_literal(side: Sequence[Token]) -> bool:
    return len(side) == 1 and side[0].kind in ("text", "number")


def _column(side: Sequence[Token]) -> str | None:
    """Returns the name, in lower case, of ``column`` or ``alias.column``."""
    is_name = [token.kind in ("word", "quoted") for token in side]
    if is_name == [True] or (len(side) == 3 and is_name == [True, False, True] and side[1].value == "."):
        return side[-1].value.lower()
    return None


def _is_compared_alike(hive_type: str, other: DataType) -> bool:
    """Returns true for columns of one type, of which equal values are equal here, too."""
    is_text = hive_type.startswith(("char(", "varchar("))  # both are strings of Spark
    return isinstance(other, IntegralType | DecimalType | StringType) and other.simpleString() == (
        "string" if is_text else hive_type
    )
