"""Blockers: the open transactions that keep the cleaner from an entry."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid.directory import acid_directory
from compactor.base.errors import CompactorError
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.site.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """An open transaction that may still read obsolete directories of an entry.

    ``age_ms`` counts from its start.
    """

    txn: TxnId
    user: str
    host: str
    agent: str | None
    type: str
    age_ms: int

    def to_json(self) -> dict[str, object]:
        return {
            "txnid": self.txn,
            "user": self.user,
            "host": self.host,
            "agent": self.agent,
            "type": self.type,
            "age_ms": self.age_ms,
        }

    def __str__(self) -> str:
        return f"transaction {self.txn} ({self.type}) of {self.user}@{self.host}, open for {self.age_ms // 1000} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """An entry ready for cleaning, the transactions that block it, and the bytes to be freed."""

    entry: Entry
    by: tuple[Blocker, ...]
    bytes_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingTransaction:
    """One transaction with all the entries that it blocks.

    ``bytes_waiting`` are the bytes that our compactions of these entries read, and so made obsolete. They come from our own
    records: storage is not read.
    """

    blocker: Blocker
    entries: tuple[Entry, ...]
    bytes_waiting: int

    def to_json(self) -> dict[str, object]:
        return {
            **self.blocker.to_json(),
            "bytes_waiting": self.bytes_waiting,
            "compactions": [{"compaction": e.id, "table": str(e.entity)} for e in self.entries],
        }


def blockers_of(site: Site, entry: Entry) -> tuple[Blocker, ...]:
    """Returns the open transactions at or below the entry's CQ_NEXT_TXN_ID, oldest first.

    If Hive left no stamp, or may have stamped too early, the newest transaction when our cleaner first saw the row takes its
    place (PROTOCOL 7.1). Before our cleaner has seen the row, every open transaction may block it.
    """
    if entry.state is not State.READY_FOR_CLEANING:
        return ()
    return _at_or_below(_stamp(site, entry), _list_open(site))


def _list_open(site: Site) -> tuple[Blocker, ...]:
    """Returns every open transaction, oldest first."""
    now = site.metastore.now_ms()
    return tuple(
        Blocker(
            txn=t.id, user=t.user, host=t.host, agent=t.agent, type=t.type.name.lower(), age_ms=max(0, now - t.started)
        )
        for t in sorted(site.metastore.transactions.open_transactions(), key=lambda t: t.id)
    )


def _stamp(site: Site, entry: Entry) -> TxnId | None:
    exact = entry.next_txn_id is not None and not site.stamps_early(entry)
    return entry.next_txn_id if exact else _newest_at_first_sight(site, entry)


def _at_or_below(stamp: TxnId | None, opened: tuple[Blocker, ...]) -> tuple[Blocker, ...]:
    return tuple(blocker for blocker in opened if stamp is None or blocker.txn <= stamp)


def _newest_at_first_sight(site: Site, entry: Entry) -> TxnId | None:
    seen = None if site.state is None else site.state.sightings.seen(site.name, entry.id)
    return None if seen is None else seen.newest


def blocked_entries(site: Site) -> tuple[Blocked, ...]:
    """Returns every entry that is ready for cleaning and blocked by a transaction."""
    blocked: list[Blocked] = []
    for entry in site.metastore.entries.ready_for_cleaning():
        holders = blockers_of(site, entry)
        if holders:
            blocked.append(Blocked(entry=entry, by=holders, bytes_waiting=_obsolete_bytes(site, entry)))
    return tuple(blocked)


def blocking_transactions(site: Site) -> tuple[BlockingTransaction, ...]:
    """Returns the transactions that block the cleaner, each with the entries it blocks, oldest first."""
    opened = _list_open(site)
    ready = site.metastore.entries.ready_for_cleaning() if opened else []
    entries_of: dict[TxnId, list[Entry]] = {}
    for entry in ready:
        for blocker in _at_or_below(_stamp(site, entry), opened):
            entries_of.setdefault(blocker.txn, []).append(entry)
    runs = {} if site.state is None else site.state.runs.of_entries(site.name, [entry.id for entry in ready])
    return tuple(
        BlockingTransaction(
            blocker=blocker,
            entries=tuple(entries_of[blocker.txn]),
            bytes_waiting=sum(runs[e.id].bytes_before for e in entries_of[blocker.txn] if e.id in runs),
        )
        for blocker in opened
        if blocker.txn in entries_of
    )


def _obsolete_bytes(site: Site, entry: Entry) -> int:
    """Returns the bytes that the cleaner will free: the files that no new reader reads."""
    try:
        target = site.target(entry.entity)
        txns = site.metastore.transactions.snapshot()
        listing = site.storage.listing(target.location)
        obsolete = acid_directory(listing, site.write_ids(target.table, txns), txns).obsolete
    except CompactorError:
        return 0
    return sum(f.length for f in listing.files if f.path in obsolete or f.path.partition("/")[0] in obsolete)
