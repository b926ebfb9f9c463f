"""Tables that a transaction creates with their rows; its commit adds them to the catalog (CREATE TABLE … AS).

The commit also records their components. Until then there is no table in which an aborted write could be looked for, and
their directory holds nothing but a staging directory (PROTOCOL 14.24).
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
    """The tables that a transaction creates."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._new: list[Table] = []
        self._inserting: list[InTransaction] = []
        self._directories: list[str] = []
        self._components: dict[tuple[Entity, str], WriteId] = {}

    def __bool__(self) -> bool:
        return bool(self._new)

    def add(self, new: NewTable, directories: Collection[str], is_alone: InTransaction) -> Table:
        """Returns a new table as it will be once the transaction has committed.

        Args:
            directories: the directories that were created for it.
            is_alone: checks at the commit that nobody else has started to use its directory.

        Raises:
            NotFound: the database does not exist.
        """
        table, inserting = self._site.metastore.embedded_catalog.prepare_table(new)
        self._new.append(table)
        self._inserting += [inserting, is_alone]
        self._directories += directories
        return table

    def find(self, database: str, name: str) -> Table | None:
        """Returns the table of this name if the transaction creates it, otherwise None."""
        return next((table for table in self._new if (table.database, table.name) == (database, name)), None)

    def record(self, entity: Entity, operation: str, write_id: WriteId) -> None:
        """Records a component of a table without partitions; the commit writes it."""
        self._components[entity, operation] = write_id

    def make_durable(self) -> None:
        """Makes the names of the tables' directories durable.

        Raises:
            StorageError: a name could not be made durable; the transaction must not commit.
        """
        for error in self._site.storage.sync_names(self._directories).values():
            raise error

    def at_commit(self, txn: TxnId) -> Sequence[InTransaction]:
        """Returns the actions that create the tables and their components, within the committing database transaction.

        They raise Refused if somebody has created a table of the same name meanwhile.
        """
        return [
            *self._inserting,
            *(
                partial(_record, txn=txn, entity=entity, operation=operation, write_id=write_id)
                for (entity, operation), write_id in self._components.items()
            ),
        ]


def _record(conn: Connection, *, txn: TxnId, entity: Entity, operation: str, write_id: WriteId) -> None:
    insert_component(conn, txn, entity, operation, write_id)
