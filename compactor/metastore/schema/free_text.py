"""Free text in Hive's tables, escaped to what the columns can hold.

Hive's scripts for MySQL make ``latin1`` columns. The text of an error or the name of a user may have other characters, and
must be recorded anyway. Names of tables and partitions are never changed: the database refuses them.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sqlalchemy import Connection, String, bindparam, text

from compactor.compaction.queue_entry import Entity
from compactor.metastore.schema.tables import COMPACTION_QUEUE, COMPLETED_COMPACTIONS, HIVE_LOCKS, TXNS

_NAMES = (
    *("TXN_USER", "TXN_HOST", "TXN_AGENT_INFO", "TXN_META_INFO", "HL_USER", "HL_HOST", "HL_AGENT_INFO"),
    *(f"{prefix}_{name}" for prefix in ("CQ", "CC") for name in ("ERROR_MESSAGE", "INITIATOR_ID")),
)
_TABLES = (TXNS, HIVE_LOCKS, COMPACTION_QUEUE, COMPLETED_COMPACTIONS)
_COLUMNS = {column.name: column for table in _TABLES for column in table.columns if column.name in _NAMES}

_MYSQL_CHARSETS = text(
    "SELECT UPPER(COLUMN_NAME), CHARACTER_SET_NAME FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = DATABASE() AND UPPER(COLUMN_NAME) IN :names"
).bindparams(bindparam("names", expanding=True))
_ENTITY = ("CQ_DATABASE", "CQ_TABLE", "CQ_PARTITION")
#: Python's names of character sets that have others there. MySQL's ``latin1`` is Windows' 1252.
_CODECS = {"latin1": "cp1252", "utf8mb4": "utf-8", "utf8": "utf8mb3", "koi8r": "koi8_r"}
_LAST_OF_THREE_BYTES = "\uffff"

_V = TypeVar("_V")


def fit_free_text(conn: Connection, values: Mapping[str, _V]) -> Mapping[str, _V | str]:
    """Returns the ``values`` of a row, with characters escaped that a column of free text cannot hold.

    'Zażółć' becomes 'Za\\u017cółć' in a ``latin1`` column.
    """
    texts = {
        name: value
        for name, value in values.items()
        if name in _COLUMNS and isinstance(value, str) and not value.isascii()
    }
    if not texts:
        return values
    charsets = _charsets(conn, texts)  # without columns that this schema lacks: our own state keeps those as they are
    return {**values, **{name: _fit(name, texts[name], charset) for name, charset in charsets.items()}}


def unfit_names(conn: Connection, entities: Iterable[Entity]) -> dict[Entity, str]:
    """Returns the entities of which the queue's columns cannot hold a name, with that name."""
    unusual = [
        (entity, column, name)
        for entity in entities
        for column, name in zip(_ENTITY, (entity.database, entity.table, entity.partition), strict=True)
        if name is not None and not name.isascii()
    ]
    charsets = _charsets(conn, dict.fromkeys(_ENTITY)) if unusual else {}
    return {entity: name for entity, column, name in unusual if not _can_hold(charsets[column], name)}


def _can_hold(charset: str, value: str) -> bool:
    return all(map(_test_of(charset.lower()), value))


def _charsets(conn: Connection, names: Mapping[str, object]) -> dict[str, str]:
    if conn.dialect.name == "mysql":
        return {str(name): str(charset) for name, charset in conn.execute(_MYSQL_CHARSETS, {"names": list(names)})}
    encoding = "utf-8"
    if conn.dialect.name == "postgresql":
        server_encoding = str(conn.exec_driver_sql("SHOW server_encoding").scalar_one())
        encoding = server_encoding if server_encoding not in ("UTF8", "SQL_ASCII") else encoding
    return dict.fromkeys(names, encoding)


def _fit(name: str, value: str, charset: str) -> str:
    can_hold = _test_of(charset.lower())
    escaped = "".join(
        character if can_hold(character) else character.encode("unicode_escape").decode("ascii") for character in value
    )
    type_ = _COLUMNS[name].type
    return escaped[: type_.length] if isinstance(type_, String) and type_.length else escaped


def _test_of(charset: str) -> Callable[[str], bool]:
    """Returns the test whether a character set has a character."""
    codec = _CODECS.get(charset, charset.replace("win", "cp"))
    if codec == "utf8mb3":
        return lambda character: character <= _LAST_OF_THREE_BYTES and _encodes("utf-8", character)
    try:
        codecs.lookup(codec)
    except LookupError:
        return str.isascii
    return lambda character: _encodes(codec, character)


def _encodes(codec: str, character: str) -> bool:
    try:
        character.encode(codec)
    except UnicodeEncodeError:
        return False
    return True
