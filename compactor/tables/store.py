"""The open metastore as a program uses it: tables, and transactions over several of them."""

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
    """An open metastore. Made by ``open_metastore``, or around a site that is open already."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def load_table(self, name: str) -> Table:
        """Returns the table ``<database>.<table>``.

        Raises:
            Refused: ``name`` is of another form.
            NotFound: there is none of this name.
        """
        return _load(self.site, name, None)

    def create_database(self, name: str, location: str) -> None:
        """Creates a database in an embedded metastore.

        Args:
            location: the directory below which its tables are created.

        Raises:
            Refused: the metastore is Hive's, there is one of this name, or ``name`` is none.
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
            schema: of pyarrow, or Hive's type of each column (``{"id": "bigint", "code": "varchar(8)"}``).
            partitioned_by: those of its columns by which the table is partitioned.
            clustered_by: columns, and the number of buckets.
            properties: beside ``transactional`` and its kin, such as ``orc.compress``.
            location: default: below the database's.

        Raises:
            Refused: the metastore is Hive's, there is a table of this name, or its directory holds something or lies within
                another table's.
            NotFound: there is no such database or column.
            NotConforming, NotSupported: a column's name or type is none that a full ACID table can have.
        """
        database, table = _names(name)
        wanted = Definition(
            schema=schema,
            partitioned_by=partitioned_by,
            clustered_by=clustered_by,
            properties=properties,
            location=location,
        )
        return Table(self.site, create_table(self.site, database, table, wanted))

    def drop_table(self, name: str, *, purge: bool = False) -> None:
        """Drops a table of an embedded metastore, once nobody else uses it.

        Args:
            purge: removes its files, too; else they stay where they are.

        Raises:
            Refused: the metastore is Hive's; or, with ``purge``, others' directories overlap the table's.
            NotFound: there is no such table.
            LockNotGranted: somebody has used it for longer than compactor.lock.wait.
        """
        database, table = _names(name)
        drop_table(self.site, self.site.metastore.catalog.table(database, table), purge=purge)

    @contextmanager
    def transaction(self) -> Iterator[StoreTransaction]:
        """Opens a transaction until the block ends, which commits, or raises, which aborts.

        Raises:
            TransactionAborted: it timed out, or another writer of the same rows committed first.
            CommitUnknown: the answer to the commit was lost.
        """
        with transaction(self.site, role="program") as txn:
            yield StoreTransaction(txn)


class StoreTransaction:
    """An open transaction: every table that it loads is seen as it was at the transaction's first statement, without what
    transactions that were opened later have committed by then, as in Hive."""

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn

    @property
    def id(self) -> int:
        """Its TXN_ID."""
        return self._txn.id

    def load_table(self, name: str) -> Table:
        """Returns the table ``<database>.<table>``; see ``Store.load_table``."""
        return _load(self._txn.site, name, self._txn)


@contextmanager
def open_metastore(
    name: str = "default", *, settings: Mapping[str, str] | None = None, config_path: str | None = None
) -> Iterator[Store]:
    """Opens a metastore until the block ends; it is configured as for the command line.

    Args:
        name: of the metastore in ``compactor.toml``.
        settings: by key, as with ``--set``; also ``url``, ``state_url``, ``warehouse`` and ``hive_conf``.
        config_path: of a ``compactor.toml``; else COMPACTOR_CONFIG, else the one in the current directory if any.

    Raises:
        BadSetting: the configuration is wrong.
        DatabaseUnavailable: a database cannot be reached, or has no schema.
        NotSupported: the database or its schema is of a kind that this release does not know.
    """
    with open_deployment(name, flags=settings, config_path=config_path) as site:
        yield Store(site)


def named_table(site: Site, name: str) -> values.Table:
    """Returns the table ``<database>.<table>`` as the metastore describes it; see ``Store.load_table``."""
    database, table = _names(name)
    return site.metastore.catalog.table(database, table)


def _load(site: Site, name: str, txn: Transaction | None) -> Table:
    return Table(site, named_table(site, name), txn)


def _names(name: str) -> tuple[str, str]:
    database, dot, table = name.partition(".")
    if not dot or not database or not table:
        raise Refused(f"table {name!r}: wanted <database>.<table>")
    return database, table
