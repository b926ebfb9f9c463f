"""The rows of ``show quarantine``: what lies there, since when and until when."""

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

    Once the compaction is undone, these are the directories that it had made.
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

    def matches(self, one: Quarantined) -> bool:
        return self.where.holds(one.entity) and self.id in (None, one.entry_id)


def find_place(site: Site, name: str | None, partition: str | None) -> Where:
    """Returns what ``name`` and ``partition`` mean; also something dropped of which data is in quarantine.

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
    site: Site, wanted: QuarantineFilter | None = None, *, limit: int | None = None
) -> list[QuarantineRow]:
    """Returns what lies in quarantine, what is due first before the rest; empty where the site keeps no state of its own.

    A compaction that waits for its cleaning has nothing there yet.
    """
    listed = [] if site.state is None else site.state.quarantines.all(site.name)
    found = [one for one in listed if one.names and (wanted is None or wanted.matches(one))]
    return [_row(one) for one in sorted(found, key=lambda one: (one.until, one.entry_id))][:limit]


def of_table(site: Site, database: str, table: str) -> dict[Entity, list[QuarantineRow]]:
    """Returns what lies in quarantine of one table, by partition."""
    found: dict[Entity, list[QuarantineRow]] = {}
    for row in show_quarantine(site, QuarantineFilter(where=Where(database=database, table=table))):
        entity = Entity(database=row.dbname, table=row.tabname, partition=row.partname)
        found.setdefault(entity, []).append(row)
    return found


def _row(one: Quarantined) -> QuarantineRow:
    return QuarantineRow(
        compactionid=one.entry_id,
        dbname=one.entity.database,
        tabname=one.entity.table,
        partname=one.entity.partition,
        directories=list(one.names),
        bytes=one.bytes,
        since=one.since,
        until=one.until,
        location=one.location,
    )
