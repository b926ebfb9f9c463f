"""Checks a deployment read-only and says what to fix. A check that fails is a finding, never a crash."""

from __future__ import annotations

import enum
import importlib.util
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compactor.acid.names import parse_directory, parse_hidden, parse_staging
from compactor.compaction.states import State
from compactor.errors import BadName, CompactorError
from compactor.service import repair
from compactor.service.hive_roles import hive_roles
from compactor.service.mode import Mode, mode_of
from compactor.service.site import Site
from compactor.settings.precedence import with_table

_DAY_MS = 86_400_000
_SKEW_MS = 5_000  #: how far this machine's clock may be from the database's before time-outs go wrong
_JAVA = 17  #: what Spark 4 needs
_FEW = 5  #: names in one finding


class Level(enum.Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what it looked at, what it found, what it wanted and what to do."""

    level: Level
    subject: str
    found: str
    wanted: str = ""
    fix: str = ""

    def to_json(self) -> dict[str, object]:
        return {
            "level": self.level.value,
            "subject": self.subject,
            "found": self.found,
            "wanted": self.wanted,
            "fix": self.fix,
        }


Check = Callable[[Site], Iterator[Finding]]


def doctor(site: Site) -> list[Finding]:
    """Every check of an open site. Nothing is written, and no check stops another."""
    findings: list[Finding] = []
    for subject, check in CHECKS:
        try:
            findings.extend(check(site))
        except CompactorError as error:
            findings.append(broken(subject, error))
    findings.extend(machine())
    return findings


def broken(subject: str, error: CompactorError) -> Finding:
    """A check that could not be made; the error's own words say what to do."""
    return Finding(level=Level.FAIL, subject=subject, found=str(error), wanted="a check that can be made")


def machine() -> Iterator[Finding]:
    """What only workers need: Spark and Java. Everything else works without them."""
    if importlib.util.find_spec("pyspark") is None:
        yield Finding(
            level=Level.WARN,
            subject="pyspark",
            found="not installed here",
            wanted="pyspark where workers run with Spark",
            fix="install hive-compactor[spark], or run workers with --in-process",
        )
    else:
        yield _ok("pyspark", "importable")
    version = _java_version()
    if version is None or version < _JAVA:
        yield Finding(
            level=Level.WARN,
            subject="java",
            found="none" if version is None else f"version {version}",
            wanted=f"{_JAVA} or later where workers run with Spark",
            fix="install a JDK and set JAVA_HOME, or run workers with --in-process",
        )
    else:
        yield _ok("java", f"version {version}")


def _java_version() -> int | None:
    home = os.environ.get("JAVA_HOME")
    binary = f"{home}/bin/java" if home else shutil.which("java")
    if binary is None or not os.access(binary, os.X_OK):
        return None
    try:
        told = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?([0-9]+)', told)
    return int(match.group(1)) if match else None


def _ok(subject: str, found: str) -> Finding:
    return Finding(level=Level.OK, subject=subject, found=found)


def _database(site: Site) -> Iterator[Finding]:
    newest = site.metastore.transactions.newest()
    yield _ok("database", f"{site.metastore.database.url} answers; its newest transaction is {newest}")
    yield _ok("schema", f"version {site.metastore.schema_version}")


def _clock(site: Site) -> Iterator[Finding]:
    before = time.time() * 1000
    there = site.metastore.now_ms()
    after = time.time() * 1000
    skew = int(max(before - there, there - after, 0))
    if skew <= _SKEW_MS:
        yield _ok("clock", f"{skew} ms from the database's")
        return
    yield Finding(
        level=Level.WARN,
        subject="clock",
        found=f"this machine is {skew} ms away from the database",
        wanted=f"at most {_SKEW_MS} ms",
        fix="keep both machines' time by NTP; Compactor itself takes every time from the database",
    )


def _mode(site: Site) -> Iterator[Finding]:
    mode = mode_of(site.settings)
    yield _ok("mode", f"{mode.name.lower()}, from {site.settings.source('compactor.mode')}")
    if mode is Mode.OBSERVE:
        return
    path = site.metastore.database.path
    if not os.access(path, os.W_OK):
        yield Finding(
            level=Level.FAIL,
            subject="privileges",
            found=f"{site.metastore.database.url} can only be read",
            wanted=f"write access, as mode {mode.name.lower()} needs it",
            fix="let this user write the database, or set compactor.mode to observe",
        )
    else:
        yield _ok("privileges", "the database can be written")


def _hive(site: Site) -> Iterator[Finding]:
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
        yield _ok("hive's roles", "nothing of Hive's own is in the way")


def _state(site: Site) -> Iterator[Finding]:
    if site.state is not None:
        yield _ok("state", f"{site.state.database.url} is of this release")
        return
    yield Finding(
        level=Level.OK if mode_of(site.settings) is Mode.OBSERVE else Level.FAIL,
        subject="state",
        found="none: nothing of our own is stored (decisions, batches, figures)",
        wanted="a state_url, where decisions are to be remembered",
        fix="set state_url, then `compactor state init`",
    )


def _storage(site: Site) -> Iterator[Finding]:
    """Locations, and what nobody will remove by itself, in one walk over all transactional tables."""
    unreachable: list[str] = []
    orphans: list[str] = []
    strange: list[str] = []
    tables = [t for t in site.metastore.catalog.tables() if t.is_transactional]
    directories = 0
    for table in tables:
        partitions = site.metastore.catalog.partitions(table) if table.partition_keys else []
        for location in [p.location for p in partitions] if table.partition_keys else [table.location]:
            directories += 1
            try:
                path = site.storage.resolve(location)
                site.storage.listing(path)
                children = site.storage.children(path)
            except CompactorError as error:
                unreachable.append(str(error))
                continue
            orphans += [f"{path}/{child}" for child in children if _is_orphan(site, child)]
            strange += [f"{path}/{child}" for child in children if _is_strange(child)]
    if unreachable:
        yield Finding(
            level=Level.FAIL,
            subject="storage",
            found=_few(unreachable),
            wanted=f"{directories} directories of {len(tables)} transactional tables that can be listed",
            fix="mount the warehouse here, correct the location, or drop what is gone",
        )
    else:
        yield _ok("storage", f"{directories} directories of {len(tables)} transactional tables can be listed")
    if orphans:
        yield Finding(
            level=Level.WARN,
            subject="orphans",
            found=_few(orphans),
            wanted="no hidden directory of a compaction that has ended",
            fix="`compactor run cleaner --once` removes them where the mode is clean and no older reader is left",
        )
    if strange:
        yield Finding(
            level=Level.FAIL,
            subject="directory names",
            found=_few(strange),
            wanted="names of bases and deltas that Hive can read; nothing beside them is compacted or cleaned",
            fix="find out who wrote them and move them out of the table",
        )


def _is_orphan(site: Site, child: str) -> bool:
    staging, hidden = parse_staging(child), parse_hidden(child)
    if staging is not None:
        return site.metastore.transactions.state(staging) != "o"
    return hidden is not None and hidden.until < repair.lowest_open(site)


def _is_strange(child: str) -> bool:
    try:
        parse_directory(child)
    except BadName:
        return True
    return False


def _queue(site: Site) -> Iterator[Finding]:
    now = site.metastore.now_ms()
    waiting = site.metastore.compactions.queue(states=(State.READY_FOR_CLEANING,))
    old = [e for e in waiting if e.commit_time is not None and now - e.commit_time > _DAY_MS]
    for entry, because in repair.lost(site):
        yield Finding(
            level=Level.WARN,
            subject=f"compaction {entry.id}",
            found=f"{entry.entity} is working for a lost worker: {because}",
            wanted="a living worker",
            fix="the next pass of a role of ours takes it back (mode compact or clean)",
        )
    if old:
        yield Finding(
            level=Level.WARN,
            subject="cleaning",
            found=f"ready for cleaning for more than a day: {_few([f'{e.id} ({e.entity})' for e in old])}",
            wanted="entries that are cleaned once their readers have ended",
            fix="`compactor show blockers` names who holds them; see that a cleaner runs",
        )
    if not old and not repair.lost(site):
        yield _ok("queue", f"{len(site.metastore.compactions.queue())} entries, none is stuck")


def _transactions(site: Site) -> Iterator[Finding]:
    now = site.metastore.now_ms()
    opened = site.metastore.transactions.open_transactions()
    long = [t for t in opened if now - t.started > _DAY_MS]
    if long:
        yield Finding(
            level=Level.WARN,
            subject="transactions",
            found="open for more than a day: " + _few([f"{t.id} of {t.user}@{t.host}" for t in long]),
            wanted="transactions that end; nothing that they may read is cleaned before",
            fix="end those clients, or `compactor abort transaction ID`",
        )
    else:
        yield _ok("transactions", f"{len(opened)} open, none for more than a day")
    aborts = site.metastore.compactions.aborts()
    limit = site.settings.integer("hive.compactor.abortedtxn.threshold")
    many = [f"{entity} ({found.count})" for entity, found in aborts.items() if found.count > limit]
    if many:
        yield Finding(
            level=Level.WARN,
            subject="aborted transactions",
            found=f"more than {limit} in {_few(sorted(many))}",
            wanted="writers whose transactions commit; every reader carries the aborted ones along",
            fix="look for a writer that fails again and again; the cleaner removes what they left",
        )
    else:
        yield _ok("aborted transactions", f"{sum(found.count for found in aborts.values())}, nowhere above {limit}")


def _properties(site: Site) -> Iterator[Finding]:
    ignored = [
        f"{table} {key}: {reason}"
        for table in site.metastore.catalog.tables()
        if table.is_transactional
        for key, reason in with_table(site.settings, table.parameters, table.database_parameters).ignored
    ]
    if ignored:
        yield Finding(
            level=Level.WARN,
            subject="table properties",
            found=_few(ignored),
            wanted="settings that a table may give",
            fix="correct or unset them; `compactor explain DB.TABLE` lists all of a table",
        )
    else:
        yield _ok("table properties", "none is ignored")


def _few(items: list[str]) -> str:
    more = f" and {len(items) - _FEW} more" if len(items) > _FEW else ""
    return "; ".join(items[:_FEW]) + more


CHECKS: tuple[tuple[str, Check], ...] = (
    ("database", _database),
    ("clock", _clock),
    ("mode", _mode),
    ("hive's roles", _hive),
    ("state", _state),
    ("storage", _storage),
    ("queue", _queue),
    ("transactions", _transactions),
    ("table properties", _properties),
)
