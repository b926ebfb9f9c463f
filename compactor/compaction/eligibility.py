"""Decides which tables and partitions the initiator looks at, and in which order.

The rules are those of Hive's ``CompactorUtil.isEligibleForCompaction`` in Hive's order, and the first that applies wins;
compactor.paused is ours. Manual requests do not go through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from compactor.base.utc import utc_text
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import State
from compactor.settings.precedence import Settings

_FIRST_INCREMENT = "hive.repl.first.inc.pending"
_THRESHOLD = "hive.compactor.initiator.failed.compacts.threshold"
_RETRY = "hive.compactor.initiator.failed.retry.time"
_ON = State.INITIATED, State.WORKING


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A table or partition that was written to, with what the metastore knows about it.

    ``queued`` are its rows in the queue, ``history`` its rows in COMPLETED_COMPACTIONS, in any order. ``exists`` is true
    if its table exists, and its partition if it names one. ``never`` is the reason why its table is never compacted.
    """

    entity: Entity
    exists: bool = True
    never: str | None = None
    is_insert_only: bool = False
    is_partitioned: bool = False
    table_parameters: Mapping[str, str] = field(default_factory=_nothing)
    database_parameters: Mapping[str, str] = field(default_factory=_nothing)
    queued: Sequence[Entry] = ()
    history: Sequence[Entry] = ()
    has_old_abort: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """The answer that a candidate is looked at.

    With ``observing`` its decision is recorded but not requested.
    """

    observing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The answer that a candidate is not looked at.

    ``record`` asks for a row 'did not initiate', one for each run of failures.
    """

    because: str
    record: bool = False


def check_eligibility(candidate: Candidate, settings: Settings, now_ms: int) -> Eligible | Skipped:
    """Decides whether the initiator looks at ``candidate``.

    ``settings`` include the table's own; ``now_ms`` is the database's clock.
    """
    skipped = (
        _check_replication(candidate.database_parameters, "database")
        or _check_queued(candidate)
        or _check_failures(candidate, settings, now_ms)
        or _check_existence(candidate)
        or _check_replication(candidate.table_parameters, "table")
        or _check_switch(candidate)
        or _check_paused(settings)
        or _check_kind(candidate, settings)
    )
    return skipped or Eligible(observing=settings.mode == "observe")


def no_auto_compaction(table_parameters: Mapping[str, str], database_parameters: Mapping[str, str]) -> str | None:
    """Returns ``database`` or ``table``, whichever switches automatic compaction off; None if it is on.

    A database that has the key at all decides for its tables (Hive's ``MetaStoreUtils.isNoAutoCompactSet``).
    """
    of_database = _flag(database_parameters, "no_auto_compaction")
    if of_database is not None:
        return "database" if of_database else None
    return "table" if _flag(table_parameters, "no_auto_compaction") else None


def no_cleanup(table_parameters: Mapping[str, str], partition_parameters: Mapping[str, str]) -> str | None:
    """Returns ``table`` or ``partition``, whichever sets ``no_cleanup``; None if cleaning is allowed."""
    if _flag(table_parameters, "no_cleanup"):
        return "table"
    return "partition" if _flag(partition_parameters, "no_cleanup") else None


def consecutive_failures(history: Iterable[Entry], threshold: int) -> Sequence[Entry]:
    """Returns the newest ``threshold`` succeeded or failed rows, newest first, if all of them failed.

    Returns nothing otherwise.
    """
    ended = sorted((e for e in history if e.state in (State.SUCCEEDED, State.FAILED)), key=lambda e: -e.id)
    newest = ended[:threshold]
    return newest if len(newest) == threshold and all(e.state is State.FAILED for e in newest) else ()


def _flag(parameters: Mapping[str, str], name: str) -> bool | None:
    for key, text in parameters.items():
        if key.lower() == name:
            return text.strip().lower() == "true"
    return None


def _check_replication(parameters: Mapping[str, str], what: str) -> Skipped | None:
    if not _flag(parameters, _FIRST_INCREMENT):
        return None
    return Skipped(because=f"the {what} waits for its first incremental replication ({_FIRST_INCREMENT})")


def _check_queued(candidate: Candidate) -> Skipped | None:
    for entry in candidate.queued:
        if entry.state in _ON:
            return Skipped(because=f"compaction {entry.id} of it is already {entry.state.label}")
    return None


def find_failure_pause_end(history: Iterable[Entry], settings: Settings) -> int | None:
    """Returns when a pause after failures ends or has ended, epoch ms.

    Returns None without a pause, and for a pause that only a user can end.
    """
    threshold, retry = settings.integer(_THRESHOLD), settings.milliseconds(_RETRY)
    failures = consecutive_failures(history, threshold) if threshold > 0 else ()
    return _latest_request(failures) + retry if failures and retry > 0 else None


def _latest_request(failures: Iterable[Entry]) -> int:
    return max(e.enqueue_time or e.start or 0 for e in failures)


def _check_failures(candidate: Candidate, settings: Settings, now_ms: int) -> Skipped | None:
    threshold, retry = settings.integer(_THRESHOLD), settings.milliseconds(_RETRY)
    failures = consecutive_failures(candidate.history, threshold) if threshold > 0 else ()
    if not failures:
        return None
    latest = _latest_request(failures)
    if retry > 0 and latest + retry <= now_ms:
        return None
    newest = failures[0].id
    known = any(e.state is State.DID_NOT_INITIATE and e.id > newest for e in candidate.history)
    until = f"until {utc_text(latest + retry)}" if retry > 0 else "until a user requests one"
    return Skipped(
        because=f"the last {threshold} compactions failed ({_THRESHOLD}), the newest is {newest}; none is initiated "
        f"{until}",
        record=not known,
    )


def _check_existence(candidate: Candidate) -> Skipped | None:
    if not candidate.exists:
        return Skipped(because=f"{candidate.entity} is not in the metastore (dropped or temporary)")
    return Skipped(because=candidate.never) if candidate.never is not None else None


def _check_switch(candidate: Candidate) -> Skipped | None:
    where = no_auto_compaction(candidate.table_parameters, candidate.database_parameters)
    return Skipped(because=f"no_auto_compaction of the {where} is true") if where else None


def _check_paused(settings: Settings) -> Skipped | None:
    if not settings.boolean("compactor.paused"):
        return None
    return Skipped(because=f"compactor.paused is true (from {settings.source('compactor.paused')})")


def _check_kind(candidate: Candidate, settings: Settings) -> Skipped | None:
    if candidate.is_insert_only and not settings.boolean("hive.compactor.compact.insert.only"):
        return Skipped(because="the table is insert-only and hive.compactor.compact.insert.only is false")
    if candidate.is_partitioned and candidate.entity.partition is None and not candidate.has_old_abort:
        return Skipped(because="a dynamic-partition write names no partition; its partitions are looked at one by one")
    return None
