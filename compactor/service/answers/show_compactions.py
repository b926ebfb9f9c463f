"""The rows of ``show compactions`` and ``show history``: which ones, in what order, and their columns.

Keys are the columns of Hive's SHOW COMPACTIONS in lower case. Ids are integers, times are epoch milliseconds of the
database's clock; None where a value was never set.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from compactor.compaction.entry import Entity, Entry
from compactor.errors import BadSetting
from compactor.service.answers.row import Row
from compactor.service.site import Site

_OURS = "compactor-"
_FREE = 4  #: parts of a worker id of ours that are not its host: ``compactor``, role, process, number


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow(Row):
    """A row of SHOW COMPACTIONS. ``duration`` in milliseconds, once it has ended."""

    compactionid: int
    dbname: str
    tabname: str
    partname: str | None
    type: str
    state: str
    workerhost: str | None
    workerid: str | None
    enqueuetime: int | None
    starttime: int | None
    duration: int | None
    hadoopjobid: str | None
    errormessage: str | None
    initiatorhost: str | None
    initiatorid: str | None
    poolname: str
    txnid: int | None
    nexttxnid: int | None
    committime: int | None
    highestwriteid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow(CompactionRow):
    """A row of the history. From our state it adds what a bounded request left for the next one, and the seconds that a
    reader takes to open the inputs and the output (None: not measured; see ``service.batches.read_cost``)."""

    deltas_left: int = 0
    bytes_left: int = 0
    opening_before: float | None = None
    opening_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFilter:
    """A filter of SHOW COMPACTIONS; None matches all. ``type`` and ``state`` use the words of its columns.

    ``pool`` ``default`` matches rows without a pool, as they are shown (in Hive it matches nothing).
    """

    id: int | None = None
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    pool: str | None = None
    type: str | None = None
    state: str | None = None

    def matches(self, row: CompactionRow) -> bool:
        pairs = (
            (self.id, row.compactionid),
            (self.database, row.dbname),
            (self.table, row.tabname),
            (self.partition, row.partname),
            (self.pool, row.poolname),
            (_folded(self.type), _folded(row.type)),
            (_folded(self.state), _folded(row.state)),
        )
        return all(wanted is None or wanted == found for wanted, found in pairs)


def _folded(text: str | None) -> str | None:
    return None if text is None else text.strip().lower()


def show_compactions(
    site: Site, wanted: CompactionFilter | None = None, *, order: str = "", limit: int | None = None
) -> list[CompactionRow]:
    """Returns the queue and the history in Hive's order: the latest event first, then by the time of the request.

    ``order`` replaces it, as in Hive's statement: columns with ``asc`` or ``desc``, separated by commas. Unset values come
    after all others.

    Raises:
        BadSetting: ``order`` names a column that does not exist.
    """
    sorts = _orders(order)
    entries = [*site.metastore.entries.queue(), *site.metastore.entries.history()]
    rows = [compaction_row(entry) for entry in sorted(entries, key=_latest)]
    rows = [row for row in rows if wanted is None or wanted.matches(row)]
    for column, descends in reversed(sorts):
        value = attrgetter(column)
        there = [row for row in rows if value(row) is not None]
        rows = sorted(there, key=value, reverse=descends) + [row for row in rows if value(row) is None]
    return rows[:limit]


def _orders(text: str) -> list[tuple[str, bool]]:
    """Parses ``column [asc|desc], ...`` into columns, each with true if the largest value comes first."""
    found: list[tuple[str, bool]] = []
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        column, _, direction = part.partition(" ")
        if column not in CompactionRow.columns() or direction.strip() not in ("", "asc", "desc"):
            raise BadSetting(
                f"order {part!r}: expected a column and asc or desc; columns are {', '.join(CompactionRow.columns())}"
            )
        found.append((column, direction.strip() == "desc"))
    return found


def show_history(site: Site, entity: Entity | None = None) -> list[HistoryRow]:
    """Returns the history alone, of one table or partition or of all, newest first."""
    entries = site.metastore.entries.history()
    if entity is not None:
        entries = [e for e in entries if (e.entity.database, e.entity.table) == (entity.database, entity.table)]
    if entity is not None and entity.partition is not None:
        entries = [e for e in entries if e.entity.partition == entity.partition]
    left = site.state.runs.left(site.name) if site.state is not None else {}
    openings = site.state.runs.openings(site.name) if site.state is not None else {}
    rows = []
    for entry in entries:
        deltas, size = left.get(entry.id, (0, 0))
        before, after = openings.get(entry.id, (None, None))
        rows.append(
            HistoryRow(
                **compaction_row(entry).to_json(),  # type: ignore[arg-type]  # the columns of its base class
                deltas_left=deltas,
                bytes_left=size,
                opening_before=before,
                opening_after=after,
            )
        )
    return rows


def _latest(entry: Entry) -> tuple[int, int, int]:
    last = max(entry.end or 0, entry.start or 0, entry.commit_time or 0)
    return (-last, entry.enqueue_time or 0, entry.id)


def compaction_row(entry: Entry) -> CompactionRow:
    """Returns an entry of the queue or the history as a row of SHOW COMPACTIONS."""
    ended = entry.end is not None and entry.start is not None
    return CompactionRow(
        compactionid=entry.id,
        dbname=entry.entity.database,
        tabname=entry.entity.table,
        partname=entry.entity.partition,
        type=entry.type.label,
        state=entry.state.label,
        workerhost=_host(entry.worker_id),
        workerid=entry.worker_id,
        enqueuetime=entry.enqueue_time,
        starttime=entry.start,
        duration=(entry.end or 0) - (entry.start or 0) if ended else None,
        hadoopjobid=entry.job_id,
        errormessage=entry.error,
        initiatorhost=_initiator_host(entry.initiator_id),
        initiatorid=entry.initiator_id,
        poolname=entry.pool or "default",
        txnid=entry.txn_id,
        nexttxnid=entry.next_txn_id,
        committime=entry.commit_time,
        highestwriteid=entry.highest_write_id,
    )


def _host(worker: str | None) -> str | None:
    """Returns the host in a worker id: ours is ``compactor-<role>-<host>-<pid>-<number>``, Hive's ``<host>-<thread>``."""
    if not worker:
        return None
    if worker.startswith(_OURS):
        parts = worker.split("-")
        return "-".join(parts[2:-2]) if len(parts) > _FREE else None
    return worker.rpartition("-")[0] or worker


def _initiator_host(initiator: str | None) -> str | None:
    """Returns the host in an initiator id: ours is ``compactor-<host>-<who>``, Hive's ``<host>-<thread>``."""
    return initiator.removeprefix(_OURS).rpartition("-")[0] or None if initiator else None
