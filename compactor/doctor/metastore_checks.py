"""The doctor's checks of the metastore.

Schema, clock, rights, table growth, stuck entries, and Hive's own roles.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Table

from compactor.acid import txn_states
from compactor.base.identities import is_compactor
from compactor.base.printable import count_text
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.database import privileges
from compactor.database.engine import Database
from compactor.metastore.notifications import notification_tables as notifications
from compactor.metastore.statistics import subjects as statistics
from compactor.settings.precedence import without_match
from compactor.site import lost_workers
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.hive_roles import HiveRoles, hive_roles
from compactor.site.mode import Mode, loosest_mode, modes_of_databases
from compactor.site.named_tables import nearest
from compactor.site.site import Site

_SKEW_MS = 5_000  #: how far this machine's clock may be off the database's before time-outs go wrong
_KEPT_TRANSACTIONS = 100_000  #: more ended ones than this mean that housekeeping does not run
_HISTORY, _BY_WRITE_IDS = "MIN_HISTORY_LEVEL", "MIN_HISTORY_WRITE_ID"


def check_database(site: Site) -> Iterator[Finding]:
    newest = site.metastore.transactions.newest()
    yield ok("database", f"{site.metastore.database.url} answers; its newest transaction is {newest}")
    yield ok("schema", f"version {site.metastore.schema_version}")


def check_clock(site: Site) -> Iterator[Finding]:
    before = time.time() * 1000
    database_ms = site.metastore.now_ms()
    after = time.time() * 1000
    skew = int(max(before - database_ms, database_ms - after, 0))
    if skew <= _SKEW_MS:
        yield ok("clock", f"{skew} ms off the database's")
        return
    yield Finding(
        level=Level.WARN,
        subject="clock",
        found=f"this machine's clock is {skew} ms off the database's",
        wanted=f"at most {_SKEW_MS} ms",
        fix="synchronize both machines with NTP; Compactor itself takes every time from the database",
    )


def check_rights(site: Site) -> Iterator[Finding]:
    """Yields findings on the right to write, which every mode but observe needs."""
    mode = loosest_mode(site.settings)
    origin = f"{site.settings.mode}, from {site.settings.source('compactor.mode')}"
    databases = site.metastore.catalog.databases()
    yield ok("mode", f"{origin}; {_describe_writable(site, databases)}")
    yield from _check_names_of_modes(site, databases)
    if mode is Mode.OBSERVE:
        return
    database = site.metastore.database
    yield write_access(
        database,
        privileges.missing(database, site.metastore.dialect.transaction_tables),
        success=ok("privileges", "this user may write to the database"),
        wanted=f"write access, which mode {mode.name.lower()} needs",
        fix="grant this user the right to write, or set compactor.mode to observe",
    )
    yield from _rights_on_statistics(site)
    yield from _rights_on_notifications(site)


def _rights_on_statistics(site: Site) -> Iterator[Finding]:
    """Yields a warning if compactions may not write statistics; they run without them."""
    database = site.metastore.database
    if database.kind == "sqlite" or not site.settings.boolean("hive.compactor.gather.stats"):
        return
    yield from _warn_of_missing_rights(
        database,
        statistics.WRITTEN,
        subject="statistics",
        wanted="the right to write statistics, which hive.compactor.gather.stats asks for",
        fix="grant it (docs/production.md), or set hive.compactor.gather.stats to false",
    )


def _rights_on_notifications(site: Site) -> Iterator[Finding]:
    """Yields a warning if Hive keeps a notification log here that this user may not write."""
    database = site.metastore.database
    with database.read() as conn:
        if not site.metastore.notifications.is_written(conn):
            return
    yield from _warn_of_missing_rights(
        database,
        notifications.WRITTEN,
        subject="notification log",
        wanted="the right to write events, from which Impala's catalog learns of compactions and of programs' writes",
        fix="grant it (docs/production.md), or REFRESH tables in Impala before the cleaner's grace period ends",
    )


def _warn_of_missing_rights(
    database: Database,
    written: Iterable[tuple[Sequence[Table], Sequence[str]]],
    *,
    subject: str,
    wanted: str,
    fix: str,
) -> Iterator[Finding]:
    """Yields a warning if this user lacks rights on tables that compactions can do without."""
    rights = [
        missing
        for tables, verbs in written
        for missing in privileges.missing(database, tables, verbs)
        if not missing.startswith("USAGE")
    ]
    if rights:
        problem = f"this user lacks {', '.join(rights)}"
        yield Finding(level=Level.WARN, subject=subject, found=problem, wanted=wanted, fix=fix)


def _check_names_of_modes(site: Site, databases: Collection[str]) -> Iterator[Finding]:
    """Yields a warning for each name in ``database_modes`` that no database has.

    Such a name is often misspelt. The database that was meant then keeps its metastore's mode.
    """
    for word in without_match(site.settings.database_modes, databases):
        yield Finding(
            level=Level.WARN,
            subject="mode",
            found=f"database_modes names {word}, but no database has that name{nearest(word, databases)}",
            wanted="the names, or patterns of names, of databases that exist",
            fix="correct database_modes in compactor.toml; until then the database that was meant has its metastore's mode",
        )


def _describe_writable(site: Site, databases: Mapping[str, Mapping[str, str]]) -> str:
    """Describes which databases may be written to."""
    modes = modes_of_databases(site.settings, databases)
    if set(modes.values()) <= {Mode.OBSERVE}:
        return "no database may be written to"
    if len(set(modes.values())) == 1:
        return "every database may be written to"
    open_to_us = [f"{name} ({mode.name.lower()})" for name, mode in modes.items() if mode is not Mode.OBSERVE]
    return f"of {len(modes)} databases, these may be written to: {', '.join(open_to_us)}"


def write_access(database: Database, missing: Collection[str], *, success: Finding, wanted: str, fix: str) -> Finding:
    """Returns ``success`` if no right is ``missing``, otherwise a failure."""
    if not missing:
        return success
    problem = f"{database.url}: this user lacks {first_few(list(missing))}"
    return Finding(level=Level.FAIL, subject=success.subject, found=problem, wanted=wanted, fix=fix)


def check_hive_roles(site: Site) -> Iterator[Finding]:
    roles = hive_roles(site)
    mode = loosest_mode(site.settings)
    if mode is Mode.CLEAN and (roles.cleaner_may_run or site.settings.boolean("hive.compactor.cleaner.on")):
        yield Finding(
            level=Level.WARN,
            subject="hive's cleaner",
            found=f"it seems to run here (leases: {', '.join(roles.leases) or 'none'})",
            wanted="one cleaner: ours, which waits for every older transaction",
            fix="set metastore.compactor.cleaner.on=false in Hive, or compactor.mode to compact",
        )
    elif mode >= Mode.REQUEST and roles.initiator_active:
        yield Finding(
            level=Level.WARN,
            subject="hive's initiator",
            found=f"it began a cycle at {roles.initiator_cycle} (epoch ms)",
            wanted="one initiator; two do no harm (a partition is queued only once) but decide by different rules",
            fix="set metastore.compactor.initiator.on=false in Hive, or compactor.mode to observe",
        )
    else:
        yield ok("hive's roles", "Hive's own roles do not interfere")
    if mode >= Mode.COMPACT:
        yield _check_protections(site, roles)


def _check_protections(site: Site, roles: HiveRoles) -> Finding:
    """Returns which protections hold while Hive's own cleaner may run (PROTOCOL 7.5)."""
    quarantine = site.settings.milliseconds("compactor.quarantine") > 0
    if not roles.cleaner_may_run and loosest_mode(site.settings) is Mode.CLEAN:
        return ok("protections", "all hold: Hive's own cleaner was not seen, only ours removes directories")
    if not roles.cleaner_may_run:
        return Finding(
            level=Level.WARN,
            subject="protections",
            found="Hive's own cleaner was not seen, and ours removes nothing in mode compact: replaced directories stay",
            wanted="one cleaner",
            fix="set compactor.mode to clean, or metastore.compactor.cleaner.on=true in Hive",
        )
    holds, lost = _what_holds_cleaner(site)
    lost += ["quarantine does not cover directories that Hive's cleaner removes"] if quarantine else []
    lost += ["removals by Hive's cleaner cannot be undone", "it forgets aborted transactions without a second look"]
    return Finding(
        level=Level.WARN,
        subject="protections",
        found=f"Hive's own cleaner may run: {'; '.join(holds + lost)}",
        wanted="only our cleaner, which waits for every older transaction of any type",
        fix="set metastore.compactor.cleaner.on=false in Hive, or rely on the protections that hold",
    )


