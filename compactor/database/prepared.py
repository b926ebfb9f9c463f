"""Frequent statements, compiled once and sent by the driver's own cursor.

With a local server SQLAlchemy takes longer over such a statement than the server does. Compiling checks that SQLAlchemy
would not convert any value or row. If something listens to an engine's statements, as tracing does, SQLAlchemy sends
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Executable, Select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler


@dataclass(frozen=True, slots=True)
class Answer:
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


def send(conn: Connection, statement: Executable, values: Mapping[str, Any]) -> Answer:
    """Sends ``statement`` with ``values`` for its parameters and set columns, within the transaction of ``conn``.

    The statement must be built once, at import or behind a cache, because its compiled form is kept in a cache.

    Raises:
        DBAPIError: as SQLAlchemy raises it.
    """
    if conn.engine.dispatch.before_cursor_execute:
        return _send_by_sqlalchemy(conn, statement, values)
    form = _form(statement, conn.dialect, tuple(values))
    with _Cursor(conn, form.text) as cursor:
        cursor.execute(form.text, form.arguments(values))
        rows = cursor.fetchall() if cursor.description is not None else ()
        return Answer(rows, cursor.rowcount, form.names)


def send_all(conn: Connection, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> int:
    """Sends ``statement`` once with each of ``rows``, in as few round trips as the driver allows; see ``send``.

    All rows have the same names.

    Returns:
        the total number of rows that matched.

    Raises:
        DBAPIError: as SQLAlchemy raises it.
    """
    if len(rows) < 2:
        return send(conn, statement, rows[0]).count if rows else 0
    if conn.engine.dispatch.before_cursor_execute:
        return conn.execute(statement, [dict(row) for row in rows]).rowcount
    form = _form(statement, conn.dialect, tuple(rows[0]))
    with _Cursor(conn, form.text) as cursor:
        cursor.executemany(form.text, [form.arguments(row) for row in rows])
        return int(cursor.rowcount)


def send_text(conn: Connection, text: str) -> None:
    """Sends a statement in the database's own SQL that has no parameters and no answer.

    Raises:
        DBAPIError: as SQLAlchemy raises it.
    """
    if conn.engine.dispatch.before_cursor_execute:
        conn.exec_driver_sql(text)
        return
    with _Cursor(conn, text) as cursor:
        cursor.execute(text)


class _Cursor:
    """Yields a cursor of the driver, and raises its errors as SQLAlchemy would."""

    def __init__(self, conn: Connection, text: str) -> None:
        self._conn = conn
        self._text = text

    def __enter__(self) -> Any:
        self._cursor = self._conn.connection.cursor()
        return self._cursor

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        dialect = self._conn.dialect
        if error is None:
            self._cursor.close()
        elif isinstance(error, dialect.loaded_dbapi.Error):
            raw = self._conn.connection.dbapi_connection
            lost = dialect.is_disconnect(error, raw, self._cursor)
            if lost:
                self._conn.invalidate(error)
            raise DBAPIError.instance(
                self._text,
                None,
                error,
                dialect.loaded_dbapi.Error,
                connection_invalidated=lost,
                dialect=dialect,
            ) from error


def _send_by_sqlalchemy(conn: Connection, statement: Executable, values: Mapping[str, Any]) -> Answer:
    result = conn.execute(statement, dict(values))
    if not result.returns_rows:
        return Answer((), result.rowcount)
    return Answer([tuple(row) for row in result.all()], result.rowcount, tuple(result.keys()))


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
        return [values[name] if name in values else self.fixed[name] for name in self.order]


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
