"""Tables that a transaction creates with their rows: they come into the catalog with its commit (CREATE TABLE … AS).

Their components come with it, too: until then there is no table in which an aborted write could be looked for, and no name
in its directory but that of a staging directory (PROTOCOL 14.24).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from sqlalchemy import Connection

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.commit_rows import InTransaction
from compactor.metastore.transactions.write_id_rows import insert_component
from compactor.site.site import Site


class CreatedTables:
    """The tables that one transaction creates."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._new: list[Table] = []
        self._inserting: list[InTransaction] = []
        self._directories: list[str] = []
        self._components: dict[tuple[Entity, str], WriteId] = {}

    def __bool__(self) -> bool:
        return bool(self._new)

    def add(self, new: NewTable, directories: Collection[str], is_alone: InTransaction) -> Table:
        """Returns a new table as it will be; it is in the catalog once the transaction is committed.

        Args:
            directories: those that were made for it.
            is_alone: checks at the commit that nobody else has come to its directory since it was looked at.

        Raises:
            NotFound: there is no such database.
        """
        table, inserting = self._site.metastore.embedded_catalog.creating(new)
        self._new.append(table)
        self._inserting += [inserting, is_alone]
        self._directories += directories
        return table

    def named(self, database: str, name: str) -> Table | None:
        """Returns the table of this name that is created here; None for any other."""
        return next((one for one in self._new if (one.database, one.name) == (database, name)), None)

    def record(self, entity: Entity, operation: str, write_id: WriteId) -> None:
        """Takes a component of a table without partitions, which is written with the commit."""
        self._components[entity, operation] = write_id

    def make_durable(self) -> None:
        """Makes the names of the tables' directories durable.

        Raises:
            StorageError: one could not be made durable; the transaction must not commit.
        """
        for error in self._site.storage.sync_names(self._directories).values():
            raise error

    def at_commit(self, txn: TxnId) -> Sequence[InTransaction]:
        """Returns what creates the tables, and records their components, within the committing database transaction; it
        raises Refused if somebody has created one of this name meanwhile."""
        return [
            *self._inserting,
            *(
                partial(_record, txn=txn, entity=entity, operation=operation, write_id=write_id)
                for (entity, operation), write_id in self._components.items()
            ),
        ]


def _record(conn: Connection, *, txn: TxnId, entity: Entity, operation: str, write_id: WriteId) -> None:
    insert_component(conn, txn, entity, operation, write_id)
