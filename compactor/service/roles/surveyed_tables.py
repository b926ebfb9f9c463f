"""Tables and partitions as one pass sees them: read once, many with one statement."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from compactor.acid.partition_names import by_recorded_name, escaped_once_less
from compactor.acid.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from compactor.compaction.entry import Entity
from compactor.errors import CompactorError, DatabaseUnavailable, NotFound, failing_alone
from compactor.ids import WriteId
from compactor.metastore.catalog.values import Partition, Table
from compactor.service.site import Moment, Site
from compactor.settings.precedence import Settings

log = logging.getLogger(__name__)
_AT_ONCE = 1000  #: tables and partitions that are read by one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedTable:
    """A table as one pass sees it: its write IDs, its settings, and its partitions as far as somebody asked for them, None
    for one that does not exist."""

    table: Table
    write_ids: CompactorWriteIdList
    next_write_id: WriteId  #: at the latest; writers may have drawn it since
    settings: Settings
    partitions: dict[str, Partition | None] = field(default_factory=dict)


class SurveyedTables:
    """Reads tables, their write IDs in the snapshot ``txns``, and their partitions, each once."""

    def __init__(self, site: Site, txns: ValidTxnList, moment: Moment) -> None:
        self._site, self._txns, self._moment = site, txns, moment
        self._tables: dict[tuple[str, str], SurveyedTable | CompactorError | None] = {}
        self._recorded: dict[int, Mapping[str, Sequence[str]]] = {}

    def meant(self, recorded: Sequence[Entity]) -> list[Entity]:
        """Returns the entities that writers record under these names, once each, and each under the name by which its
        partition is stored."""
        lowered = self._site.metastore.dialect.lowers_partitions
        self.expect(_table_of(one) if lowered else form for one in recorded for form in _named(one))
        meant = list(dict.fromkeys(entity for one in recorded for entity in self._meant_by(one)))
        self.expect(meant)
        return meant

    def expect(self, entities: Iterable[Entity]) -> None:
        """Reads the tables and partitions that are not known yet, many with one statement."""
        waiting = iter(entities)
        while page := list(islice(waiting, _AT_ONCE)):
            try:
                with failing_alone(f"{len(page)} tables and partitions"):
                    self._read(page)
            except DatabaseUnavailable:
                raise
            except CompactorError as error:  # of one of them; each is then read by itself
                log.info("%s", error)

    def _read(self, page: Sequence[Entity]) -> None:
        metastore = self._site.metastore
        names = {(one.database, one.table): (one.database.lower(), one.table.lower()) for one in page}
        new = {name: lower for name, lower in names.items() if name not in self._tables}
        tables = metastore.catalog.named(set(new.values()))
        write_ids = metastore.write_ids.valid_of(list(tables), self._txns)
        for name, lower in new.items():
            self._keep(name, tables.get(lower), write_ids.get(lower))
        if metastore.dialect.lowers_partitions:
            self._read_names(tables.values())
        self._read_partitions(page)

    def _read_partitions(self, page: Sequence[Entity]) -> None:
        wanted = [(found, one.partition) for one in page if one.partition and (found := self._partitioned(one))]
        new = {(found.table.id, name): found for found, name in wanted if name not in found.partitions}
        partitions = self._site.metastore.catalog.partitions_named(new)
        for (table_id, name), found in new.items():
            found.partitions[name] = partitions.get((table_id, name))

    def _partitioned(self, entity: Entity) -> SurveyedTable | None:
        found = self._tables.get((entity.database, entity.table))
        return found if isinstance(found, SurveyedTable) and found.table.partition_keys else None

    def _keep(self, name: tuple[str, str], table: Table | None, write_ids: ValidWriteIdList | None) -> None:
        """Keeps what was read of the table ``name``, or the reason why it cannot be understood."""
        self._tables[name] = None
        try:
            with failing_alone(".".join(name)):
                if table is not None and write_ids is not None:
                    self._tables[name] = SurveyedTable(
                        table=table,
                        write_ids=write_ids.for_compactor(),
                        next_write_id=WriteId(write_ids.high_watermark + 1),
                        settings=self._site.settings_for(table, self._moment),
                    )
        except DatabaseUnavailable:
            raise
        except CompactorError as error:
            self._tables[name] = error

    def partition(self, entity: Entity) -> Partition | None:
        """Returns the partition that ``entity`` names; None if it is not there, or none is named.

        Raises:
            CompactorError: the table's entry in the catalog cannot be understood.
        """
        found = self.found(entity)
        if found is None or entity.partition is None or not found.table.partition_keys:
            return None
        if entity.partition not in found.partitions:
            self._read_partitions([entity])
        return found.partitions[entity.partition]

    def partitions(self, table: Table) -> list[Partition]:
        """Returns every partition of a table."""
        found = self.found(Entity(database=table.database, table=table.name))
        if found is None:
            return []
        every = self._site.metastore.catalog.partitions(found.table)
        found.partitions.update({one.name: one for one in every})
        return every

    def _meant_by(self, recorded: Entity) -> Sequence[Entity]:
        """Returns the partitions that writers record under this name; ``recorded`` itself if there is none."""
        if recorded.partition is None or (found := self._found_if_readable(recorded)) is None:
            return [recorded]
        if not self._site.metastore.dialect.lowers_partitions:
            return [next((one for one in _named(recorded) if self.partition(one) is not None), recorded)]
        self._read_names([found.table])
        names = self._recorded[found.table.id].get(recorded.partition)
        return [recorded] if names is None else [replace(recorded, partition=name) for name in names]

    def _read_names(self, tables: Iterable[Table]) -> None:
        """Reads the names of all partitions, for writers that record them in a form that several may have."""
        new = [table for table in tables if table.id not in self._recorded]
        for table_id, names in self._site.metastore.catalog.partition_names(new).items():
            self._recorded[table_id] = by_recorded_name(names, lowered=True)

    def _found_if_readable(self, entity: Entity) -> SurveyedTable | None:
        try:
            return self.found(entity)
        except DatabaseUnavailable:
            raise
        except CompactorError:  # ``consider`` says so
            return None

    def exists(self, entity: Entity) -> bool:
        """Returns true if the table exists, and the partition if one is named."""
        try:
            return self.found(entity) is not None and (entity.partition is None or self.partition(entity) is not None)
        except CompactorError:  # ``consider`` says so
            return True

    def found(self, entity: Entity) -> SurveyedTable | None:
        """Returns the table of ``entity``; None if it is gone.

        Raises:
            CompactorError: its entry in the catalog cannot be understood.
        """
        key = (entity.database, entity.table)
        if key not in self._tables:
            self._find(key)
        found = self._tables[key]
        if isinstance(found, CompactorError):
            raise found
        return found

    def _find(self, name: tuple[str, str]) -> None:
        """Reads one table alone."""
        try:
            with failing_alone(".".join(name)):
                table = self._site.metastore.catalog.table(*name)
                self._keep(name, table, self._site.write_ids(table, self._txns))
        except DatabaseUnavailable:
            raise
        except NotFound:
            self._tables[name] = None
        except CompactorError as error:
            self._tables[name] = error


def _table_of(entity: Entity) -> Entity:
    return replace(entity, partition=None)


def _named(entity: Entity) -> Iterator[Entity]:
    """Yields ``entity`` under each name that its partition may be stored under, the recorded one first."""
    yield entity
    if entity.partition is not None and (less := escaped_once_less(entity.partition)) != entity.partition:
        yield replace(entity, partition=less)
