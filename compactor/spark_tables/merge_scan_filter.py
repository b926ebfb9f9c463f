"""Narrows the scan of a merge's target to the keys of its source.

If the condition requires ``t.key = s.key``, a row can only match if the source contains its key. So the scan skips
partitions, stripes and rows without these keys. Spark evaluates the whole condition on the remaining rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.datasource import In
from pyspark.sql.types import DecimalType, IntegralType, StringType

from compactor.base.errors import BadStatement
from compactor.spark_tables.pushdown import quote_name, translate_filters
from compactor.statements.tokens import Token, tokenize
from compactor.tables.filters.expressions import LONGEST
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.row_change import EXACT, FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from compactor.spark_tables.keeper_requests import BegunChange

MOST_KEYS = 100_000  #: with more keys, evaluating the filter takes longer than it saves
LONGEST_KEY = 100  #: characters
_ADDITIONAL = (ROW_ID, FILE, EXACT)  #: additional columns of the table's rows
_COMPARES = frozenset(("=", "==", "<", "<=", ">", ">=", "<>", "!="))
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
#: Words without a qualifier that Spark may read as a literal or a function, even if a column has this name.
_NO_COLUMNS = frozenset(("true", "false", "null", "user", "session_user", "current_user"))
_VARIABLES = "session"  #: the qualifier of Spark's session variables
_EQUALS = frozenset(("=", "=="))


def find_equal_columns(
    on: object, alias: str, columns: Collection[str], source: Sequence[str]
) -> list[tuple[str, str]]:
    """Returns pairs of a table's column and a source's column that are equal in every match.

    Example: ``t.id = s.id AND t.day = s.day`` gives ``[("id", "id"), ("day", "day")]``.

    Args:
        on: the condition. It has no such pairs if it is a Column, if it is more than comparisons of columns and literals,
            joined by AND, or if Spark may read it in another way than this package.
        alias: the table's alias.
        columns: the table's columns.
        source: the source's columns.
    """
    if not isinstance(on, str):
        return []
    try:
        condition = tokenize(on)
    except BadStatement:  # Spark rejects it too, or reads it in another way
        return []
    if not _is_read_alike(on, condition):
        return []
    names = _Names(alias, columns, source)
    pairs = []
    for comparison in _split_at_and(_strip_parentheses(condition)):
        sides = _split_comparison(comparison)
        if sides is None:
            return []
        left, operator, right = sides
        if operator in _EQUALS:
            pairs += names.pair(left, right) or names.pair(right, left)
    return pairs


def build_key_filter(on: object, alias: str, target: BegunChange, source: DataFrame) -> str | None:
    """Returns a filter that keeps every row that can match ``source``; None if no filter can be built.

    It reads the keys of the source. ``store_source`` makes that cheap, and ensures that these rows are the merged ones.
    """
    if source.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return None  # names are compared without case here, as in Hive
    types = dict(zip(target.columns, target.types, strict=True))
    for column, key in find_equal_columns(on, alias, (*types, *_ADDITIONAL), source.columns):
        if column in types and _is_compared_alike(types[column], source.schema[key].dataType):
            values = _key_values(source, key)
            texts = translate_filters([In((column,), tuple(values))], [column]) if values else []
            if texts and len(texts[0]) <= LONGEST:
                return texts[0]
    return None


def _key_values(source: DataFrame, key: str) -> list[Any]:
    """Returns the distinct non-NULL values of a source column.

    Returns nothing if they are too many, too long or not text.
    """
    column = F.col(quote_name(key))
    if source.schema[key].dataType == StringType():
        column = F.substring(column, 1, LONGEST_KEY + 1)  # enough to see that a key is too long
    keys = source.select(column).distinct().limit(MOST_KEYS + 1).toArrow().column(0).drop_null()
    try:
        values = keys.to_pylist()
    except UnicodeDecodeError:
        return []
    is_long = any(isinstance(value, str) and len(value) > LONGEST_KEY for value in values)
    return [] if is_long or len(values) > MOST_KEYS else values


class _Names:
    """Decides whether a name in a condition is a column of the table or of the source."""

    def __init__(self, alias: str, target: Collection[str], source: Collection[str]) -> None:
        self._alias, self._target, self._source = (
            alias.lower(),
            _unique_by_lower_case(target),
            _unique_by_lower_case(source),
        )
        of_target, of_source = ({name.lower() for name in names} for names in (target, source))
        self._every, self._shared = of_target | of_source, of_target & of_source

    def pair(self, target: Sequence[Token], source: Sequence[Token]) -> list[tuple[str, str]]:
        """Returns the table's column ``target`` and the source's column ``source``.

        Returns nothing if one of them is not sure.
        """
        column = self._resolve(target, self._target, is_target=True)
        key = self._resolve(source, self._source, is_target=False)
        return [] if column is None or key is None else [(column, key)]

    def _resolve(self, side: Sequence[Token], own: Mapping[str, str], *, is_target: bool) -> str | None:
        """Returns the column in ``own`` to which ``side`` surely refers.

        Returns None if it may refer to something else.
        """
        name = _parse_column(side)
        if name is None:
            return None
        if len(side) == 1:
            means_more = name in self._shared or (side[0].kind == "word" and name in _NO_COLUMNS)
            return None if means_more else own.get(name)
        qualifier = side[0].value
        if qualifier in self._every or qualifier == _VARIABLES:
            return None  # perhaps a field of a column, or a variable
        return own.get(name) if (qualifier == self._alias) is is_target else None


def _unique_by_lower_case(columns: Collection[str]) -> dict[str, str]:
    """Returns column names by lower-case name, without names that differ only by case."""
    lowered = [column.lower() for column in columns]
    return {column.lower(): column for column in columns if lowered.count(column.lower()) == 1}


def _is_read_alike(text: str, condition: Sequence[Token]) -> bool:
    """Returns true if Spark surely sees the same tokens in a text.

    Spark ends comments and literals in another way, knows other blanks, and replaces its own variables.
    """
    if "${" in text or "\\" in text:
        return False
    ends, starts = [0, *(token.end for token in condition)], [*(token.start for token in condition), len(text)]
    if any(text[end:start].strip(" \t\r\n") for end, start in zip(ends, starts, strict=True)):
        return False
    return all(token.kind != "word" or _WORD.fullmatch(token.value) for token in condition)


def _strip_parentheses(condition: Sequence[Token]) -> Sequence[Token]:
    while (
        len(condition) > 1 and condition[0].value == "(" and condition[-1].value == ")" and condition[0].kind == "sign"
    ):
        condition = condition[1:-1]
    return condition


def _split_at_and(condition: Sequence[Token]) -> Iterator[Sequence[Token]]:
    start = 0
    for place, token in enumerate(condition):
        if token.kind == "word" and token.value == "and":
            yield condition[start:place]
            start = place + 1
    yield condition[start:]


def _split_comparison(comparison: Sequence[Token]) -> tuple[Sequence[Token], str, Sequence[Token]] | None:
    """Returns left side, operator and right side of a comparison of columns and literals.

    Returns None for anything else.
    """
    places = [at for at, token in enumerate(comparison) if token.kind == "sign" and token.value in _COMPARES]
    if len(places) != 1:
        return None
    left, right = comparison[: places[0]], comparison[places[0] + 1 :]
    if not all(_is_literal(side) or _parse_column(side) is not None for side in (left, right)):
        return None
    return left, comparison[places[0]].value, right


def _is_literal(side: Sequence[Token]) -> bool:
    return len(side) == 1 and side[0].kind in ("text", "number")


def _parse_column(side: Sequence[Token]) -> str | None:
    """Returns the name, in lower case, of ``column`` or ``alias.column``."""
    is_name = [token.kind in ("word", "quoted") for token in side]
    if is_name == [True] or (len(side) == 3 and is_name == [True, False, True] and side[1].value == "."):
        return side[-1].value.lower()
    return None


def _is_compared_alike(hive_type: str, other: DataType) -> bool:
    """Returns true if columns have one type and if values that Spark finds equal are equal here, too."""
    is_text = hive_type.startswith(("char(", "varchar("))  # Spark has both as strings
    return isinstance(other, IntegralType | DecimalType | StringType) and other.simpleString() == (
        "string" if is_text else hive_type
    )
