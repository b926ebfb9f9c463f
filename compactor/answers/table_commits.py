"""New commits to a table, for sensors and others that wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import NotFound, Refused
from compactor.base.ids import WriteId
from compactor.site.named_tables import parse_table
from compactor.site.site import Site

MOST_PARTITIONS = 1000  #: that an event names; more would not fit where events are stored


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A table at one moment: its id (None: it did not exist) and its valid write-id list."""

    table: int | None = None
    write_ids: ValidWriteIdList = ValidWriteIdList(table=None, high_watermark=WriteId(0))

    def to_json(self) -> dict[str, object]:
        return {"table": self.table, "write_ids": str(self.write_ids)}

    @classmethod
    def from_json(cls, json: Mapping[str, object]) -> TableVersion:
        """Parses the result of ``to_json``.

        Raises:
            ValueError, KeyError: it is something else.
        """
        table = json["table"]
        return cls(
            table=None if table is None else int(str(table)), write_ids=ValidWriteIdList.parse(str(json["write_ids"]))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommits:
    """Commits to one table. ``partitions`` are those still recorded as written.

    ``partitions`` is None if there are too many to name.
    """

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


def commits_since(site: Site, table: str, seen: TableVersion | None) -> tuple[TableVersion, TableCommits | None]:
    """Returns ``table`` (``DATABASE.TABLE``) as it is now, and the commits to it since ``seen``.

    The commits are None on the first look, where the wait begins, and if there are none. A transaction counts when it
    commits, however early it was opened. Compactions do not count. All commits of a re-created table are new.

    Raises:
        Refused: the table has no transactions.
    """
    database, name = parse_table(table)
    now = _look(site, database, name)
    if seen is None:
        return now, None
    previous = seen if seen.table == now.table else TableVersion()
    new = now.write_ids.committed_since(previous.write_ids)
    if not new:
        return now, None
    ours = site.metastore.write_ids.of_compactions(database, name)
    write_ids = tuple(number for number in new if number not in ours)
    if not write_ids:
        return now, None
    partitions = site.metastore.components.written_partitions(database, name, write_ids)
    names = None if len(partitions) > MOST_PARTITIONS else tuple(partitions)
    return now, TableCommits(table=f"{database}.{name}", write_ids=write_ids, partitions=names)


def _look(site: Site, database: str, name: str) -> TableVersion:
    try:
        table = site.metastore.catalog.table(database, name)
    except NotFound:
        return TableVersion()
    if not table.is_transactional:
        raise Refused(f"{table} is not transactional: its commits are not recorded; expected: transactional=true")
    valid = site.metastore.write_ids.valid(database, name, site.metastore.transactions.snapshot())
    return TableVersion(table=table.id, write_ids=valid)
