"""The rows of ``show quarantine``: which directories are kept, since when and until when."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.answers.row import Row
from compactor.compaction.entry import Entity
from compactor.compaction.quarantine_rules import Quarantined
from compactor.site.named_tables import Where, find_where
from compactor.site.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow(Row):
    """The directories that the cleaning of one compaction keeps, from ``since`` to ``until`` (epoch ms in the database).

    Once the compaction is undone, these are the directories that it had written.
    """

    compactionid: int
    dbname: str
    tabname: str
    partname: str | None
    directories: list[str]
    bytes: int
    since: int
    until: int
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFilter:
    """A filter of ``show quarantine``; None matches all."""

    id: int | None = None
    where: Where = Where()

    def matches(self, quarantine: Quarantined) -> bool:
        return self.where.holds(quarantine.entity) and self.id in (None, quarantine.entry_id)


def find_place(site: Site, name: str | None, partition: str | None) -> Where:
    """Returns what ``name`` and ``partition`` mean, including dropped tables with data in quarantine.

    Raises:
        NotFound, BadSetting: as ``find_where`` does.
    """
    return find_where(
        site.metastore.catalog,
        name,
        partition,
        lambda where: bool(show_quarantine(site, QuarantineFilter(where=where))),
    )


def show_quarantine(
    site: Site, filter: QuarantineFilter | None = None, *, limit: int | None = None
) -> list[QuarantineRow]:
    """Returns the quarantined directories, soonest due first; empty if the site keeps no state.

    A compaction that waits for its cleaning has nothing in quarantine yet.
    """
    quarantines = [] if site.state is None else site.state.quarantines.all(site.name)
    matches = [entry for entry in quarantines if entry.names and (filter is None or filter.matches(entry))]
    return [_row(entry) for entry in sorted(matches, key=lambda entry: (entry.until, entry.entry_id))][:limit]


def quarantine_of_table(site: Site, database: str, table: str) -> dict[Entity, list[QuarantineRow]]:
    """Returns one table's quarantined directories by partition."""
    rows: dict[Entity, list[QuarantineRow]] = {}
    for row in show_quarantine(site, QuarantineFilter(where=Where(database=database, table=table))):
        entity = Entity(database=row.dbname, table=row.tabname, partition=row.partname)
        rows.setdefault(entity, []).append(row)
    return rows


def _row(quarantine: Quarantined) -> QuarantineRow:
    return QuarantineRow(
        compactionid=quarantine.entry_id,
        dbname=quarantine.entity.database,
        tabname=quarantine.entity.table,
        partname=quarantine.entity.partition,
        directories=list(quarantine.names),
        bytes=quarantine.bytes,
        since=quarantine.since,
        until=quarantine.until,
        location=quarantine.location,
    )
