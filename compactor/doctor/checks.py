"""All checks of the doctor in order; the checks of this machine, our state, properties and locations.

Checks write nothing. A check that fails becomes a finding, never a crash.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from compactor.base.errors import CompactorError, NotSupported, StorageError
from compactor.base.private_files import why_not_secret, why_not_trusted
from compactor.base.utc import utc_text
from compactor.database import privileges
from compactor.doctor import metastore_checks
from compactor.doctor.log_in_check import check_log_in
from compactor.doctor.server_checks import check_servers
from compactor.doctor.storage_checks import check_storage
from compactor.initiator.candidate_scan import DISAGREEMENT
from compactor.settings.precedence import with_table
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.mode import Mode, loosest_mode, may_somewhere
from compactor.site.restored_database import behind, doubt_of
from compactor.site.site import Site, ground_of
from compactor.site.spark_program import find_spark_submit, read_version
from compactor.state.seen_conditions import ConditionFilter
from compactor.state.state_database import OwnState
from compactor.state.state_tables import metadata

_JAVA = 17  #: the version that Spark 4 needs
_MOST_DISAGREEMENTS = 100  #: that are read

Check = Callable[[Site], Iterator[Finding]]


def doctor(site: Site) -> list[Finding]:
    """Returns the findings of every check of an open site. No check stops another."""
    findings: list[Finding] = []
    for subject, check in CHECKS:
        try:
            findings.extend(check(site))
        except CompactorError as error:
            findings.append(broken(subject, error))
    findings.extend(machine())
    return findings


def broken(subject: str, error: CompactorError) -> Finding:
    """Returns the finding of a check that could not run; the error says what to do."""
    return Finding(level=Level.FAIL, subject=subject, found=str(error), wanted="a check that can run")


def machine() -> Iterator[Finding]:
    """Yields findings on Spark and Java, which only workers need. Everything else works without them."""
    try:
        program = find_spark_submit()
        yield ok("spark-submit", f"{program}, version {read_version(program)}")
    except NotSupported as error:
        yield Finding(
            level=Level.WARN,
            subject="spark-submit",
            found=str(error),
            wanted="a spark-submit that starts, where workers run with Spark",
            fix="install pyspark as the last package, not pyspark-client alone, or run workers with --in-process",
        )
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
        yield ok("java", f"version {version}")


def _java_version() -> int | None:
    home = os.environ.get("JAVA_HOME")
    binary = f"{home}/bin/java" if home else shutil.which("java")
    if binary is None or not os.access(binary, os.X_OK):
        return None
    try:
        output = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?([0-9]+)', output)
    return int(match.group(1)) if match else None


def _state(site: Site) -> Iterator[Finding]:
    if site.state is not None:
        yield _state_rights(site.state)
        return
    yield Finding(
        level=Level.OK if loosest_mode(site.settings) is Mode.OBSERVE else Level.FAIL,
        subject="state",
        found="none: decisions, batches and figures are not stored",
        wanted="a state_url, to record decisions",
        fix="set state_url, then `compactor state init`",
    )


def _state_rights(state: OwnState) -> Finding:
    """Checks that our state can be written; every mode records what happened."""
    return metastore_checks.write_access(
        state.database,
        privileges.missing(state.database, metadata.tables.values()),
        success=ok("state", f"{state.database.url} has the schema of this release"),
        wanted="write access to the tables of our own state, and on PostgreSQL to their sequences",
        fix="grant this user the right to write them",
    )


def _properties(site: Site) -> Iterator[Finding]:
    ignored = [
        f"{table} {key}: {reason}"
        for table in site.metastore.catalog.tables()
        if table.is_transactional
        for key, reason in with_table(
            site.settings.of_database(table.database), table.parameters, table.database_parameters
        ).ignored
    ]
    if ignored:
        yield Finding(
            level=Level.WARN,
            subject="table properties",
            found=first_few(ignored),
            wanted="settings that a table may have",
            fix="correct or unset them; `compactor explain DB.TABLE` lists those of a table",
        )
    else:
        yield ok("table properties", "none is ignored")


def _untouched(site: Site) -> Iterator[Finding]:
    """Yields transactional tables of kinds that are never compacted."""
    refused = [why for table in site.metastore.catalog.tables() if table.is_transactional and (why := table.refusal())]
    if refused:
        yield Finding(
            level=Level.WARN,
            subject="tables left alone",
            found=first_few(refused),
            wanted="managed ACID tables, unsorted, and in ORC unless they are insert-only",
            fix="alter them, or leave them as they are: no worker compacts them and no cleaner removes anything there",
        )
    else:
        yield ok("tables left alone", "no transactional table is of a kind that is never compacted")


def check_ground(site: Site) -> Iterator[Finding]:
    """Yields findings on every overlap of tables and partitions, in any spelling (PROTOCOL 11.13).

    A pass compares a partition only if something unusual lies near it.
    """
    overlaps = ground_of(site).everything()
    if overlaps.refused:
        yield Finding(
            level=Level.FAIL,
            subject="overlapping tables",
            found=first_few(list(overlaps.refused.values())),
            wanted="tables that have their directories to themselves; these are neither compacted nor cleaned",
            fix="move one of each pair, or drop what is not needed; keep Hive's own compactor and cleaner away, too",
        )
    if overlaps.warned:
        yield Finding(
            level=Level.WARN,
            subject="tables in plain tables",
            found=first_few(list(overlaps.warned.values())),
            wanted="transactional tables that no other table reads as plain files",
            fix="give the plain table a directory of its own: its readers take deltas for rows, and a DROP may remove all",
        )
    if not overlaps.refused and not overlaps.warned:
        yield ok("overlapping tables", "every transactional table has its directory to itself")


def check_agreement(site: Site) -> Iterator[Finding]:
    """Yields the tables whose files the initiator found to contradict the metastore (PROTOCOL 11)."""
    if site.state is None:
        return
    condition_filter = ConditionFilter(outcomes=(DISAGREEMENT,))
    conditions = site.state.conditions.page(site.name, condition_filter, order="table", limit=_MOST_DISAGREEMENTS)
    if not conditions:
        yield ok("agreement", "the initiator found no files that contradict the metastore")
        return
    yield Finding(
        level=Level.FAIL,
        subject="agreement",
        found=f"{site.state.conditions.count(site.name, condition_filter)} tables and partitions: "
        + first_few([f"{condition.entity}: {condition.because}" for condition in conditions]),
        wanted="files and a metastore that agree; nothing is compacted or removed there until they do",
        fix="stop Hive's own compactor and cleaner; put the right database back, or decide about each directory: "
        "compactor resolve DB.TABLE, or compactor metastore advance for all tables",
    )


def check_memory(site: Site) -> Iterator[Finding]:
    may_write = may_somewhere(site.settings, Mode.COMPACT)
    memory = site.memory
    if memory is None:
        yield Finding(
            level=Level.WARN if may_write else Level.OK,
            subject="memory",
            found="no marks of this metastore are kept outside of its database, so a restore of an "
            "older one would go unnoticed",
            wanted="a folder that every process sees and that is not restored together with the database",
            fix="set compactor.memory, or warehouse under the metastore in compactor.toml",
        )
        return
    try:
        doubt, files = doubt_of(site), memory.newest()
    except StorageError as error:
        yield Finding(
            level=Level.FAIL,
            subject="memory",
            found=str(error),
            wanted=f"{memory.place}, readable; until then nothing is removed, timed out or forgotten",
            fix="make the store answer, or name another folder in compactor.memory",
        )
        return
    if doubt is not None:
        yield Finding(
            level=Level.FAIL,
            subject="restored metastore",
            found=f"the database is older than the marks that are kept outside of it{behind(doubt)}: "
            + first_few([str(contradiction) for contradiction in doubt.contradictions]),
            wanted="a database at least as new as its marks; until then nothing is timed out, compacted, "
            "removed or forgotten here",
            fix="stop Hive's own compactor and cleaner; put the right database back, or `compactor metastore agree`",
        )
    elif not files:
        yield ok("memory", f"{memory.place} has no marks yet; the next pass writes them" if may_write else _UNUSED)
    else:
        at = utc_text(max(file.token.at for file in files))
        yield ok("memory", f"{memory.place} agrees with the database; its newest file is from {at}")


_UNUSED = "modes below compact keep no marks outside of the database"


CHECKS: tuple[tuple[str, Check], ...] = (
    ("database", metastore_checks.check_database),
    ("memory", check_memory),
    ("clock", metastore_checks.check_clock),
    ("server", check_servers),
    ("mode", metastore_checks.check_rights),
    ("hive's roles", metastore_checks.check_hive_roles),
    ("state", _state),
    ("log-in", check_log_in),
    ("storage", check_storage),
    ("agreement", check_agreement),
    ("queue", metastore_checks.check_queue),
    ("transactions", metastore_checks.check_transactions),
    ("transaction manager", metastore_checks.check_transaction_manager),
    ("housekeeping", metastore_checks.check_growth),
    ("table properties", _properties),
    ("tables left alone", _untouched),
    ("overlapping tables", check_ground),
)


_CONFIGURATION_FILES = "files of the configuration"


def check_files(configurations: Iterable[Path], secrets: Iterable[tuple[str, Path, bool]]) -> Iterator[Finding]:
    """Yields a finding for each existing file whose owner or mode gives others access.

    Args:
        secrets: the setting, the file, and whether a directory above it may keep others out instead.
    """
    existing = 0
    is_private = True
    for path in configurations:
        existing += path.exists()
        if (problem := why_not_trusted(path)) is not None:
            is_private = False
            yield Finding(
                level=Level.WARN,
                subject=_CONFIGURATION_FILES,
                found=f"{path}: {problem}",
                wanted="configuration that only this user or root may write: it says which secrets are sent where",
                fix=f"chmod go-w {path}, or give it to this user",
            )
    for what, path, by_directory in secrets:
        existing += path.exists()
        if (problem := why_not_secret(path, by_directory=by_directory)) is not None:
            is_private = False
            yield Finding(
                level=Level.FAIL,
                subject=_CONFIGURATION_FILES,
                found=f"{what} {path}: {problem}",
                wanted="secrets that nobody else may read or replace; this one is not used",
                fix=f"chmod 600 {path}, or give it to this user",
            )
    if is_private and existing:
        yield ok(_CONFIGURATION_FILES, f"nobody else may write the configuration or read a secret ({existing} files)")
