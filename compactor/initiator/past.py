"""The history as far as a pass of the initiator needs it: figures of every entity, rows only of those in trouble."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from compactor.compaction.entry import Entity, Entry
from compactor.metastore.queue.ended import Ended
from compactor.site.site import Site
from compactor.site.surveyed_tables import TableName

_NOTHING = Ended()


class Past:
    """The ended compactions of some tables, each read once, many with one statement.

    Args:
        partitions: no others are read; None reads all. None in it stands for tables without partitions.
    """

    def __init__(self, site: Site, partitions: Collection[str | None] | None = None) -> None:
        self._site, self._partitions = site, partitions
        self._ended: dict[TableName, Mapping[str | None, Ended]] = {}
        self._entries: dict[Entity, Sequence[Entry]] = {}

    def expect(self, tables: Collection[TableName]) -> None:
        """Reads what has ended of those of ``tables`` that are not known yet."""
        new = [table for table in tables if table not in self._ended]
        if not new:
            return
        found = self._site.metastore.ended.of(new, self._partitions)
        self._ended.update(found)
        troubled = [table for table in new if any(ended.others for ended in found[table].values())]
        if troubled:
            self._entries.update(self._site.metastore.ended.entries(troubled, self._partitions))

    def of_table(self, table: TableName) -> Mapping[str | None, Ended]:
        """Returns what has ended of a table, by partition."""
        self.expect([table])
        return self._ended[table]

    def of(self, entity: Entity) -> Ended:
        """Returns what has ended of one entity."""
        return self.of_table((entity.database, entity.table)).get(entity.partition, _NOTHING)

    def entries(self, entity: Entity) -> Sequence[Entry]:
        """Returns the history of an entity, newest first; nothing if all of it has succeeded."""
        self.expect([(entity.database, entity.table)])
        return self._entries.get(entity, ())