def _what_holds_cleaner(site: Site) -> tuple[list[str], list[str]]:
    """Describes which transactions hold back Hive's cleaner, and which do not."""
    if site.goes_by_write_ids:
        return [], [
            f"it looks at {_BY_WRITE_IDS} (hive.txn.use.minhistorywriteid is true): a query that began before a compaction "
            "was committed does not hold it back, nor does a reader without such rows, such as Trino"
        ]
    if site.settings.boolean("hive.txn.use.minhistorylevel"):
        return [f"open transactions hold back Hive's cleaner by their rows of {_HISTORY}"], []
    return [], [f"open transactions leave no rows of {_HISTORY} (hive.txn.use.minhistorylevel is false)"]


def check_growth(site: Site) -> Iterator[Finding]:
    """Yields findings on tables that housekeeping keeps small, with Hive's thresholds where they exist."""
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
            findings.append(_growth_finding(level, table, rows, f"at most {warning} rows"))
    if counts.ended_transactions > _KEPT_TRANSACTIONS:
        wanted = f"at most {_KEPT_TRANSACTIONS} ended transactions without anything to clean"
        findings.append(_growth_finding(Level.WARN, "TXNS", counts.ended_transactions, wanted))
    if counts.stale_history:
        findings.append(
            Finding(
                level=Level.WARN,
                subject="housekeeping",
                found=f"{counts.stale_history} rows of {_HISTORY} belong to transactions that have ended",
                wanted="none: each of them holds back Hive's cleaner forever",
                fix="`compactor run housekeeper --once` removes them in mode clean",
            )
        )
    if not findings:
        findings.append(
            ok(
                "housekeeping",
                f"{counts.completed_txn_components} rows of COMPLETED_TXN_COMPONENTS, {counts.txn_to_write_id} of "
                f"TXN_TO_WRITE_ID, {counts.write_set} of WRITE_SET, {counts.ended_transactions} ended transactions",
            )
        )
    yield from findings


