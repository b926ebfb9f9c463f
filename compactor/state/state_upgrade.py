"""Our own state, created and upgraded by the steps in ``migrations``. Only this module needs Alembic."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import Database, make_folder, open_database
from compactor.state.state_database import OwnState, describe_version, open_state, version_seen_by
from compactor.state.state_tables import STATE_VERSIONS, VERSION_TABLE, metadata

_WAIT_SECONDS = 120  #: for another session that creates or upgrades the tables


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
        present = version_seen_by(conn)
        if present is None:
            _create_tables(conn, database.url)
            command.stamp(config, "head")
        elif present in STATE_VERSIONS:
            command.upgrade(config, "head")
        else:
            raise DatabaseUnavailable(f"database {database.url} {describe_version(present)}")
        return version_seen_by(conn)


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
    _set_options_of_mysql()
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


def _set_options_of_mysql() -> None:
    """Lets names differ only by case, and hold any character.

    Only the creation of tables needs this. To take an option, SQLAlchemy imports the database's dialect.
    """
    for table in metadata.tables.values():
        table.dialect_kwargs.update(mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin")


def _config() -> Config:
    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
