"""What the tasks do: one pass of a role, in plain values. Imported when a task or trigger runs, not to parse DAGs."""

from __future__ import annotations

import fnmatch
import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from compactor.airflow.configuration import text
from compactor.airflow.hooks import CompactorHook
from compactor.airflow.options import OPTIONS
from compactor.compaction.states import State
from compactor.errors import CompactorError, NotFound, Refused
from compactor.metastore.marker import change_marker
from compactor.service.answers.preview import Preview, preview
from compactor.service.batches.assembly import plan_batches
from compactor.service.mode import Mode, may
from compactor.service.requests.request import parse_table, request_compaction
from compactor.service.roles.cleaner import clean
from compactor.service.roles.housekeeper import keep_house
from compactor.service.roles.initiator import initiate
from compactor.service.site import Site

log = logging.getLogger(__name__)
#: Labels of entries that nobody will work on any more.
_UNDER_WAY = frozenset({State.INITIATED.label, State.WORKING.label})
_WELL = frozenset({State.READY_FOR_CLEANING.label, State.SUCCEEDED.label, State.REFUSED.label})


def look(metastore: str) -> tuple[str, float]:
    """The change marker now, with a digest of the settings, and ``hive.compactor.check.interval`` in seconds."""
    with CompactorHook(metastore).get_conn() as site:
        interval = site.settings.milliseconds("hive.compactor.check.interval") / 1000
        settings = hashlib.sha256(repr(site.settings.explain()).encode()).hexdigest()
        return f"{change_marker(site.metastore)}-{settings[:16]}", interval


def scan(metastore: str) -> tuple[dict[str, int], bool]:
    """One pass of the initiator.

    Returns:
        The entries that wait for a worker now, counted by pool ("" for none); and whether aborted transactions are past
        their threshold, which is the cleaner's work.
    """
    with CompactorHook(metastore).get_conn() as site:
        found = initiate(site)
        log.info("initiator: %s", found.to_json())
        return waiting(site), found.wants_cleaning


def waiting(site: Site) -> dict[str, int]:
    """Queue entries for our workers that no batch has reserved, counted by pool; whoever queued them."""
    if not may(site.settings, Mode.COMPACT):
        return {}
    reserved = site.state.batches.reserved(site.name) if site.state is not None else frozenset()
    entries = site.metastore.entries.queue(states=(State.INITIATED,))
    return dict(Counter(entry.pool or "" for entry in entries if entry.id not in reserved))


def plan(metastore: str) -> list[dict[str, Any]]:
    """Batches for what waits, as arguments of ``CompactionSubmitOperator``."""
    with CompactorHook(metastore).get_conn() as site:
        if not may(site.settings, Mode.COMPACT):
            log.info("metastore %s: compactor.mode leaves the work to Hive's workers", metastore)
            return []
        batches = plan_batches(site)
    pool = text("pool")
    if batches and pool != OPTIONS["pool"].default:
        # A task cannot ask which pools there are, and Airflow lets a task of an unknown pool wait without a word.
        log.info("batches wait for a slot of pool %s; where it is missing: airflow pools set %s 2 Spark", pool, pool)
    for batch in batches:
        log.info("batch %s: %s entries, %s bytes, pool %s", batch.batch_id, batch.entries, batch.bytes, batch.pool)
    return [
        {
            "batch_id": batch.batch_id,
            "pool_name": batch.pool,
            "job": batch.job,
            "max_seconds": batch.max_seconds,
            "queue_name": batch.queue,
            "run_as": batch.run_as,
            "conf": dict(batch.conf),
        }
        for batch in batches
    ]


def ready_for_cleaning(metastore: str) -> int:
    """How many entries wait for the cleaner."""
    with CompactorHook(metastore).get_conn() as site:
        if not may(site.settings, Mode.CLEAN):
            return 0
        return len(site.metastore.entries.queue(states=(State.READY_FOR_CLEANING,)))


def clean_once(metastore: str) -> dict[str, object]:
    """One pass of the cleaner. What waits says for whom.

    Raises:
        CompactorError: an entry cannot be cleaned; the others are.
    """
    with CompactorHook(metastore).get_conn() as site:
        found = clean(site)
    log.info("cleaner: %s", found.to_json())
    if found.failed:
        raise CompactorError("; ".join(f"{one.entity}: {one.because}" for one in found.failed))
    return found.to_json()


