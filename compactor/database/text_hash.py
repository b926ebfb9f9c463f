"""Hashes of a text that the database computes, so that it can compare many rows without sending them.

Each kind of database has its own functions. Hashes of one database are only compared with hashes of the same database.
"""

from __future__ import annotations

import sqlite3
import zlib
from hashlib import blake2b
from typing import Any

from sqlalchemy import BigInteger, ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

_SQLITE_NAME, _SQLITE_SHORT_NAME = "compactor_hash", "compactor_short_hash"
_BYTES = 5  #: of a hash; sums of millions of them stay below 64 bits
_LIMIT = 1 << 8 * _BYTES
_SHORT_LIMIT = 1 << 32
_PRIME, _OTHER_PRIME = 2**31 - 1, 2**31 - 19  #: products of two smaller numbers fit into 64 bits
_FACTOR = 1_103_515_245  #: wraps around the second prime, so that hashes are no polynomial of their numbers


class text_hash(GenericFunction[int]):  # noqa: N801  # the name of an SQL function
    """The hash of a text, at least 0 and below 2**40; NULL for NULL."""

    type = BigInteger()
    inherit_cache = True


class short_hash(GenericFunction[int]):  # noqa: N801  # the name of an SQL function
    """A cheaper hash of a text that is not NULL, at least 0 and below 2**32.

    Similar texts may have similar hashes, so it is only part of a number that is hashed again.
    """

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
    # MySQL 9.7 has no MD5.
    digits = f"SUBSTR(SHA2({compiler.process(element.clauses, **options)}, 256), 1, {2 * _BYTES})"
    return f"CAST(CONV({digits}, 16, 10) AS SIGNED)"


@compiles(short_hash, "sqlite")
def _short_for_sqlite(element: short_hash, compiler: SQLCompiler, **options: Any) -> str:
    return f"{_SQLITE_SHORT_NAME}(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


@compiles(short_hash, "postgresql")
def _short_for_postgresql(element: short_hash, compiler: SQLCompiler, **options: Any) -> str:
    return f"(hashtextextended({compiler.process(element.clauses, **options)}, 0) & {_SHORT_LIMIT - 1})"


@compiles(short_hash, "mysql", "mariadb")
def _short_for_mysql(element: short_hash, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(CRC32({compiler.process(element.clauses, **options)}) AS SIGNED)"


def mix_bits(number: ColumnElement[Any], other: ColumnElement[Any] | None = None) -> ColumnElement[Any]:
    """Returns a hash of one or two numbers, at least 0, so that changes of a sum do not cancel out."""
    residue = (number % _PRIME) * _FACTOR % _OTHER_PRIME
    return residue * ((number if other is None else number + other) % _PRIME) % _PRIME


def add_text_hash(conn: sqlite3.Connection) -> None:
    """Gives a connection to SQLite the functions, which SQLite does not have."""
    conn.create_function(_SQLITE_NAME, 1, _hash, deterministic=True)
    conn.create_function(_SQLITE_SHORT_NAME, 1, zlib.crc32, deterministic=True)


def _hash(text: object) -> int | None:
    if text is None:
        return None
    return int.from_bytes(blake2b(str(text).encode(errors="surrogatepass"), digest_size=_BYTES).digest(), "big")
