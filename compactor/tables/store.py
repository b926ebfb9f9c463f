"""A program's open metastore: loads, creates and drops tables, opens transactions over several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from compactor.base.errors import Refused
from compactor.metastore.catalog import values
from compactor.site.deployment import open_deployment
from compactor.site.site import Site
from compactor.tables.definitions import Definition, create_database, create_table, drop_table
from compactor.tables.table import Table
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction


class Store:
    """An open metastore. ``open_metastore`` creates it; it can also wrap an open site."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def load_table(self, name: str) -> Table:
        """Returns the table ``<database>.<table>``.

        Raises:
            Refused: ``name`` has another form.
            NotFound: the table does not exist.
        """
        return _load(self.site, name, None)

    def create_database(self, name: str, location: str) -> None:
        """Creates a database in an embedded metastore.

        Args:
            location: the directory below which its tables are created.

        Raises:
            Refused: the metastore is Hive's, the database exists, or ``name`` is not a valid name.
        """
        create_database(self.site, name, location)

    def create_table(
        self,
        name: str,
        schema: pa.Schema | Mapping[str, str],
        *,
        partitioned_by: Sequence[str] = (),
        clustered_by: tuple[Sequence[str], int] | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> Table:
        """Creates an empty full ACID table in an embedded metastore, and its directory.

        Args:
            name: ``<database>.<table>``.
            schema: a pyarrow schema, or the Hive type of each column (``{"id": "bigint", "code": "varchar(8)"}``).
            partitioned_by: the columns of ``schema`` by which the table is partitioned.
            clustered_by: columns, and the number of buckets.
            properties: more table properties, such as ``orc.compress``; ``transactional`` is set anyway.
            location: the directory; by default a directory below the database's.

        Raises:
            Refused: the metastore is Hive's, the table exists, or its directory is not empty or overlaps another table's.
            NotFound: the database or a column does not exist.
            NotConforming, NotSupported: a full ACID table cannot have a column of this name or type.
        """
        database, table = _split_name(name)
        definition = Definition(
            schema=schema,
            partitioned_by=partitioned_by,
            clustered_by=clustered_by,
            properties=properties,
            location=location,
        )
        return Table(self.site, create_table(self.site, database, table, definition))

    def drop_table(self, name: str, *, purge: bool = False) -> None:
        """Drops a table of an embedded metastore, once nobody else uses it.

        Args:
            purge: also remove its files; otherwise they stay where they are.

        Raises:
            Refused: the metastore is Hive's; or, with ``purge``, another table's directory overlaps this table's.
            NotFound: the table does not exist.
            LockNotGranted: somebody has used it for longer than compactor.lock.wait.
        """
        database, table = _split_name(name)
        drop_table(self.site, self.site.metastore.catalog.table(database, table), purge=purge)

    @contextmanager
    def transaction(self) -> Iterator[StoreTransaction]:
        """Opens a transaction; the end of the block commits it, an exception aborts it.

        Raises:
            TransactionAborted: it timed out, or another writer of the same rows committed first.
            CommitUnknown: the answer to the commit was lost.
        """
        with transaction(self.site, role="program") as txn:
            yield StoreTransaction(txn)


class StoreTransaction:
    """An open transaction. It shows every table that it loads as of its first statement.

    As in Hive, it never shows rows of transactions that were opened later, even if they committed before that statement.
    """

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn

    @property
    def id(self) -> int:
        """The id of the transaction (TXN_ID)."""
        return self._txn.id

    def load_table(self, name: str) -> Table:
        """Returns the table ``<database>.<table>``; see ``Store.load_table``."""
        return _load(self._txn.site, name, self._txn)


@contextmanager
def open_metastore(
    name: str = "default", *, settings: Mapping[str, str] | None = None, config_path: str | None = None
) -> Iterator[Store]:
    """Opens a metastore until the block ends, with the configuration of the command line.

    Args:
        name: the name of the metastore in ``compactor.toml``.
        settings: values by key, as with ``--set``; also ``url``, ``state_url``, ``warehouse`` and ``hive_conf``.
        config_path: a ``compactor.toml``; by default COMPACTOR_CONFIG, else the file in the current directory if any.

    Raises:
        BadSetting: the configuration is wrong.
        DatabaseUnavailable: a database cannot be reached, or has no schema.
        NotSupported: this release does not know this kind of database or schema.
    """
    with open_deployment(name, flags=settings, config_path=config_path) as site:
        yield Store(site)


def named_table(site: Site, name: str) -> values.Table:
    """Returns the table ``<database>.<table>`` as the metastore describes it; see ``Store.load_table``."""
    database, table = _split_name(name)
    return site.metastore.catalog.table(database, table)


def _load(site: Site, name: str, txn: Transaction | None) -> Table:
    return Table(site, named_table(site, name), txn)


def _split_name(name: str) -> tuple[str, str]:
    database, dot, table = name.partition(".")
    if not dot or not database or not table:
        raise Refused(f"table {name!r}: expected <database>.<table>")
    return database, table
