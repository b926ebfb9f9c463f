"""The memory that an initiator has of each table, so that the next pass skips what has not changed."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, tuple_, update

from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts
from compactor.state.state_tables import TABLE_MEMORIES, lock_state

_M = TABLE_MEMORIES.c
_AT_ONCE = 500  #: tables in one statement
_TABS = 3  #: in the line of an entity: three figures and its name
_FIELDS = ("INPUTS", "WRITES", "PLACES", "ENDED", "CANDIDATES", "NEWEST_TXN_ID", "MADE_AT", "LOOK_AT")


class TableMemory(NamedTuple):
    """A table as a pass has seen it. Every candidate has a decision on this basis in COMPACTOR_CONDITIONS."""

    inputs: str  #: the digest of what the table contributes to each decision
    writes: str  #: the sums of ``metastore.table_sums``
    places: str
    ended: str
    candidates: int
    newest_txn: int
    made_at: int  #: epoch ms of the pass
    look_at: int  #: epoch ms at which the full round reaches one of its candidates


class TableMemories:
    """Reads and writes COMPACTOR_TABLE_MEMORIES.

    A pass claims a table before it reads the table's decisions. A row is valid if its claimant has saved it, and if no
    other pass has stored a decision about the table since (``Conditions.record``).
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, metastore: str) -> dict[tuple[str, str], tuple[str, TableMemory]]:
        """Returns the last claimant and the memory of each table with a valid memory."""
        columns = (_M[name] for name in _FIELDS)
        query = select(_M.DB_NAME, _M.TABLE_NAME, _M.WRITER, *columns)
        query = query.where(_M.METASTORE == metastore, _M.INPUTS.is_not(None))
        with self._database.read() as conn:
            return {
                (database, table): (writer, TableMemory._make(memory))
                for database, table, writer, *memory in conn.execute(query).all()
            }

    @retried
    def claim(
        self, metastore: str, tables: Mapping[tuple[str, str], str | None], writer: str
    ) -> dict[tuple[str, str], dict[str, str] | None]:
        """Claims ``tables``; their memories are invalid until ``writer`` saves new ones.

        Args:
            tables: each with the claimant of the memory that the pass has read, None if it has read none.

        Returns:
            The entities of each memory that is still the one that was read, by name; None for the others.
        """
        entities: dict[tuple[str, str], dict[str, str] | None] = dict.fromkeys(tables)
        with self._database.write() as conn:
            lock_state(conn)
            for names in in_parts(list(tables), _AT_ONCE):
                here = (_M.METASTORE == metastore, _of_tables(names))
                query = select(_M.DB_NAME, _M.TABLE_NAME, _M.WRITER, _M.ENTITIES).where(*here, _M.INPUTS.is_not(None))
                for database, table, claimant, packed in conn.execute(query).all():
                    if tables.get((database, table)) == claimant:
                        entities[database, table] = _unpack(packed)
                conn.execute(delete(TABLE_MEMORIES).where(_M.METASTORE == metastore, _of_tables(names)))
                rows = [
                    {"METASTORE": metastore, "DB_NAME": database, "TABLE_NAME": table, "WRITER": writer}
                    for database, table in names
                ]
                conn.execute(insert(TABLE_MEMORIES), rows)
        return entities

    @retried
    def save(
        self, metastore: str, memories: Mapping[tuple[str, str], tuple[TableMemory, Mapping[str, str]]], writer: str
    ) -> None:
        """Stores the memories of tables that ``writer`` has claimed last, each with its entities."""
        rows = [
            {
                **dict(zip(_FIELDS, memory, strict=True)),
                "of_metastore": metastore,
                "of_database": database,
                "of_table": table,
                "of_writer": writer,
                "ENTITIES": packed,
            }
            for (database, table), (memory, entities) in memories.items()
            if (packed := _pack(entities)) is not None
        ]
        if rows:
            with self._database.write() as conn:
                lock_state(conn)
                conn.execute(_SAVE, rows)


_SAVE = (
    update(TABLE_MEMORIES)
    .where(_M.METASTORE == bindparam("of_metastore"), _M.WRITER == bindparam("of_writer"))
    .where(_M.DB_NAME == bindparam("of_database"), _M.TABLE_NAME == bindparam("of_table"))
    .values({name: bindparam(name) for name in (*_FIELDS, "ENTITIES")})
)


def invalidate(conn: Connection, metastore: str, tables: Collection[tuple[str, str]], *, except_of: str = "") -> None:
    """Makes the memories of ``tables`` invalid, other than those of the claimant ``except_of``."""
    for names in in_parts(sorted(tables), _AT_ONCE):
        here = (_M.METASTORE == metastore, _M.WRITER != except_of, _of_tables(names))
        conn.execute(update(TABLE_MEMORIES).where(*here).values(WRITER="", INPUTS=None))


def forget_memories(conn: Connection, metastore: str, table: tuple[str, str] | None = None) -> None:
    """Deletes the memory of one table, or of all."""
    query = delete(TABLE_MEMORIES).where(_M.METASTORE == metastore)
    if table is not None:
        query = query.where(_M.DB_NAME == table[0], _M.TABLE_NAME == table[1])
    conn.execute(query)


def _of_tables(tables: Sequence[tuple[str, str]]) -> ColumnElement[bool]:
    return tuple_(_M.DB_NAME, _M.TABLE_NAME).in_(tables)


def _pack(entities: Mapping[str, str]) -> bytes | None:
    """Returns the entities as compressed lines; None if a name has a character that separates them."""
    text = "\n".join([f"{figures}\t{name}" for name, figures in entities.items()])
    count = len(entities)
    if text.count("\n") != max(0, count - 1) or text.count("\t") != count * _TABS:
        return None
    return zlib.compress(text.encode(errors="surrogatepass"), 1)


def _unpack(packed: bytes) -> dict[str, str] | None:
    """Returns the entities; None if their lines are damaged, so that the table is considered in full."""
    try:
        text = zlib.decompress(packed).decode(errors="surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        return None
    entities = {}
    for line in text.split("\n") if text else ():
        figures, _, name = line.rpartition("\t")
        entities[name] = figures
    return entities
