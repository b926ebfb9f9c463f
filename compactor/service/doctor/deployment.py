"""Checks a deployment read-only and says what to fix. A check that fails is a finding, never a crash."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator

from compactor.acid.names import parse_directory, parse_hidden, parse_staging
from compactor.database import privileges
from compactor.errors import BadName, CompactorError
from compactor.service import repair
from compactor.service.doctor import metastore
from compactor.service.doctor.finding import Finding, Level, few, fine
from compactor.service.mode import Mode, may, mode_of
from compactor.service.site import Site
from compactor.settings.precedence import with_table
from compactor.state.store import OwnState
from compactor.state.tables import metadata
from compactor.storage.capabilities import Capabilities

_JAVA = 17  #: what Spark 4 needs


__all__ = ["CHECKS", "Finding", "Level", "broken", "doctor", "machine"]

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
        yield fine("pyspark", "importable")
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
        yield fine("java", f"version {version}")


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


def _state(site: Site) -> Iterator[Finding]:
    if site.state is not None:
        yield _state_rights(site.state)
        return
    yield Finding(
        level=Level.OK if mode_of(site.settings) is Mode.OBSERVE else Level.FAIL,
        subject="state",
        found="none: nothing of our own is stored (decisions, batches, figures)",
        wanted="a state_url, where decisions are to be remembered",
        fix="set state_url, then `compactor state init`",
    )


def _state_rights(state: OwnState) -> Finding:
    """What happened is remembered in every mode."""
    return metastore.writing(
        state.database,
        privileges.missing(state.database, metadata.tables.values()),
        well=fine("state", f"{state.database.url} is of this release"),
        wanted="write access to the tables of our own state, and on PostgreSQL to their sequences",
        fix="let this user write them",
    )


def _storage(site: Site) -> Iterator[Finding]:
    """Locations, and what nobody will remove by itself, in one walk over all transactional tables."""
    unreachable: list[str] = []
    unwritable: list[str] = []
    orphans: list[str] = []
    strange: list[str] = []
    tables = [t for t in site.metastore.catalog.tables() if t.is_transactional]
    directories = 0
    stores: Counter[Capabilities] = Counter()
    for table in tables:
        partitions = site.metastore.catalog.partitions(table) if table.partition_keys else []
        compacts = may(site.settings_for(table), Mode.COMPACT)
        for location in [p.location for p in partitions] if table.partition_keys else [table.location]:
            directories += 1
            try:
                path = site.storage.resolve(location)
                stores[site.storage.capabilities(path)] += 1
                site.storage.listing(path)
                children = site.storage.children(path)
                if compacts and site.storage.may_write(path) is False:
                    unwritable.append(path)
            except CompactorError as error:
                unreachable.append(str(error))
                continue
            orphans += [f"{path}/{child}" for child in children if _is_orphan(site, child)]
            strange += [f"{path}/{child}" for child in children if _is_strange(child)]
    if unreachable:
        yield Finding(
            level=Level.FAIL,
            subject="storage",
            found=few(unreachable),
            wanted=f"{directories} directories of {len(tables)} transactional tables that can be listed",
            fix="mount the warehouse here, grant this user the right, correct the location, or drop what is gone",
        )
    else:
        yield fine("storage", f"{directories} directories of {len(tables)} transactional tables can be listed")
    if unwritable:
        yield Finding(
            level=Level.WARN,
            subject="writing",
            found=few([f"{path} is closed to this user" for path in unwritable]),
            wanted="directories that whoever compacts may write to",
            fix="run workers and cleaners as the tables' owner (docs/production.md), or grant this user the right",
        )
    for guarantees, number in stores.items():
        yield fine("guarantees", f"{number} directories in {guarantees}")
    if orphans:
        yield Finding(
            level=Level.WARN,
            subject="orphans",
            found=few(orphans),
            wanted="no hidden directory of a compaction that has ended",
            fix="`compactor run cleaner --once` removes them where the mode is clean and no older reader is left",
        )
    if strange:
        yield Finding(
            level=Level.FAIL,
            subject="directory names",
            found=few(strange),
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
            found=few(ignored),
            wanted="settings that a table may give",
            fix="correct or unset them; `compactor explain DB.TABLE` lists all of a table",
        )
    else:
        yield fine("table properties", "none is ignored")


CHECKS: tuple[tuple[str, Check], ...] = (
    ("database", metastore.database),
    ("clock", metastore.clock),
    ("mode", metastore.rights),
    ("hive's roles", metastore.hive),
    ("state", _state),
    ("storage", _storage),
    ("queue", metastore.queue),
    ("transactions", metastore.transactions),
    ("housekeeping", metastore.growing),
    ("table properties", _properties),
)
