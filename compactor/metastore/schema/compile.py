"""SQLAlchemy's compilers, adapted so that one statement is rendered as each schema needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import BindParameter, Column, String
from sqlalchemy.sql import operators
from sqlalchemy.sql.compiler import IdentifierPreparer, SQLCompiler


def exact_compiler(base: type[SQLCompiler]) -> type[SQLCompiler]:
    """Returns a MySQL compiler for which ``column = text`` respects case.

    Hive's transaction tables have a collation that ignores case, so that ``p=A`` would be taken for ``p=a``: another
    partition, whose aborted transactions must not be forgotten with ours. The plain comparison stays, for the index.
    """

    class Exact(base):  # type: ignore[valid-type, misc]  # a class that is only known now
        def visit_binary(self, binary: Any, *args: Any, **kwargs: Any) -> str:
            plain: str = super().visit_binary(binary, *args, **kwargs)
            if binary.operator not in _EXACT or not _is_name(binary.left):
                return plain
            left = binary.left._compiler_dispatch(self, **kwargs)
            exact = f"CONVERT({left} USING utf8mb4)"
            # As bytes a trailing blank counts too; between two columns the bytes could be of two character sets.
            exact = f"{exact} COLLATE utf8mb4_bin" if isinstance(binary.right, Column) else f"CAST({exact} AS BINARY)"
            rest = plain.removeprefix(left)
            return plain if rest == plain else f"({plain} AND {exact}{rest})"

    return Exact


def reduced_compiler(
    base: type[SQLCompiler], missing: Collection[str], instead: Mapping[str, str] = MappingProxyType({})
) -> type[SQLCompiler]:
    """Returns a compiler for a schema without the columns ``missing`` (``TABLE.COLUMN``).

    They read as NULL, or as the SQL that ``instead`` has for them.
    """

    class Reduced(base):  # type: ignore[valid-type, misc]  # a class that is only known now
        def visit_column(self, column: Any, *args: Any, **kwargs: Any) -> str:
            name: str = super().visit_column(column, *args, **kwargs)
            return instead.get(str(column), "NULL") if isinstance(column, Column) and str(column) in missing else name

    return Reduced


def folding_preparer(base: type[IdentifierPreparer], is_folded: Callable[[str], bool]) -> type[IdentifierPreparer]:
    """Returns a preparer that writes some upper-case names in lower case.

    PostgreSQL stores unquoted names in lower case.
    """

    class Folding(base):  # type: ignore[valid-type, misc]  # a class that is only known now
        def quote(self, ident: str, *args: Any) -> str:
            return ident.lower() if is_folded(ident) else super().quote(ident, *args)

        def quote_identifier(self, value: str) -> str:
            return value.lower() if is_folded(value) else super().quote_identifier(value)

    return Folding


_EXACT = (operators.eq, operators.in_op, operators.is_not_distinct_from)


def _is_name(element: Any) -> bool:
    return isinstance(element, Column) and isinstance(element.type, String) and not isinstance(element, BindParameter)
