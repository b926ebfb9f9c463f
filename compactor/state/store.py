"""Our state by its database: open, make and bring up to date."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, inspect, select, table

from compactor.database.engine import Database, open_database
from compactor.errors import DatabaseUnavailable
from compactor.state.batches import Batches
from compactor.state.conditions import Conditions
from compactor.state.decisions import Decisions
from compactor.state.kept_columns import KeptColumns
from compactor.state.overrides import StoredOverrides
from compactor.state.residents import Residents
from compactor.state.runs import Runs
from compactor.state.sightings import Sightings
from compactor.state.tables import VERSION_TABLE


class OwnState:
    """What is remembered besides the metastore. Nothing correct depends on both committing together."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.batches = Batches(database)
        self.residents = Residents(database)
        self.runs = Runs(database)
        self.decisions = Decisions(database)
        self.sightings = Sightings(database)
        self.conditions = Conditions(database)
        self.overrides = StoredOverrides(database)

    def kept_columns(self, metastore: str) -> KeptColumns:
        """What the queue of ``metastore`` has no columns for."""
        return KeptColumns(self.database, metastore)

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


def open_state(url: str, read_only: bool = False) -> OwnState:
    """The state at ``url``.

    Raises:
        BadSetting: the URL is malformed.
        NotSupported: a database that this release does not know.
        DatabaseUnavailable: it cannot be reached, holds no state, or is of another release.
    """
    database = open_database(url, read_only=read_only)
    try:
        found, wanted = version(database), newest_version()
    except BaseException:
        database.close()
        raise
    if found != wanted:
        database.close()
        has = "holds no state" if found is None else f"holds state of version {found}, this release has {wanted}"
        raise DatabaseUnavailable(f"database {database.url} {has}; run `compactor state init`, or `state upgrade`")
    return OwnState(database)


def version(database: Database) -> str | None:
    """The version of the state in ``database``; None when there is none."""
    with database.read() as conn:
        return _version(conn)


@cache
def newest_version() -> str | None:
    """The version that this release makes."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def upgrade(database: Database) -> str | None:
    """Make the state's tables, or bring them to this release's version; which is returned. Nothing if they are.

    All steps happen in one transaction.
    """
    config = _config()
    with database.write() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
        return _version(conn)


def init(url: str) -> OwnState:
    """The state at ``url``, made where it is not there yet."""
    database = open_database(url)
    upgrade(database)
    database.close()
    return open_state(url)


def _version(conn: Connection) -> str | None:
    if not inspect(conn).has_table(VERSION_TABLE):
        return None
    # Not by Alembic's context, which tells the log of every task and trigger that looks here which database it found.
    found: str | None = conn.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return found


def _config() -> Config:
    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
