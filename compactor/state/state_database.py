"""Our own state in its database: open, create, upgrade."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, select
from sqlalchemy import column as column_named
from sqlalchemy import table as table_named

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import Database, make_folder, open_database
from compactor.state.awaited_requests import AwaitedRequests
from compactor.state.batches import Batches
from compactor.state.decisions import Decisions
from compactor.state.kept_columns import KeptColumns
from compactor.state.quarantines import Quarantines
from compactor.state.read_counts import Reads
from compactor.state.runs import Runs
from compactor.state.seen_conditions import Conditions
from compactor.state.sightings import Sightings
from compactor.state.state_tables import VERSION_TABLE, metadata
from compactor.state.stored_overrides import StoredOverrides
from compactor.state.table_memories import TableMemories

_WAIT_SECONDS = 120  #: for another session that creates or upgrades the tables


class OwnState:
    """The stores of our own state. Correctness does not depend on committing together with the metastore."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.batches = Batches(database)
        self.awaited = AwaitedRequests(database)
        self.runs = Runs(database)
        self.decisions = Decisions(database)
        self.sightings = Sightings(database)
        self.conditions = Conditions(database)
        self.memories = TableMemories(database)
        self.overrides = StoredOverrides(database)
        self.quarantines = Quarantines(database)
        self.reads = Reads(database)

    def kept_columns(self, metastore: str) -> KeptColumns:
        """Returns the values for which the queue of ``metastore`` has no columns."""
        return KeptColumns(self.database, metastore)

    def close(self) -> None:
        """Closes the database."""
        self.database.close()


def open_state(url: str, read_only: bool = False) -> OwnState:
    """Opens the state at ``url``.

    Raises:
        BadSetting: the URL is malformed.
        NotSupported: this release does not know the kind of database.
        DatabaseUnavailable: the database cannot be reached, holds no state, or state of another release.
    """
    database = open_database(url, read_only=read_only)
    try:
        present, expected = version(database), newest_version()
    except BaseException:
        database.close()
        raise
    if present != expected:
        database.close()
        raise DatabaseUnavailable(f"database {database.url} {_describe_version(present)}")
    return OwnState(database)


def _describe_version(present: str | None) -> str:
    """Returns the reason why state of version ``present`` cannot be used, and what to do."""
    if present is None:
        return "holds no state; run `compactor state init`"
    problem = f"holds state of version {present}, this release has {newest_version()}"
    if present in _known_versions():
        return f"{problem}; run `compactor state upgrade`"
    return f"{problem} and does not know it; install the release that wrote it, or restore the copy of the state"


def version(database: Database) -> str | None:
    """Returns the version of the state in ``database``; None if it holds no state."""
    with database.read() as conn:
        return _version(conn)


@cache
def _known_versions() -> frozenset[str]:
    return frozenset(step.revision for step in ScriptDirectory.from_config(_config()).walk_revisions())


@cache
def newest_version() -> str | None:
    """Returns the version that this release creates."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def upgrade(database: Database) -> str | None:
    """Creates the state's tables, or upgrades them if needed; returns this release's version.

    A new state gets all tables as they are now, without the steps of earlier releases. Everything happens in one
    transaction, except on MySQL and MariaDB, which commit each statement. There an interrupted call is completed by the
    next one, and the version comes last. Of several calls at once, one acts and the others wait.

    Raises:
        DatabaseUnavailable: the database cannot be reached, has tables of these names with other columns or state of a
            later release, or another call does not end.
    """
    config = _config()
    with database.write() as conn, _alone(conn):
        config.attributes["connection"] = conn
        present = _version(conn)
        if present is None:
            _create_tables(conn, database.url)
            command.stamp(config, "head")
        elif present in _known_versions():
            command.upgrade(config, "head")
        else:
            raise DatabaseUnavailable(f"database {database.url} {_describe_version(present)}")
        return _version(conn)


@contextmanager
def _alone(conn: Connection) -> Iterator[None]:
    """Holds the lock on the state's schema in this database; a writing transaction is open on ``conn``.

    PostgreSQL ends it with the transaction, and MySQL with the block or the session: its changes of the schema end
    transactions. SQLite admits one writing transaction at a time anyway.

    Raises:
        DatabaseUnavailable: another session holds it for too long.
    """
    if conn.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(VERSION_TABLE.encode()).digest()[:8], signed=True)
        conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({number})")
    if conn.dialect.name != "mysql":
        yield
        return
    # Names are the server's, at most 64 characters long; those of databases may be as long.
    key = f"CONCAT('{VERSION_TABLE} ', LEFT(SHA2(DATABASE(), 256), 40))"
    if conn.exec_driver_sql(f"SELECT GET_LOCK({key}, {_WAIT_SECONDS})").scalar() != 1:
        raise DatabaseUnavailable(
            f"another session has been creating or upgrading our own state for {_WAIT_SECONDS} s; wait until it has ended"
        )
    try:
        yield
    finally:
        if not conn.invalidated:
            conn.exec_driver_sql(f"SELECT RELEASE_LOCK({key})")


def _create_tables(conn: Connection, url: str) -> None:
    """Creates the tables and indexes that an interrupted call left out."""
    schema = inspect(conn)
    for table in metadata.sorted_tables:
        if not schema.has_table(table.name):
            table.create(conn, checkfirst=False)
            continue
        names = {found["name"] for found in schema.get_columns(table.name)}
        if names != set(table.columns.keys()):
            raise DatabaseUnavailable(
                f"database {url}: there is no {VERSION_TABLE}, but a table {table.name} with the columns "
                f"{', '.join(sorted(names))}; expected {', '.join(sorted(table.columns.keys()))}; drop or rename it"
            )
        indexes = {index["name"] for index in schema.get_indexes(table.name)}
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.name not in indexes:
                index.create(conn, checkfirst=False)


def init(url: str) -> OwnState:
    """Opens the state at ``url``, and creates it and its folder if they do not exist."""
    make_folder(url)
    database = open_database(url)
    upgrade(database)
    database.close()
    return open_state(url)


def _version(conn: Connection) -> str | None:
    if not inspect(conn).has_table(VERSION_TABLE):
        return None
    # Alembic's own context would log the database at every call.
    number: str | None = conn.execute(
        select(column_named("version_num")).select_from(table_named(VERSION_TABLE))
    ).scalar()
    return number


def _config() -> Config:
    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
