"""The open metastore as a program uses it: tables, and transactions over several of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from compactor.deployment import open_deployment
from compactor.errors import Refused
from compactor.service.site import Site
from compactor.tables.table import Table
from compactor.tables.transactions.transaction import Transaction, transaction


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
    """An open transaction: every table that it loads is seen as it was at the transaction's first statement."""

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


def _load(site: Site, name: str, txn: Transaction | None) -> Table:
    database, dot, table = name.partition(".")
    if not dot or not database or not table:
        raise Refused(f"table {name!r}: wanted <database>.<table>")
    return Table(site, site.metastore.catalog.table(database, table), txn)
