"""Statements: compiled once and sent as text, in parts of long lists, or under a savepoint.

With a local server SQLAlchemy takes longer to compile and convert a frequent statement than the server takes to run it.
``_form`` checks that no value or row needs a conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Dialect, Executable, Select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler


@dataclass(frozen=True, slots=True)
class DatabaseAnswer:
    """The answer of the database: the rows of a query, or the number of rows that an UPDATE matched."""

    rows: Sequence[Sequence[Any]]
    count: int
    names: Sequence[str] = ()

    def scalar(self) -> Any:
        """Returns the first column of the first row; None without rows."""
        return self.rows[0][0] if self.rows else None

    def mappings(self) -> list[dict[str, Any]]:
        """Returns each row by the names of its columns."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


def send(conn: Connection, statement: Executable, values: Mapping[str, Any]) -> DatabaseAnswer:
    """Sends ``statement`` with ``values`` for its parameters and set columns.

    It runs within the transaction of ``conn``.

    The statement must be built once, at import or behind a cache, because its compiled form is kept in a cache.

    Raises:
        DBAPIError: as SQLAlchemy raises it.
    """
    form = _form(statement, conn.dialect, tuple(values))
    result = conn.exec_driver_sql(form.text, form.arguments(values))
    return DatabaseAnswer(result.all() if result.returns_rows else (), result.rowcount, form.names)


def send_all(conn: Connection, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> int:
    """Sends ``statement`` once with each of ``rows``, in as few round trips as the driver allows.

    See ``send``.

    All rows have the same names.

    Returns:
        the total number of rows that matched.

    Raises:
        DBAPIError: as SQLAlchemy raises it.
    """
    if len(rows) < 2:
        return send(conn, statement, rows[0]).count if rows else 0
    form = _form(statement, conn.dialect, tuple(rows[0]))
    return conn.exec_driver_sql(form.text, [form.arguments(row) for row in rows]).rowcount


@dataclass(frozen=True, slots=True)
class _Form:
    """A statement as compiled for one database."""

    text: str
    fixed: Mapping[str, Any]  #: values that are part of the statement, by parameter
    order: Sequence[str] | None  #: the parameters in order, if the driver takes them by position
    names: Sequence[str]

    def arguments(self, values: Mapping[str, Any]) -> Any:
        if self.order is None:
            return {**self.fixed, **values}
        return tuple(values[name] if name in values else self.fixed[name] for name in self.order)


@lru_cache(maxsize=256)
def _form(statement: Executable, dialect: Dialect, parameters: tuple[str, ...]) -> _Form:
    compiled = statement.compile(dialect=dialect, column_keys=list(parameters))  # type: ignore[attr-defined] # every kind has it
    assert isinstance(compiled, SQLCompiler)
    unknown = set(parameters) - set(compiled.params)
    columns: list[Any] = list(statement.selected_columns) if isinstance(statement, Select) else []
    changed = [bind.type for bind in compiled.binds.values() if bind.type.dialect_impl(dialect).bind_processor(dialect)]
    changed += [c.type for c in columns if c.type.dialect_impl(dialect).result_processor(dialect, None)]
    if unknown or changed or compiled.insert_prefetch or compiled.update_prefetch or compiled.post_compile_params:
        raise AssertionError(f"only SQLAlchemy can send this statement: {compiled} ({unknown or changed})")
    return _Form(
        text=str(compiled),
        fixed={name: value for name, value in compiled.params.items() if name not in parameters},
        order=list(compiled.positiontup or ()) if compiled.positional else None,
        names=[column.key for column in columns],
    )


_T = TypeVar("_T")


def in_parts(values: Sequence[_T], count: int) -> Iterator[Sequence[_T]]:
    """Yields ``values`` in in_parts of at most ``count``."""
    for start in range(0, len(values), count):
        yield values[start : start + count]


@contextmanager
def savepoint(conn: Connection, name: str, on_failure: Callable[[Exception], object]) -> Iterator[None]:
    """Runs the body under a savepoint.

    If it fails, undoes only its changes and passes the error to ``on_failure``.

    Raises:
        DBAPIError: the connection is lost, or the database has undone the whole transaction.
    """
    conn.exec_driver_sql(f"SAVEPOINT {name}")
    try:
        yield
    except Exception as error:
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            raise
        conn.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {name}")  # fails if the database has undone everything
        on_failure(error)
    else:
        conn.exec_driver_sql(f"RELEASE SAVEPOINT {name}")
