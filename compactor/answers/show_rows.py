"""The rows of ``show transactions``, ``show blockers``, ``show settings`` and ``show decisions``.

Keys are the columns of Hive's SHOW statements in lower case, where Hive has them. Ids are integers, times are epoch
milliseconds of the database's clock; None where a value was never set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.answers.row import Row
from compactor.base.errors import Refused
from compactor.cleaner.blockers import blocked_entries
from compactor.compaction.quarantine_rules import Quarantined
from compactor.compaction.queue_entry import Entity
from compactor.settings.precedence import Settings
from compactor.site.named_tables import Where, find_where
from compactor.site.site import Site

WITHOUT_EFFECT = "without effect"  #: the source of properties and values that do not count


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow(Row):
    """A row of SHOW TRANSACTIONS, with the transaction's type and agent added."""

    txnid: int
    state: str
    startedtime: int
    lastheartbeattime: int
    user: str
    host: str
    type: str
    agent_info: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerRow(Row):
    """A transaction that keeps the cleaner from one compaction; ``age_ms`` since it was opened."""

    compactionid: int
    table: str
    bytes_waiting: int
    txnid: int
    type: str
    user: str
    host: str
    agent_info: str | None
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow(Row):
    """A setting with the value in force and its source."""

    key: str
    value: str
    source: str
    unit: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow(Row):
    """A decision of one pass of the initiator, as our state records it."""

    at: int | None
    table: str
    outcome: str
    because: str
    numbers: Mapping[str, object]


def show_transactions(site: Site) -> list[TransactionRow]:
    """Returns open and aborted transactions, oldest first.

    Committed ones stay in TXNS only for a while and are left out.
    """
    return [
        TransactionRow(
            txnid=txn.id,
            state=txn_states.NAMES[txn.state].upper(),
            startedtime=txn.started,
            lastheartbeattime=txn.last_heartbeat,
            user=txn.user,
            host=txn.host,
            type=txn.type.name,
            agent_info=txn.agent,
        )
        for txn in site.metastore.transactions.unfinished()
    ]


def show_blockers(site: Site) -> list[BlockerRow]:
    """Returns each transaction that holds up the cleaner, with the bytes that wait to be removed."""
    return [
        BlockerRow(
            compactionid=blocked.entry.id,
            table=str(blocked.entry.entity),
            bytes_waiting=blocked.bytes_waiting,
            txnid=blocker.txn,
            type=blocker.type,
            user=blocker.user,
            host=blocker.host,
            agent_info=blocker.agent,
            age_ms=blocker.age_ms,
        )
        for blocked in blocked_entries(site)
        for blocker in blocked.by
    ]


def show_settings(settings: Settings, *, only_changed: bool = False) -> list[SettingRow]:
    """Returns every setting that Compactor knows, or those with another source than the default.

    The changed ones are followed by the properties and values without effect.
    """
    rows = [SettingRow(**explained._asdict()) for explained in settings.explain()]
    if not only_changed:
        return rows
    without_effect = (
        SettingRow(key=key, value="", source=WITHOUT_EFFECT, unit="", effect=reason)
        for key, reason in settings.without_effect
    )
    return [*(row for row in rows if row.source != "default"), *without_effect]


def show_decisions(site: Site) -> list[DecisionRow]:
    """Returns the initiator's decisions in force: of its newest pass, or older ones if nothing changed.

    Raises:
        Refused: this site keeps no state of its own.
    """
    if site.state is None:
        raise Refused(
            f"metastore {site.name}: decisions are kept in our own state, which mode observe lacks without a "
            "state_url; `compactor explain DB.TABLE` decides again"
        )
    return [
        DecisionRow(
            at=decided.at,
            table=str(decided.entity),
            outcome=decided.outcome,
            because=decided.because,
            numbers=decided.numbers,
        )
        for decided in site.state.decisions.in_force(site.name)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow(Row):
    """The directories that the cleaning of one compaction keeps.

    They are kept from ``since`` to ``until`` (epoch ms of the database).

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
