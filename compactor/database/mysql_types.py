"""Column types of MySQL, for variants of a table's types.

SQLAlchemy has them too, in a package that also imports each driver of MySQL; a process with another database needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Dialect, String
from sqlalchemy.types import UserDefinedType


class MySQLType(UserDefinedType[Any]):
    """A type whose values pass through unchanged. ``declaration`` is how CREATE TABLE spells it."""

    cache_ok = True

    def __init__(self, declaration: str) -> None:
        self.declaration = declaration

    def get_col_spec(self, **_: object) -> str:
        return self.declaration

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str] | None:
        return String().literal_processor(dialect)  # type: ignore[no-any-return, no-untyped-call]  # SQLAlchemy's


class MySQLBit(MySQLType):
    """BIT(1), which drivers read as a byte."""

    def __init__(self) -> None:
        super().__init__("BIT(1)")

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return lambda value: value[0] if isinstance(value, bytes) else value
