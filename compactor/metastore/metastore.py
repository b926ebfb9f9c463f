"""One metastore: the stores that share its database."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from compactor.base.errors import DatabaseUnavailable
from compactor.database import clock
from compactor.database.engine import Database, open_database
from compactor.metastore.schema import detect
from compactor.metastore.schema.tables import SCHEMA_VERSION
from compactor.metastore.transactions.open_limits import TxnLimits

if TYPE_CHECKING:
    from compactor.metastore.catalog.embedded import EmbeddedCatalog
    from compactor.metastore.catalog.locations import Locations
    from compactor.metastore.catalog.new_partitions import NewPartitions
    from compactor.metastore.catalog.read import Catalog
    from compactor.metastore.claim_token import ClaimToken
    from compactor.metastore.high_water_marks import StoredMarks
    from compactor.metastore.locks.hive_locks import Locks
    from compactor.metastore.mutex import Mutexes
    from compactor.metastore.notifications.notification_log import Notifications
    from compactor.metastore.queue.cleaning_rows import Cleaning
    from compactor.metastore.queue.commit_section import Commits
    from compactor.metastore.queue.entries import Entries
    from compactor.metastore.queue.queue_table import QueueTable
    from compactor.metastore.queue.requests import Requests
    from compactor.metastore.queue.worker_claims import Claims
    from compactor.metastore.row_removal import Housekeeping
    from compactor.metastore.transactions.components import Components
    from compactor.metastore.transactions.stream_batches import StreamBatches
    from compactor.metastore.transactions.transactions import Transactions
    from compactor.metastore.transactions.write_id_rows import WriteIds


class Metastore:
    """A metastore. Use ``open_metastore``, which also checks its schema.

    Each store is imported when it is first used. A command uses a few of them, and to import all of them would take longer
    than its answer.
    """

    def __init__(
        self, name: str, database: Database, schema_version: str = SCHEMA_VERSION, limits: TxnLimits | None = None
    ) -> None:
        dialect = detect.dialect_for(database.kind, schema_version, database.url)
        database.adapt(dialect.adapt)
        self.dialect = dialect
        self.name = name
        self.database = database
        self.schema_version = schema_version
        self._limits = self._complete_limits(limits or TxnLimits())

    @cached_property
    def catalog(self) -> Catalog:
        from compactor.metastore.catalog.read import Catalog

        return Catalog(self.database)

    @cached_property
    def locations(self) -> Locations:
        from compactor.metastore.catalog.locations import Locations

        return Locations(self.database)

    @cached_property
    def new_partitions(self) -> NewPartitions:
        from compactor.metastore.catalog.new_partitions import NewPartitions

        return NewPartitions(self.database, self.dialect)

    @cached_property
    def embedded_catalog(self) -> EmbeddedCatalog:
        from compactor.metastore.catalog.embedded import EmbeddedCatalog

        return EmbeddedCatalog(self.database, self.dialect)

    @cached_property
    def notifications(self) -> Notifications:
        from compactor.metastore.notifications.notification_log import Notifications

        return Notifications(self.dialect)

    @cached_property
    def transactions(self) -> Transactions:
        from compactor.metastore.transactions.transactions import Transactions

        return Transactions(self.database, self.dialect, self._limits, notifications=self.notifications)

    @cached_property
    def write_ids(self) -> WriteIds:
        from compactor.metastore.transactions.write_id_rows import WriteIds

        return WriteIds(self.database, self.dialect, self.notifications)

    @cached_property
    def stream_batches(self) -> StreamBatches:
        from compactor.metastore.transactions.stream_batches import StreamBatches

        return StreamBatches(self.database)

    @cached_property
    def locks(self) -> Locks:
        from compactor.metastore.locks.hive_locks import Locks

        return Locks(self.database, self.dialect)

    @cached_property
    def queue(self) -> QueueTable:
        from compactor.metastore.queue.queue_table import QueueTable

        return QueueTable(self.database, self.dialect)

    @cached_property
    def requests(self) -> Requests:
        from compactor.metastore.queue.requests import Requests

        return Requests(self.queue)

    @cached_property
    def claims(self) -> Claims:
        from compactor.metastore.queue.worker_claims import Claims

        return Claims(self.queue, self.notifications)

    @cached_property
    def commits(self) -> Commits:
        from compactor.metastore.queue.commit_section import Commits
        from compactor.metastore.statistics.refresh import Statistics

        return Commits(self.queue, Statistics(self.dialect, self.write_ids), self.notifications)

    @cached_property
    def cleaning(self) -> Cleaning:
        from compactor.metastore.queue.cleaning_rows import Cleaning

        return Cleaning(self.queue)

    @cached_property
    def entries(self) -> Entries:
        from compactor.metastore.queue.entries import Entries

        return Entries(self.queue)

    @cached_property
    def housekeeping(self) -> Housekeeping:
        from compactor.metastore.row_removal import Housekeeping

        return Housekeeping(self.database, self.dialect)

    @cached_property
    def components(self) -> Components:
        from compactor.metastore.transactions.components import Components

        return Components(self.database, self.dialect)

    @cached_property
    def mutexes(self) -> Mutexes:
        from compactor.metastore.mutex import Mutexes

        return Mutexes(self.database, self.dialect)

    @cached_property
    def marks(self) -> StoredMarks:
        from compactor.metastore.high_water_marks import StoredMarks

        return StoredMarks(self.database, self.dialect)

    @cached_property
    def claim_token(self) -> ClaimToken:
        from compactor.metastore.claim_token import ClaimToken

        return ClaimToken(self.database)

    def _complete_limits(self, limits: TxnLimits) -> TxnLimits:
        if limits.min_history_write_id is None:
            return replace(limits, min_history_write_id=self.schema_version in detect.BY_WRITE_IDS)
        return limits

    def now_ms(self) -> int:
        """Returns the time of the database's clock, in epoch milliseconds."""
        with self.database.read() as connection:
            return clock.now_ms(connection)

    def silent_before_ms(self, timeout_ms: int) -> int:
        """Returns the time before which a last heartbeat shows a client that is silent for too long.

        Too long is more than ``timeout_ms``.
        """
        with self.database.read() as connection:
            return clock.silent_before_ms(connection, timeout_ms)

    def close(self) -> None:
        """Closes the database."""
        self.database.close()


def open_metastore(
    name: str, url: str, read_only: bool = False, *, retryable: str = "", limits: TxnLimits | None = None
) -> Metastore:
    """Opens the metastore at ``url``.

    ``retryable`` is ``hive.txn.retryable.sqlex.regex``; ``limits`` are Hive's defaults if None.

    Raises:
        BadSetting: the URL is malformed.
        NotSupported: this release does not know the kind of database or the schema version.
        DatabaseUnavailable: the database cannot be reached, or it holds no metastore.
    """
    database = open_database(url, read_only=read_only, retryable=retryable)
    try:
        return _metastore(name, database, limits)
    except BaseException:
        database.close()
        raise


def _metastore(name: str, database: Database, limits: TxnLimits | None) -> Metastore:
    version = detect.version(database)
    if version is None:
        raise DatabaseUnavailable(
            f"database {database.url} holds no metastore (it has no table VERSION); check the URL, or create one with "
            + ("`compactor metastore init`" if database.kind == "sqlite" else "Hive's schematool")
        )
    return Metastore(name, database, version, limits)
