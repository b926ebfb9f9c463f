"""One metastore: the stores that share its database."""

from __future__ import annotations

from dataclasses import replace

from compactor.base.errors import DatabaseUnavailable
from compactor.database import clock
from compactor.database.engine import Database, open_database
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
from compactor.metastore.schema import create
from compactor.metastore.schema.create import BY_WRITE_IDS, dialect_for
from compactor.metastore.schema.tables import SCHEMA_VERSION
from compactor.metastore.statistics.refresh import Statistics
from compactor.metastore.transactions.components import Components
from compactor.metastore.transactions.open_limits import TxnLimits
from compactor.metastore.transactions.stream_batches import StreamBatches
from compactor.metastore.transactions.transactions import Transactions
from compactor.metastore.transactions.write_id_rows import WriteIds


class Metastore:
    """A metastore. Use ``open_metastore``, which also checks its schema."""

    def __init__(
        self, name: str, database: Database, schema_version: str = SCHEMA_VERSION, limits: TxnLimits | None = None
    ) -> None:
        dialect = dialect_for(database.kind, schema_version, database.url)
        database.adapt(dialect.adapt)
        self.dialect = dialect
        self.name = name
        self.database = database
        self.schema_version = schema_version
        self.catalog = Catalog(database)
        self.locations = Locations(database)
        self.new_partitions = NewPartitions(database, dialect)
        self.embedded_catalog = EmbeddedCatalog(database, dialect)
        self.notifications = Notifications(dialect)
        self.transactions = Transactions(
            database, dialect, self._complete_limits(limits or TxnLimits()), notifications=self.notifications
        )
        self.write_ids = WriteIds(database, dialect, self.notifications)
        self.stream_batches = StreamBatches(database)
        self.locks = Locks(database, dialect)
        self.queue = QueueTable(database, dialect)
        self.requests = Requests(self.queue)
        self.claims = Claims(self.queue, self.notifications)
        self.commits = Commits(self.queue, Statistics(dialect, self.write_ids), self.notifications)
        self.cleaning = Cleaning(self.queue)
        self.entries = Entries(self.queue)
        self.housekeeping = Housekeeping(database, dialect)
        self.components = Components(database, dialect)
        self.mutexes = Mutexes(database, dialect)
        self.marks = StoredMarks(database, dialect)
        self.claim_token = ClaimToken(database)

    def _complete_limits(self, limits: TxnLimits) -> TxnLimits:
        if limits.min_history_write_id is None:
            return replace(limits, min_history_write_id=self.schema_version in BY_WRITE_IDS)
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
    version = create.version(database)
    if version is None:
        raise DatabaseUnavailable(
            f"database {database.url} holds no metastore (it has no table VERSION); check the URL, or create one with "
            + ("`compactor metastore init`" if database.kind == "sqlite" else "Hive's schematool")
        )
    return Metastore(name, database, version, limits)
