"""The doctor's checks of the metastore: schema, clock, rights, what grows, what is stuck, and what Hive does there."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.database import privileges
from compactor.database.engine import Database
from compactor.metastore.queue.claims import WORKER_PREFIX
from compactor.service import repair
from compactor.service.doctor.finding import Finding, Level, few, fine
from compactor.service.doctor.hive_roles import HiveRoles, hive_roles
from compactor.service.mode import Mode, mode_of
from compactor.service.site import Site

_SKEW_MS = 5_000  #: how far this machine's clock may be from the database's before time-outs go wrong
_KEPT_TRANSACTIONS = 100_000  #: ended ones that housekeeping should have forgotten long ago
_HISTORY = "MIN_HISTORY_LEVEL"


def database(site: Site) -> Iterator[Finding]:
    newest = site.metastore.transactions.newest()
    yield fine("database", f"{site.metastore.database.url} answers; its newest transaction is {newest}")
    yield fine("schema", f"version {site.metastore.schema_version}")


def clock(site: Site) -> Iterator[Finding]:
    before = time.time() * 1000
    there = site.metastore.now_ms()
    after = time.time() * 1000
    skew = int(max(before - there, there - after, 0))
    if skew <= _SKEW_MS:
        yield fine("clock", f"{skew} ms from the database's")
        return
    yield Finding(
        level=Level.WARN,
        subject="clock",
        found=f"this machine is {skew} ms away from the database",
        wanted=f"at most {_SKEW_MS} ms",
        fix="keep both machines' time by NTP; Compactor itself takes every time from the database",
    )


def rights(site: Site) -> Iterator[Finding]:
    """Mode observe needs none but to read, which the other checks do."""
    mode = mode_of(site.settings)
    yield fine("mode", f"{mode.name.lower()}, from {site.settings.source('compactor.mode')}")
    if mode is Mode.OBSERVE:
        return
    database = site.metastore.database
    yield writing(
        database,
        privileges.missing(database, site.metastore.dialect.transaction_tables),
        well=fine("privileges", "the database can be written"),
        wanted=f"write access, as mode {mode.name.lower()} needs it",
        fix="let this user write the database, or set compactor.mode to observe",
    )


def writing(on: Database, missing: Collection[str], *, well: Finding, wanted: str, fix: str) -> Finding:
    """``well`` where no right to write is ``missing``."""
    if not missing:
        return well
    found = f"{on.url}: this user has not {few(list(missing))}"
    return Finding(level=Level.FAIL, subject=well.subject, found=found, wanted=wanted, fix=fix)


def hive(site: Site) -> Iterator[Finding]:
    roles = hive_roles(site)
    acting = mode_of(site.settings)
    if acting is Mode.CLEAN and (roles.cleaner_may_run or site.settings.boolean("hive.compactor.cleaner.on")):
        yield Finding(
            level=Level.WARN,
            subject="hive's cleaner",
            found=f"it seems to run here (leases: {', '.join(roles.leases) or 'none'})",
            wanted="one cleaner, ours, whose gate is strict",
            fix="set metastore.compactor.cleaner.on=false in Hive, or compactor.mode to compact",
        )
    elif acting >= Mode.REQUEST and roles.initiator_active:
        yield Finding(
            level=Level.WARN,
            subject="hive's initiator",
            found=f"it began a cycle at {roles.initiator_cycle} (epoch ms)",
            wanted="one initiator; two are harmless, since a partition is queued once, but decide by different rules",
            fix="set metastore.compactor.initiator.on=false in Hive, or compactor.mode to observe",
        )
    else:
        yield fine("hive's roles", "nothing of Hive's own is in the way")
    if acting >= Mode.COMPACT:
        yield _protections(site, roles)


def _protections(site: Site, roles: HiveRoles) -> Finding:
    """PROTOCOL 7.5: what Hive's cleaner does can't be gated by us, so say what still holds."""
    quarantine = site.settings.milliseconds("compactor.quarantine") > 0
    leased = site.settings.boolean("hive.txn.use.minhistorylevel")
    if not roles.cleaner_may_run and mode_of(site.settings) is Mode.CLEAN:
        return fine("protections", "all hold: no cleaner of Hive's own was seen, ours alone removes directories")
    if not roles.cleaner_may_run:
        return Finding(
            level=Level.WARN,
            subject="protections",
            found="no cleaner of Hive's own was seen, and ours removes nothing in mode compact: replaced directories stay",
            wanted="one cleaner",
            fix="set compactor.mode to clean, or metastore.compactor.cleaner.on=true in Hive",
        )
    holds = [f"open transactions hold Hive's cleaner by their rows of {_HISTORY}"] if leased else []
    lost = [] if leased else [f"open transactions leave no rows of {_HISTORY} (hive.txn.use.minhistorylevel is false)"]
    lost += ["quarantine keeps nothing that Hive's cleaner removes"] if quarantine else []
    lost += ["what Hive's cleaner removes can't be undone", "nobody looks again before it forgets an abort"]
    return Finding(
        level=Level.WARN,
        subject="protections",
        found=f"Hive's own cleaner may run: {'; '.join(holds + lost)}",
        wanted="our cleaner alone, whose gate waits for every older transaction of any type",
        fix="set metastore.compactor.cleaner.on=false in Hive, or rely on what holds",
    )


def growing(site: Site) -> Iterator[Finding]:
    """Tables that housekeeping keeps small (Hive's thresholds, where it has some)."""
    counts, settings = site.metastore.housekeeping.counts(), site.settings
    findings: list[Finding] = []
    for table, rows, what in (
        ("COMPLETED_TXN_COMPONENTS", counts.completed_txn_components, "completed.txn.components"),
        ("TXN_TO_WRITE_ID", counts.txn_to_write_id, "txn.to.writeid"),
    ):
        warning, error = (
            settings.integer(f"hive.compactor.{what}.record.threshold.{level}") for level in ("warning", "error")
        )
        if rows > warning:
            level = Level.FAIL if rows > error else Level.WARN
            findings.append(_grown(level, table, rows, f"at most {warning} rows"))
    if counts.ended_transactions > _KEPT_TRANSACTIONS:
        wanted = f"at most {_KEPT_TRANSACTIONS} that have ended and wrote nothing that is still there"
        findings.append(_grown(Level.WARN, "TXNS", counts.ended_transactions, wanted))
    if counts.stale_history:
        findings.append(
            Finding(
                level=Level.WARN,
                subject="housekeeping",
                found=f"{counts.stale_history} rows of {_HISTORY} are of transactions that have ended",
                wanted="none: each holds back Hive's cleaner for ever",
                fix="`compactor run housekeeper --once` removes them in mode clean",
            )
        )
    if not findings:
        findings.append(
            fine(
                "housekeeping",
                f"{counts.completed_txn_components} rows of COMPLETED_TXN_COMPONENTS, {counts.txn_to_write_id} of "
                f"TXN_TO_WRITE_ID, {counts.write_set} of WRITE_SET, {counts.ended_transactions} ended transactions",
            )
        )
    yield from findings


def _grown(level: Level, table: str, rows: int, wanted: str) -> Finding:
    return Finding(
        level=level,
        subject="housekeeping",
        found=f"{table} has {rows} rows to look after",
        wanted=wanted,
        fix="see that a housekeeper runs (`compactor run housekeeper`, mode clean), or Hive's housekeeping threads; an "
        "old open transaction holds them back (`compactor show transactions`)",
    )


def queue(site: Site) -> Iterator[Finding]:
    """Entries that nobody will bring further by himself."""
    now, settings = site.metastore.now_ms(), site.settings
    entries = site.metastore.entries.queue()
    lost = repair.lost(site)
    for entry, because in lost:
        yield Finding(
            level=Level.WARN,
            subject=f"compaction {entry.id}",
            found=f"{entry.entity} is working for a lost worker: {because}",
            wanted="a living worker",
            fix="the next pass of a role of ours takes it back (mode compact or clean)",
        )
    contradicting = [entry for entry in entries if _is_contradiction(site, entry)]
    for entry in contradicting:
        yield Finding(
            level=Level.FAIL,
            subject=f"compaction {entry.id}",
            found=f"{entry.entity} is working for {entry.worker_id}, yet its transaction {entry.txn_id} is committed",
            wanted="a row that became ready for cleaning with its transaction",
            fix=f"see whether a directory ends in _v{entry.txn_id:07d}; restore the row from a backup, or delete it",
        )
    cleaning = settings.milliseconds("hive.compactor.oldest.uncleaned.compaction.time.threshold")
    old = [e for e in entries if e.state is State.READY_FOR_CLEANING and now - (e.commit_time or now) > cleaning]
    if old:
        yield Finding(
            level=Level.WARN,
            subject="cleaning",
            found=f"ready for cleaning for too long: {_named(old)}",
            wanted="entries that are cleaned once their readers have ended, within "
            "hive.compactor.oldest.uncleaned.compaction.time.threshold",
            fix="`compactor show blockers` names who holds them; see that a cleaner runs",
        )
    waited = settings.milliseconds("hive.compactor.oldest.initiated.compaction.time.threshold.warning")
    waiting = [e for e in entries if e.state is State.INITIATED and now - (e.enqueue_time or now) > waited]
    if waiting:
        yield Finding(
            level=Level.WARN,
            subject="requests",
            found=f"nobody has begun them for too long: {_named(waiting)}",
            wanted="requests that a worker takes within "
            "hive.compactor.oldest.initiated.compaction.time.threshold.warning",
            fix="see that a worker of their pool runs (`compactor show compactions` has the pools)",
        )
    if not (old or waiting or lost or contradicting):
        yield fine("queue", f"{len(entries)} entries, none is stuck")


def _is_contradiction(site: Site, entry: Entry) -> bool:
    ours = entry.state is State.WORKING and (entry.worker_id or "").startswith(WORKER_PREFIX)
    return ours and entry.txn_id is not None and site.metastore.transactions.state(entry.txn_id) == "c"


def _named(entries: list[Entry]) -> str:
    return few([f"{entry.id} ({entry.entity})" for entry in entries])


def transactions(site: Site) -> Iterator[Finding]:
    now = site.metastore.now_ms()
    opened = site.metastore.transactions.open_transactions()
    limit = site.settings.milliseconds("hive.compactor.oldest.open.txn.threshold.warning")
    long = [t for t in opened if now - t.started > limit]
    if long:
        yield Finding(
            level=Level.WARN,
            subject="transactions",
            found="open for too long: " + few([f"{t.id} of {t.user}@{t.host}" for t in long]),
            wanted="transactions that end within hive.compactor.oldest.open.txn.threshold.warning; nothing that they may "
            "read is cleaned before",
            fix="end those clients, or `compactor abort transaction ID`",
        )
    else:
        yield fine("transactions", f"{len(opened)} open, none for too long")
    aborts = site.metastore.candidates.aborts()
    most = site.settings.integer("hive.compactor.abortedtxn.threshold")
    many = [f"{entity} ({found.count})" for entity, found in aborts.items() if found.count > most]
    if many:
        yield Finding(
            level=Level.WARN,
            subject="aborted transactions",
            found=f"more than {most} in {few(sorted(many))}",
            wanted="writers whose transactions commit; every reader carries the aborted ones along",
            fix="look for a writer that fails again and again; the cleaner removes what they left",
        )
    else:
        yield fine("aborted transactions", f"{sum(found.count for found in aborts.values())}, nowhere above {most}")
