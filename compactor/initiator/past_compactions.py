"""The history that a pass of the initiator needs: figures, and the rows of entities with failures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from compactor.compaction.queue_entry import Entity, Entry
from compactor.metastore.queue.entries import Ended
from compactor.site.site import Site
from compactor.site.surveyed_tables import TableName

_NOTHING = Ended()


class PastCompactions:
    """The ended compactions of some tables, each read once, many with one statement.

    Args:
        partitions: reads only these partitions; None reads all. A None among them stands for tables without partitions.
    """

    def __init__(self, site: Site, partitions: Collection[str | None] | None = None) -> None:
        self._site, self._partitions = site, partitions
        self._ended: dict[TableName, Mapping[str | None, Ended]] = {}
        self._entries: dict[Entity, Sequence[Entry]] = {}
        self._undone = () if site.state is None else site.state.removals.undone(site.name)

    def expect(self, tables: Collection[TableName], partitions: Collection[str | None] | None = None) -> None:
        """Reads the ended compactions of those ``tables`` that were not read yet.

        With ``partitions`` only of these.
        """
        new = [table for table in tables if table not in self._ended]
        if not new:
            return
        chosen = self._partitions if partitions is None else partitions
        by_table = self._site.metastore.entries.ended(new, chosen, undone=self._undone)
        self._ended.update(by_table)
        troubled = [table for table in new if any(ended.others for ended in by_table[table].values())]
        if troubled:
            self._entries.update(self._site.metastore.entries.unsuccessful_histories(troubled, chosen))

    def expect_none(self, tables: Collection[TableName]) -> None:
        """Notes that ``tables`` have no ended compactions, which saves reading them."""
        self._ended.update((table, {}) for table in tables if table not in self._ended)

    def of_table(self, table: TableName) -> Mapping[str | None, Ended]:
        """Returns the ended compactions of a table, by partition."""
        self.expect([table])
        return self._ended[table]

    def ended(self, entity: Entity) -> Ended:
        """Returns the ended compactions of one entity."""
        return self.of_table((entity.database, entity.table)).get(entity.partition, _NOTHING)

    def entries(self, entity: Entity) -> Sequence[Entry]:
        """Returns the history of an entity, newest first; empty if all its compactions have succeeded."""
        self.expect([(entity.database, entity.table)])
        return self._entries.get(entity, ())