def _growth_finding(level: Level, table: str, rows: int, wanted: str) -> Finding:
    return Finding(
        level=level,
        subject="housekeeping",
        found=f"{table} has {rows} rows",
        wanted=wanted,
        fix="make sure that a housekeeper runs (`compactor run housekeeper`, mode clean), or Hive's housekeeping threads; "
        "an old open transaction holds them back (`compactor show transactions`)",
    )


def check_queue(site: Site) -> Iterator[Finding]:
    """Yields findings on entries that are stuck."""
    now, settings = site.metastore.now_ms(), site.settings
    queue = site.metastore.entries.queue()
    entries = [entry for entry in queue if entry.left_to is None]
    yield from _find_left_to_hive(site, [entry for entry in queue if entry.left_to is not None], now)
    lost = lost_workers.lost_requests(site)
    for entry, reason in lost:
        yield Finding(
            level=Level.WARN,
            subject=f"compaction {entry.id}",
            found=f"{entry.entity} belongs to a lost worker: {reason}",
            wanted="a living worker",
            fix="the next pass of any of our roles takes it back (mode compact or clean)",
        )
    contradicting = [entry for entry in entries if _is_contradiction(site, entry)]
    for entry in contradicting:
        yield Finding(
            level=Level.FAIL,
            subject=f"compaction {entry.id}",
            found=f"{entry.entity} is still marked as being worked on by {entry.worker_id}, but its transaction "
            f"{entry.txn_id} is committed",
            wanted="a row that became ready for cleaning when its transaction committed",
            fix=f"check whether a directory ends in _v{entry.txn_id:07d}; restore the row from a backup, or delete it",
        )
    cleaning_deadline = settings.milliseconds("hive.compactor.oldest.uncleaned.compaction.time.threshold")
    old = [
        e for e in entries if e.state is State.READY_FOR_CLEANING and now - (e.commit_time or now) > cleaning_deadline
    ]
    if old:
        yield Finding(
            level=Level.WARN,
            subject="cleaning",
            found=f"ready for cleaning for too long: {_list_entries(old)}",
            wanted="entries that are cleaned once their readers have ended, within "
            "hive.compactor.oldest.uncleaned.compaction.time.threshold",
            fix="`compactor show blockers` shows the transactions that hold them; make sure that a cleaner runs",
        )
    deadline = settings.milliseconds("hive.compactor.oldest.initiated.compaction.time.threshold.warning")
    waiting = [e for e in entries if e.state is State.INITIATED and now - (e.enqueue_time or now) > deadline]
    if waiting:
        yield Finding(
            level=Level.WARN,
            subject="requests",
            found=f"waiting for a worker for too long: {_list_entries(waiting)}",
            wanted="requests that a worker takes within "
            "hive.compactor.oldest.initiated.compaction.time.threshold.warning",
            fix="make sure that a worker of their pool runs (`compactor show compactions` shows the pools)",
        )
    if not (old or waiting or lost or contradicting):
        yield ok("queue", f"{count_text(len(entries), 'entry', 'entries')}, none is stuck")


