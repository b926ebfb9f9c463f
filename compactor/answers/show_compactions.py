"""The rows of ``show compactions`` and ``show history``: their selection, order and columns.

Keys are the columns of Hive's SHOW COMPACTIONS in lower case. Ids are integers, times are epoch milliseconds of the
database's clock; None where a value was never set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar, cast

from compactor.answers.row import Row
from compactor.answers.running_compactions import Running, claim_places, running
from compactor.base.errors import BadSetting, NotFound
from compactor.base.identities import PREFIX, HolderProcess, is_compactor
from compactor.compaction.pool_policy import DEFAULT
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.site.named_tables import Where, find_where, nearest
from compactor.site.site import Site

_T = TypeVar("_T")
_NO_PLACE = (None, None)

#: The columns of SHOW COMPACTIONS that people see; JSON has all of Hive's columns.
SHOWN = (
    "compactionid",
    "dbname",
    "tabname",
    "partname",
    "type",
    "state",
    "enqueuetime",
    "starttime",
    "committed_at",
    "cleaned_at",
    "duration",
    "poolname",
    "workerhost",
    "txnid",
    "highestwriteid",
    "errormessage",
    "place",
    "place_because",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow(Row):
    """A row of SHOW COMPACTIONS.

    ``duration`` is the time that its worker took, in milliseconds: until the commit, or until it ended without one. In Hive
    it runs until the row leaves the queue, and so includes the wait for the cleaner.
    """

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
class QueueRow(CompactionRow):
    """A row of SHOW COMPACTIONS with the progress that our worker reports, and where to watch it.

    ``units`` and ``bytes`` count the input, and ``left_ms`` is the remaining time. ``left_to`` names the engine that alone
    acts on the row; None for ours. ``place`` is that of a waiting request in the order of claims, and ``place_because`` the
    reason.
    """

    units: int | None = None
    units_done: int | None = None
    bytes: int | None = None
    bytes_done: int | None = None
    left_ms: int | None = None
    tracking_url: str | None = None
    log_url: str | None = None
    task_url: str | None = None
    left_to: str | None = None
    place: int | None = None
    place_because: str | None = None
    committed_at: int | None = None
    cleaned_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow(CompactionRow):
    """A row of the history with figures from our state.

    At ``committed_at`` readers have the result. At ``cleaned_at`` the obsolete directories are removed, or lie in quarantine
    until ``kept_until``. At ``removed_at`` they are gone. ``undone_at`` is the time of a restore.

    ``deltas_left`` and ``bytes_left`` are what a bounded request left for the next one. ``opening_before`` and
    ``opening_after`` are the seconds to open the inputs and the output (None: not measured; see ``batches.read_cost``).
    """

    deltas_left: int = 0
    bytes_left: int = 0
    opening_before: float | None = None
    opening_after: float | None = None
    committed_at: int | None = None
    cleaned_at: int | None = None
    removed_at: int | None = None
    kept_until: int | None = None
    undone_at: int | None = None
    removed_files: int | None = None
    removed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFilter:
    """A filter of SHOW COMPACTIONS; None matches all.

    The pool ``default`` matches rows without a pool, since they are shown with that name. In Hive it matches nothing.
    """

    id: int | None = None
    where: Where = Where()
    pool: str | None = None
    type: CompactionType | None = None
    state: State | None = None

    def matches(self, entry: Entry) -> bool:
        pairs = (
            (self.id, entry.id),
            (self.pool, entry.pool or DEFAULT),
            (self.type, entry.type),
            (self.state, entry.state),
        )
        return self.where.holds(entry.entity) and all(value is None or value == actual for value, actual in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionWords:
    """A filter as a user writes it; None matches all.

    ``type`` and ``state`` are Hive's words, in any case.
    """

    id: int | None = None
    name: str | None = None
    partition: str | None = None
    pool: str | None = None
    type: str | None = None
    state: str | None = None


def find_filter(site: Site, words: CompactionWords) -> CompactionFilter:
    """Returns the filter that ``words`` mean.

    Raises:
        NotFound: the table, partition or pool exists neither in the catalog nor in the queue or the history.
        BadSetting: the type or state is unknown, or the name could be a table or a database.
    """
    types, states = {type.label.lower(): type for type in CompactionType}, {state.label: state for state in State}
    kind, state = _parse_word("type", words.type, types), _parse_word("state", words.state, states)
    where = find_where(
        site.metastore.catalog,
        words.name,
        words.partition,
        lambda where: any(where.holds(entry.entity) for entry in _list_entries(site)),
    )
    if words.pool is not None:
        must_be_known(site, words.pool)
    return CompactionFilter(id=words.id, where=where, pool=words.pool, type=kind, state=state)


def must_be_known(site: Site, pool: str, entries: Sequence[Entry] | None = None) -> None:
    """Checks that ``pool`` is configured or occurs in ``entries``, by default the queue and the history.

    Raises:
        NotFound: it is not.
    """
    if pool == DEFAULT or pool in site.pools:
        return
    candidates = _list_entries(site) if entries is None else entries
    pools = {DEFAULT, *site.pools, *(entry.pool or DEFAULT for entry in candidates)}
    if pool not in pools:
        raise NotFound(f"pool {pool!r}: it is not configured, and no compaction has it{nearest(pool, pools)}")


def _parse_word(what: str, word: str | None, known: Mapping[str, _T]) -> _T | None:
    if word is None:
        return None
    folded = word.strip().lower()
    if folded not in known:
        raise BadSetting(f"{what} {word!r}: expected one of {', '.join(known)}{nearest(folded, known)}")
    return known[folded]


def _list_entries(site: Site) -> list[Entry]:
    return [*site.metastore.entries.queue(), *site.metastore.entries.history()]


def show_compactions(
    site: Site, selection: CompactionFilter | None = None, *, order: str = "", limit: int | None = None
) -> list[QueueRow]:
    """Returns the queue and the history in Hive's order.

    The latest event decides, newest first, then the time of the request.

    ``order`` replaces it, as in Hive's statement: columns with ``asc`` or ``desc``, separated by commas. Unset values come
    last.

    Raises:
        BadSetting: ``order`` names a column that does not exist.
    """
    orders = _parse_order(order)
    entries = [entry for entry in _list_entries(site) if selection is None or selection.matches(entry)]
    at_work, places = running(site, entries), claim_places(site, entries)
    rows = [
        _queue_row(entry, at_work.get(entry.id), places.get(entry.id, _NO_PLACE))
        for entry in sorted(entries, key=_latest)
    ]
    for column, descends in reversed(orders):
        value = attrgetter(column)
        set_rows = [row for row in rows if value(row) is not None]
        rows = sorted(set_rows, key=value, reverse=descends) + [row for row in rows if value(row) is None]
    return rows[:limit]


def _queue_row(entry: Entry, at_work: Running | None, place: tuple[int | None, str | None]) -> QueueRow:
    row: dict[str, Any] = compaction_row(entry).to_json()
    row |= {"place": place[0], "place_because": place[1], "left_to": entry.left_to}
    row |= {"committed_at": entry.committed_at, "cleaned_at": entry.cleaned_at}
    return QueueRow(**row, **({} if at_work is None else cast(dict[str, Any], at_work.to_json())))


def _parse_order(text: str) -> list[tuple[str, bool]]:
    """Parses ``column [asc|desc], ...`` into columns, each with True if the largest value comes first."""
    orders: list[tuple[str, bool]] = []
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        column, _, direction = part.partition(" ")
        if column not in CompactionRow.columns() or direction.strip() not in ("", "asc", "desc"):
            raise BadSetting(
                f"order {part!r}: expected a column and asc or desc; columns are {', '.join(CompactionRow.columns())}"
            )
        orders.append((column, direction.strip() == "desc"))
    return orders


def show_history(
    site: Site, selection: CompactionFilter | None = None, *, limit: int | None = None
) -> list[HistoryRow]:
    """Returns the history alone, newest first."""
    history = site.metastore.entries.history()
    entries = [entry for entry in history if selection is None or selection.matches(entry)][:limit]
    unfinished = site.state.runs.remainders(site.name) if site.state is not None else {}
    openings = site.state.runs.openings(site.name) if site.state is not None else {}
    later = aftermaths(site, entries)
    rows = []
    for entry in entries:
        deltas, size = unfinished.get(entry.id, (0, 0))
        before, after = openings.get(entry.id, (None, None))
        rows.append(
            HistoryRow(
                **compaction_row(entry).to_json(),  # type: ignore[arg-type]  # the columns of its base class
                deltas_left=deltas,
                bytes_left=size,
                opening_before=before,
                opening_after=after,
                **later[entry.id].to_json(),  # type: ignore[arg-type]  # fields of the same names
            )
        )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """The later moments of a compaction and of the directories that it replaced; see ``HistoryRow``.

    ``removed_files`` and ``removed_bytes`` are counted by our cleaner; None where it removed nothing.
    """

    committed_at: int | None
    cleaned_at: int | None
    removed_at: int | None
    kept_until: int | None
    undone_at: int | None
    removed_files: int | None
    removed_bytes: int | None

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def aftermaths(site: Site, entries: Sequence[Entry]) -> dict[int, Aftermath]:
    """Returns the aftermath of each of ``entries``, by id."""
    ids = [entry.id for entry in entries]
    removed, undone, kept_until = {}, {}, {}
    if site.state is not None and ids:
        removed = site.state.removals.of_entries(site.name, ids)
        undone = site.state.removals.undone(site.name)
        quarantines = site.state.quarantines.all(site.name)
        kept_until = {quarantine.entry_id: quarantine.until for quarantine in quarantines if quarantine.names}
    rows = {}
    for entry in entries:
        removal, until = removed.get(entry.id), kept_until.get(entry.id)
        is_gone = entry.cleaned_at is not None and until is None
        rows[entry.id] = Aftermath(
            committed_at=entry.committed_at,
            cleaned_at=entry.cleaned_at,
            removed_at=max(entry.cleaned_at or 0, 0 if removal is None else removal.at) if is_gone else None,
            kept_until=until,
            undone_at=undone[entry.id].at if entry.id in undone else None,
            removed_files=None if removal is None else removal.files,
            removed_bytes=None if removal is None else removal.bytes,
        )
    return rows


def _latest(entry: Entry) -> tuple[int, int, int]:
    last = max(entry.end or 0, entry.start or 0, entry.commit_time or 0)
    return (-last, entry.enqueue_time or 0, entry.id)


def compaction_row(entry: Entry) -> CompactionRow:
    """Returns an entry of the queue or the history as a row of SHOW COMPACTIONS."""
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
        duration=entry.worked_ms,
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
    """Returns the host in a worker id.

    Ours is ``compactor-<role>-<host>-<pid>-<number>``, Hive's ``<host>-<thread>``.
    """
    if not worker:
        return None
    if is_compactor(worker):
        process = HolderProcess.from_id(worker)
        return None if process is None else process.host
    return worker.rpartition("-")[0] or worker


def _initiator_host(initiator: str | None) -> str | None:
    """Returns the host in an initiator id: ours is ``compactor-<host>-<who>``, Hive's ``<host>-<thread>``."""
    return initiator.removeprefix(PREFIX).rpartition("-")[0] or None if initiator else None
