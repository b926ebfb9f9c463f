"""Commits to a table since a moment, for those who wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import NotFound, Refused
from compactor.base.ids import WriteId
from compactor.site.named_tables import parse_table
from compactor.site.site import Site

MOST_PARTITIONS = 1000  #: that are named; an event of more would not fit where events are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table at one moment: the id of its row (None: it was not there) and its valid write-id list."""

    table: int | None = None
    write_ids: ValidWriteIdList = ValidWriteIdList(table=None, high_watermark=WriteId(0))

    def to_json(self) -> dict[str, object]:
        return {"table": self.table, "write_ids": str(self.write_ids)}

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> Seen:
        """Reads what ``to_json`` returned.

        Raises:
            ValueError, KeyError: it is something else.
        """
        table = found["table"]
        return cls(
            table=None if table is None else int(str(table)), write_ids=ValidWriteIdList.parse(str(found["write_ids"]))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Commits to one table. ``partitions`` are those still recorded as written; None if there are too many to name."""

    table: str
    write_ids: tuple[WriteId, ...]
    partitions: tuple[str, ...] | None

    def to_json(self) -> dict[str, object]:
        return {
            "table": self.table,
            "commits": len(self.write_ids),
            "first_write_id": self.write_ids[0],
            "last_write_id": self.write_ids[-1],
            "partitions": None if self.partitions is None else list(self.partitions),
        }


def commits_since(site: Site, table: str, seen: Seen | None) -> tuple[Seen, Commits | None]:
    """Returns ``table`` (``DATABASE.TABLE``) as it is now, and what has been committed to it since ``seen``.

    None of a table that was not looked at before, which is where the wait begins, and if there is nothing new. The order in
    which transactions were opened does not matter: one that commits last is news then. Compactions are no commits.
    A table that was dropped and made anew has all of its commits before it.

    Raises:
        Refused: the table has no transactions.
    """
    database, name = parse_table(table)
    now = _look(site, database, name)
    if seen is None:
        return now, None
    earlier = seen if seen.table == now.table else Seen()
    new = now.write_ids.committed_since(earlier.write_ids)
    if not new:
        return now, None
    ours = site.metastore.write_ids.of_compactions(database, name)
    write_ids = tuple(number for number in new if number not in ours)
    if not write_ids:
        return now, None
    partitions = site.metastore.candidates.partitions(database, name, write_ids)
    named = None if len(partitions) > MOST_PARTITIONS else tuple(partitions)
    return now, Commits(table=f"{database}.{name}", write_ids=write_ids, partitions=named)


def _look(site: Site, database: str, name: str) -> Seen:
    try:
        found = site.metastore.catalog.table(database, name)
    except NotFound:
        return Seen()
    if not found.is_transactional:
        raise Refused(f"{found} is not transactional: its commits are not recorded; wanted: transactional=true")
    valid = site.metastore.write_ids.valid(database, name, site.metastore.transactions.snapshot())
    return Seen(table=found.id, write_ids=valid)
