"""What the tasks do: one pass of a role, in plain values. Imported when a task or trigger runs, not to parse DAGs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from compactor.airflow.hooks import CompactorHook
from compactor.compaction.states import State
from compactor.errors import CompactorError, NotFound
from compactor.metastore.marker import change_marker
from compactor.service.batch import plan_batches
from compactor.service.cleaner import clean
from compactor.service.housekeeper import keep_house
from compactor.service.initiator import initiate
from compactor.service.request import request_compaction

log = logging.getLogger(__name__)
#: Labels of entries that nobody will work on any more.
_UNDER_WAY = frozenset({State.INITIATED.label, State.WORKING.label})
_WELL = frozenset({State.READY_FOR_CLEANING.label, State.SUCCEEDED.label, State.REFUSED.label})


def look(metastore: str) -> tuple[str, float]:
    """The change marker now, and ``hive.compactor.check.interval`` in seconds."""
    with CompactorHook(metastore).get_conn() as deployment:
        interval = deployment.settings.milliseconds("hive.compactor.check.interval") / 1000
        return change_marker(deployment.metastore), interval


def scan(metastore: str) -> dict[str, int]:
    """One pass of the initiator; the entries that wait for a worker now, counted by pool ("" for none)."""
    with CompactorHook(metastore).get_conn() as deployment:
        found = initiate(deployment)
        log.info("initiator: %s", found.to_json())
        return waiting(deployment)


def waiting(deployment: Any) -> dict[str, int]:
    """Queue entries that no batch has reserved, counted by pool."""
    reserved = deployment.state.batches.reserved(deployment.name) if deployment.state else frozenset()
    pools: dict[str, int] = {}
    for entry in deployment.metastore.compactions.queue():
        if entry.state is State.INITIATED and entry.id not in reserved:
            pools[entry.pool or ""] = pools.get(entry.pool or "", 0) + 1
    return pools


def plan(metastore: str) -> list[dict[str, Any]]:
    """Batches for what waits, as arguments of ``CompactionSubmitOperator``."""
    with CompactorHook(metastore).get_conn() as deployment:
        batches = plan_batches(deployment)
    for batch in batches:
        log.info("batch %s: %s entries, %s bytes, pool %s", batch.batch_id, batch.entries, batch.bytes, batch.pool)
    return [
        {"batch_id": batch.batch_id, "queue_name": batch.queue, "run_as": batch.run_as, "conf": dict(batch.conf)}
        for batch in batches
    ]


def ready_for_cleaning(metastore: str) -> int:
    """How many entries wait for the cleaner."""
    with CompactorHook(metastore).get_conn() as deployment:
        return sum(e.state is State.READY_FOR_CLEANING for e in deployment.metastore.compactions.queue())


def clean_once(metastore: str) -> dict[str, Any]:
    """One pass of the cleaner. What waits says for whom."""
    with CompactorHook(metastore).get_conn() as deployment:
        found: dict[str, Any] = clean(deployment).to_json()
    log.info("cleaner: %s", found)
    return found


def keep_house_once(metastore: str) -> dict[str, Any]:
    """One pass of the housekeeper."""
    with CompactorHook(metastore).get_conn() as deployment:
        found: dict[str, Any] = keep_house(deployment).to_json()
    log.info("housekeeper: %s", found)
    return found


def check_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values as arguments of ``request``, with our own words for what is wrong.

    Raises:
        NotFound: no table is named.
        CompactorError: a property is not text.
    """
    table = str(parameters.get("table") or "").strip()
    if table.count(".") != 1 or not all(table.split(".")):
        raise NotFound(f"table is {table!r}; wanted: DATABASE.TABLE, for example demo.flights")
    properties = dict(parameters.get("properties") or {})
    for key, value in properties.items():
        if not isinstance(value, str):
            raise CompactorError(
                f'property {key} is {value!r}; wanted: text, as TBLPROPERTIES have it, for example "{key}": "{value}"'
            )
    return {
        "table": table,
        "partition": (parameters.get("partition") or "").strip() or None,
        "type": parameters.get("type") or "major",
        "pool": (parameters.get("pool") or "").strip() or None,
        "properties": properties,
    }


def request(metastore: str, arguments: Mapping[str, Any]) -> list[int]:
    """Queues what ``check_parameters`` returned; the ids of the entries."""
    with CompactorHook(metastore).get_conn() as deployment:
        enqueued = request_compaction(deployment, **arguments)
    for one in enqueued:
        log.info("requested: %s", one)
    return [one.id for one in enqueued]


def states(metastore: str, ids: Iterable[int]) -> dict[int, str]:
    """Each entry's state in the words of SHOW COMPACTIONS, from the queue or the history."""
    with CompactorHook(metastore).get_conn() as deployment:
        return {entry: deployment.metastore.compactions.entry(entry).state.label for entry in ids}


def under_way(found: Mapping[int, str]) -> bool:
    """True while one of ``states`` is queued or worked on."""
    return any(state in _UNDER_WAY for state in found.values())


def went_well(state: str) -> bool:
    """True for compacted (cleaned or not) and for nothing to do."""
    return state in _WELL


def complaint(metastore: str, wrong: Mapping[int, str]) -> str:
    """One sentence per entry of ``wrong``, with the error that its row keeps."""
    lines = []
    with CompactorHook(metastore).get_conn() as deployment:
        for entry_id, state in wrong.items():
            entry = deployment.metastore.compactions.entry(entry_id)
            after = " when the time to wait was over" if state in _UNDER_WAY else ""
            lines.append(
                f"compaction {entry_id} of {entry.entity}: {state}{after}" + (f": {entry.error}" if entry.error else "")
            )
    return "; ".join(lines)
