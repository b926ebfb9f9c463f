"""Our own state in its database, opened. ``state_upgrade`` creates and upgrades it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select, table

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import Database, open_database
from compactor.state.state_tables import STATE_VERSION, STATE_VERSIONS, VERSION_TABLE

if TYPE_CHECKING:
    from compactor.state.awaited_requests import AwaitedRequests
    from compactor.state.batches import Batches
    from compactor.state.decisions import Decisions
    from compactor.state.kept_columns import KeptColumns
    from compactor.state.mirrors import Mirrors
    from compactor.state.quarantines import Quarantines
    from compactor.state.read_counts import Reads
    from compactor.state.removals import Removals
    from compactor.state.runs import Runs
    from compactor.state.seen_conditions import Conditions
    from compactor.state.sightings import Sightings
    from compactor.state.stored_overrides import StoredOverrides
    from compactor.state.table_memories import TableMemories


class OwnState:
    """The stores of our own state. Correctness does not depend on committing together with the metastore.

    Each store is imported when it is first used, as those of ``Metastore`` are.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @cached_property
    def batches(self) -> Batches:
        from compactor.state.batches import Batches

        return Batches(self.database)

    @cached_property
    def runs(self) -> Runs:
        from compactor.state.runs import Runs

        return Runs(self.database)

    @cached_property
    def decisions(self) -> Decisions:
        from compactor.state.decisions import Decisions

        return Decisions(self.database)

    @cached_property
    def sightings(self) -> Sightings:
        from compactor.state.sightings import Sightings

        return Sightings(self.database)

    @cached_property
    def conditions(self) -> Conditions:
        from compactor.state.seen_conditions import Conditions

        return Conditions(self.database)

    @cached_property
    def overrides(self) -> StoredOverrides:
        from compactor.state.stored_overrides import StoredOverrides

        return StoredOverrides(self.database)

    @cached_property
    def quarantines(self) -> Quarantines:
        from compactor.state.quarantines import Quarantines

        return Quarantines(self.database)

    @cached_property
    def removals(self) -> Removals:
        from compactor.state.removals import Removals

        return Removals(self.database)

    @cached_property
    def mirrors(self) -> Mirrors:
        from compactor.state.mirrors import Mirrors

        return Mirrors(self.database)

    @cached_property
    def reads(self) -> Reads:
        from compactor.state.read_counts import Reads

        return Reads(self.database)

    @cached_property
    def awaited(self) -> AwaitedRequests:
        from compactor.state.awaited_requests import AwaitedRequests

        return AwaitedRequests(self.database)

    @cached_property
    def memories(self) -> TableMemories:
        from compactor.state.table_memories import TableMemories

        return TableMemories(self.database)

    def kept_columns(self, metastore: str) -> KeptColumns:
        """Returns the values for which the queue of ``metastore`` has no columns."""
        from compactor.state.kept_columns import KeptColumns

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
        present = version(database)
    except BaseException:
        database.close()
        raise
    if present != STATE_VERSION:
        database.close()
        raise DatabaseUnavailable(f"database {database.url} {describe_version(present)}")
    return OwnState(database)


def describe_version(present: str | None) -> str:
    """Returns the reason why state of version ``present`` cannot be used, and what to do."""
    if present is None:
        return "holds no state; run `compactor state init`"
    problem = f"holds state of version {present}, this release has {STATE_VERSION}"
    if present in STATE_VERSIONS:
        return f"{problem}; run `compactor state upgrade`"
    return f"{problem} and does not know it; install the release that wrote it, or restore the copy of the state"


def version(database: Database) -> str | None:
    """Returns the version of the state in ``database``; None if it holds no state."""
    with database.read() as conn:
        return version_seen_by(conn)


def version_seen_by(conn: Connection) -> str | None:
    """Returns the version of the state that ``conn`` reads; None if there is no state."""
    if not inspect(conn).has_table(VERSION_TABLE):
        return None
    number: str | None = conn.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return number