def keep_house_once(metastore: str) -> dict[str, object]:
    """One pass of the housekeeper."""
    with CompactorHook(metastore).get_conn() as site:
        found = keep_house(site).to_json()
    log.info("housekeeper: %s", found)
    return found


def tables_of(metastore: str, names: Iterable[str]) -> list[str]:
    """The tables that ``names`` stand for, each once; a pattern stands for transactional tables only.

    Raises:
        NotFound: a table is not there, or nothing matches a pattern.
    """
    found: dict[str, None] = {}
    with CompactorHook(metastore).get_conn() as site:
        every = None
        for name in names:
            if "*" not in name:
                found[str(site.metastore.catalog.table(*parse_table(name)))] = None
                continue
            every = [str(t) for t in site.metastore.catalog.tables() if t.is_transactional] if every is None else every
            matching = sorted(table for table in every if fnmatch.fnmatchcase(table, name.lower()))
            if not matching:
                raise NotFound(f"no transactional table matches {name!r}; wanted: for example demo.* or demo.fl*")
            found |= dict.fromkeys(matching)
    return list(found)


def dry_run(metastore: str, tables: Iterable[str], arguments: Mapping[str, Any]) -> list[dict[str, object]]:
    """What a compaction would read and write, partition by partition; nothing is queued.

    Raises:
        CompactorError: a table cannot be compacted so, and why.
    """
    plans: list[dict[str, object]] = []
    with CompactorHook(metastore).get_conn() as site:
        for table in tables:
            for one in preview(site, table, partition=arguments["partition"], type=arguments["type"]):
                plans.append(one.to_json())
                told = one.error or one.nothing or _told(one)
                log.info("%s %s: %s", one.type.label.lower(), one.entity, told)
    return plans


def _told(one: Preview) -> str:
    does = (
        f"reads {one.input_bytes} bytes of {', '.join(one.inputs)}, writes {', '.join(one.outputs)}; copies "
        f"{one.cost.bytes_copied} bytes, re-encodes {one.cost.bytes_reencoded}"
    )
    return "; ".join((does, *one.summary.sentences))


def request(metastore: str, tables: Iterable[str], arguments: Mapping[str, Any]) -> list[int]:
    """Queues a request for each table or partition; the ids of the entries. What is queued already is told and left.

    Raises:
        CompactorError: nothing was queued, and why.
    """
    ids: list[int] = []
    refused: list[str] = []
    with CompactorHook(metastore).get_conn() as site:
        for table in tables:
            try:
                enqueued = request_compaction(site, table=table, **arguments)
            except Refused as error:
                log.warning("%s", error)
                refused.append(str(error))
                continue
            for one in enqueued:
                log.info("request: %s", one.to_json())
            ids += [one.entry_id for one in enqueued if one.entry_id is not None]
    if not ids:
        raise Refused("; ".join(refused))
    return ids


def states(metastore: str, ids: Iterable[int]) -> dict[int, str]:
    """Each entry's state in the words of SHOW COMPACTIONS, from the queue or the history."""
    with CompactorHook(metastore).get_conn() as site:
        return {entry: site.metastore.entries.get(entry).state.label for entry in ids}


def under_way(found: Mapping[int, str]) -> bool:
    """True while one of ``states`` is queued or worked on."""
    return any(state in _UNDER_WAY for state in found.values())


def went_well(state: str) -> bool:
    """True for compacted (cleaned or not) and for nothing to do."""
    return state in _WELL


def complaint(metastore: str, wrong: Mapping[int, str]) -> str:
    """One sentence per entry of ``wrong``, with the error that its row keeps."""
    lines = []
    with CompactorHook(metastore).get_conn() as site:
        for entry_id, state in wrong.items():
            entry = site.metastore.entries.get(entry_id)
            after = " when the time to wait was over" if state in _UNDER_WAY else ""
            lines.append(
                f"compaction {entry_id} of {entry.entity}: {state}{after}" + (f": {entry.error}" if entry.error else "")
            )
    return "; ".join(lines)
