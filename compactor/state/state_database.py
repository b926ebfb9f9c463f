"""Our own state in its database: open, create, upgrade."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, inspect, select, table

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import Database, open_database
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


class OwnState:
    """The stores of our own state. Correctness does not depend on committing together with the metastore."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.batches = Batches(database)
        self.runs = Runs(database)
        self.decisions = Decisions(database)
        self.sightings = Sightings(database)
        self.conditions = Conditions(database)
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
        has = "holds no state" if present is None else f"holds state of version {present}, this release has {expected}"
        raise DatabaseUnavailable(f"database {database.url} {has}; run `compactor state init`, or `state upgrade`")
    return OwnState(database)


def version(database: Database) -> str | None:
    """Returns the version of the state in ``database``; None if it holds no state."""
    with database.read() as conn:
        return _version(conn)


@cache
def newest_version() -> str | None:
    """Returns the version that this release creates."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def upgrade(database: Database) -> str | None:
    """Creates the state's tables, or upgrades them if needed; returns this release's version.

    A new state gets all tables as they are now, without the steps of earlier releases. Everything happens in one
    transaction.
    """
    config = _config()
    with database.write() as conn:
        config.attributes["connection"] = conn
        if _version(conn) is None:
            metadata.create_all(conn, checkfirst=False)
            command.stamp(config, "head")
        else:
            command.upgrade(config, "head")
        return _version(conn)


def init(url: str) -> OwnState:
    """Opens the state at ``url``, and creates it if it does not exist."""
    database = open_database(url)
    upgrade(database)
    database.close()
    return open_state(url)


def _version(conn: Connection) -> str | None:
    if not inspect(conn).has_table(VERSION_TABLE):
        return None
    # Alembic's own context would log the database at every call.
    number: str | None = conn.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return number


def _config() -> Config:
    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