def _find_left_to_hive(site: Site, entries: Sequence[Entry], now: int) -> Iterator[Finding]:
    """Yields the rows that only Hive's own roles take; a warning if these seem to be off."""
    deadline = site.settings.milliseconds("hive.compactor.oldest.initiated.compaction.time.threshold.warning")
    for engine in dict.fromkeys(entry.left_to for entry in entries):
        rows = [entry for entry in entries if entry.left_to == engine]
        old = [entry for entry in rows if now - (entry.enqueue_time or now) > deadline]
        yield Finding(
            level=Level.WARN if old else Level.OK,
            subject="rows left to Hive",
            found=f"{_list_entries(old or rows)} {'wait too long' if old else 'wait'} for {engine}",
            wanted="rows that Hive takes within hive.compactor.oldest.initiated.compaction.time.threshold.warning",
            fix="run that role of Hive: its worker for Iceberg tables, its cleaner for soft-deleted files",
        )


def _is_contradiction(site: Site, entry: Entry) -> bool:
    ours = entry.state is State.WORKING and is_compactor(entry.worker_id)
    return ours and entry.txn_id is not None and site.metastore.transactions.state(entry.txn_id) == txn_states.COMMITTED


def _list_entries(entries: list[Entry]) -> str:
    return first_few([f"{entry.id} ({entry.entity})" for entry in entries])


def check_transaction_manager(site: Site) -> Iterator[Finding]:
    """Warns if Hive's sessions are configured to run without transactions.

    A setting that no file has is not judged: the metastore's files need not show how sessions are configured.
    """
    manager, source = site.settings.raw("hive.txn.manager")
    locks, of_locks = site.settings.raw("hive.support.concurrency")
    if source != "default" and manager.rpartition(".")[2] != "DbTxnManager":
        problem = f"hive.txn.manager is {manager} (from {source})"
    elif of_locks != "default" and not site.settings.boolean("hive.support.concurrency"):
        problem = f"hive.support.concurrency is {locks} (from {of_locks})"
    else:
        yield ok("transaction manager", "no configuration turns off the transactions of Hive's sessions")
        return
    yield Finding(
        level=Level.WARN,
        subject="transaction manager",
        found=problem,
        wanted="org.apache.hadoop.hive.ql.lockmgr.DbTxnManager and hive.support.concurrency=true: other sessions neither "
        "lock nor open transactions, and nothing protects the rows that they read or write",
        fix="set both in the hive-site.xml of every Hive that uses this metastore",
    )


def check_transactions(site: Site) -> Iterator[Finding]:
    now = site.metastore.now_ms()
    open_transactions = site.metastore.transactions.open_transactions()
    longest = site.settings.milliseconds("hive.compactor.oldest.open.txn.threshold.warning")
    overdue = [t for t in open_transactions if now - t.started > longest]
    if overdue:
        yield Finding(
            level=Level.WARN,
            subject="transactions",
            found="open for too long: " + first_few([f"{t.id} of {t.user}@{t.host}" for t in overdue]),
            wanted="transactions that end within hive.compactor.oldest.open.txn.threshold.warning; nothing they may read "
            "is cleaned until then",
            fix="end those clients, or `compactor abort transaction ID`",
        )
    else:
        yield ok("transactions", f"{len(open_transactions)} open, none for too long")
    aborts = site.metastore.components.aborts()
    limit = site.settings.integer("hive.compactor.abortedtxn.threshold")
    many = [f"{entity} ({aborted.count})" for entity, aborted in aborts.items() if aborted.count > limit]
    if many:
        yield Finding(
            level=Level.WARN,
            subject="aborted transactions",
            found=f"more than {limit} in {first_few(sorted(many))}",
            wanted="writers whose transactions commit; every snapshot has to list the aborted ones",
            fix="look for a writer that keeps failing; the cleaner removes its files",
        )
    else:
        yield ok("aborted transactions", f"{sum(aborted.count for aborted in aborts.values())}, nowhere above {limit}")
