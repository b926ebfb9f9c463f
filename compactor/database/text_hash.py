"""A hash of a text that the database computes, so that it can compare many rows without sending them.

Each kind of database has its own function. Hashes of one database are only compared with hashes of the same database.
"""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

_SQLITE_NAME = "compactor_hash"
_BYTES = 5  #: of a hash; sums of millions of them stay below 64 bits
_LIMIT = 1 << 8 * _BYTES


class text_hash(GenericFunction[int]):  # noqa: N801  # the name of an SQL function
    """The hash of a text, at least 0 and below 2**40; NULL for NULL."""

    type = BigInteger()
    inherit_cache = True


@compiles(text_hash, "sqlite")
def _for_sqlite(element: text_hash, compiler: SQLCompiler, **options: Any) -> str:
    return f"{_SQLITE_NAME}({compiler.process(element.clauses, **options)})"


@compiles(text_hash, "postgresql")
def _for_postgresql(element: text_hash, compiler: SQLCompiler, **options: Any) -> str:
    return f"(hashtextextended({compiler.process(element.clauses, **options)}, 0) & {_LIMIT - 1})"


@compiles(text_hash, "mysql", "mariadb")
def _for_mysql(element: text_hash, compiler: SQLCompiler, **options: Any) -> str:
    digits = f"SUBSTR(MD5({compiler.process(element.clauses, **options)}), 1, {2 * _BYTES})"
    return f"CAST(CONV({digits}, 16, 10) AS SIGNED)"


def add_text_hash(conn: sqlite3.Connection) -> None:
    """Gives a connection to SQLite the function, which SQLite does not have."""
    conn.create_function(_SQLITE_NAME, 1, _hash, deterministic=True)


def _hash(text: object) -> int | None:
    if text is None:
        return None
    return int.from_bytes(blake2b(str(text).encode(errors="surrogatepass"), digest_size=_BYTES).digest(), "big")
