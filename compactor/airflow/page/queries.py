"""The queries of the page.

They change nothing; only ``explain`` lists a table's directory, and records its state.

All run on our own threads (``on_readers``), and numbers fit into the databases' columns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Depends, Query

from compactor.airflow.configuration import dag_id, default_timezone
from compactor.airflow.page.access import By, may_see
from compactor.airflow.page.readers import PageWork, on_readers
from compactor.airflow.page.request_bounds import PartitionName, SearchText, TableName, Word
from compactor.answers import overview
from compactor.answers.explain import considered_json
from compactor.answers.fleet import Fleet, count_fleet, with_queue
from compactor.answers.preview import preview
from compactor.answers.reader_gains import table_reads
from compactor.answers.show_rows import show_settings
from compactor.base.errors import BadSetting
from compactor.cleaner.blockers import blocking_transactions
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.initiator.fresh_look import look_at
from compactor.settings.catalogue import CATALOGUE
from compactor.settings.setting import LARGEST, Scope
from compactor.site.mode import modes_of_databases
from compactor.site.named_tables import find_table, parse_table
from compactor.site.restored_database import sentences_about
from compactor.site.site import Site
from compactor.state.decisions import PASS

_Value = TypeVar("_Value")
_TIMES = 10  #: an answer is valid for this many times the time that it took
_LONGEST_S = 30  #: longest validity of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedAnswer(Generic[_Value]):
    value: _Value
    until: float


class LastAnswer(Generic[_Value]):
    """The last answer to one slow question; one thread at a time computes it, and the others wait.

    Many people keep the page open, and each page asks again and again. An answer is valid for ten times as long as it took,
    so all pages together use a database for at most a tenth of the time. A quick answer is computed each time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last: _CachedAnswer[_Value] | None = None

    def get(self, answer: Callable[[], _Value]) -> _Value:
        """Returns the last answer while it is valid, else the result of ``answer``; errors are not cached."""
        with self._lock:
            started_at, last = self._clock(), self._last
            if last is None or started_at >= last.until:
                value = answer()
                ended = self._clock()
                last = self._last = _CachedAnswer(
                    value=value, until=ended + min(_TIMES * (ended - started_at), _LONGEST_S)
                )
            return last.value


_COUNTS: dict[tuple[str, str], LastAnswer[Fleet]] = {}


def count_cached(site: Site) -> Fleet:
    """Returns this process's last count over a whole metastore (``fleet.count_fleet``), or counts again."""
    key = (site.name, site.metastore.database.url)
    return _COUNTS.setdefault(key, LastAnswer()).get(partial(count_fleet, site))


_DAGS = ("compaction_initiator", "compaction_worker", "compaction_cleaner", "acid_housekeeper", "compact_table")
_RUNS = 300  #: points of a plot

router = APIRouter(dependencies=[Depends(may_see)])
Find = Annotated[SearchText, Query()]
Name = Annotated[TableName, Query()]
Choice = Annotated[Word, Query()]
Partition = Annotated[PartitionName | None, Query()]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=LARGEST)]


@router.get("/overview")
@on_readers(PageWork.OVERVIEW)
def read_overview(by: By) -> dict[str, Any]:
    """Returns the data shown above every view."""
    with by.site() as site:
        state = site.state
        return {
            "metastore": by.metastore,
            "metastores": list(by.metastores()),
            "mode": site.settings.mode,
            "mode_source": site.settings.source("compactor.mode"),
            "database_modes": {
                name: mode.name.lower()
                for name, mode in modes_of_databases(site.settings, site.metastore.catalog.databases()).items()
            },
            "remembers": state is not None,
            "doubt": list(sentences_about(site)),
            "outcomes": {} if state is None else state.conditions.outcomes(site.name),
            "looked_at": None if state is None else state.decisions.newest(site.name, PASS),
            "now": site.metastore.now_ms(),
            "timezone": default_timezone(),
            "queue": {state.label: count for state, count in site.metastore.entries.count_queued().items()},
            "dags": {name: dag_id(name, by.metastore) for name in _DAGS},
            "user": by.name,
            "rights": by.rights(),
        }


@router.get("/fleet")
@on_readers(PageWork.LIST)
def read_fleet(by: By) -> dict[str, Any]:
    """Returns the health of all tables, what is due or running, and the gains of compactions.

    Counts over the whole fleet and its history are cached for a while (``LastAnswer``).
    """
    with by.site() as site:
        return with_queue(site, count_cached(site)).to_json()


@router.get("/reads")
@on_readers(PageWork.LIST)
def read_reads(by: By) -> dict[str, Any]:
    """Returns how often tables are read, and how long like queries took around compactions."""
    with by.site() as site:
        return {"rows": [reads.to_json() for reads in table_reads(site)]}


@router.get("/tables")
@on_readers(PageWork.LIST)
def read_tables(
    by: By,
    find: Find = "",
    outcome: Choice = "",
    order: Choice = "health",
    descending: bool = False,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Returns tables and partitions as the initiator last saw them."""
    with by.site() as site:
        return overview.tables_page(
            site, find=find, outcome=outcome, order=order, descending=descending, limit=limit, offset=offset
        ).to_json()


@router.get("/explain")
@on_readers(PageWork.LOOK)
def explain(by: By, table: Name, partition: Partition = None) -> dict[str, Any]:
    """Returns what would happen to a table or partition now, and its new row in the list of tables."""
    database, name = parse_table(table)
    with by.site() as site:
        look = look_at(site, Entity(database=database, table=name, partition=partition))
        (row,) = overview.table_rows(site, [look.seen])
        now = site.metastore.now_ms()
    condition = look.seen.condition
    health = None if condition is None else condition.health
    return {**considered_json(look.considered), "health": health, "row": row, "now": now}


@router.get("/plan")
@on_readers(PageWork.LOOK)
def read_plan(by: By, table: Name, partition: Partition = None, type: Choice = "") -> dict[str, Any]:
    """Returns what a compaction of a table or partition would read, write and take.

    The default type is the initiator's.

    For a partitioned table without a partition, returns only the number of its partitions.
    """
    with by.site() as site:
        entity = find_table(site.metastore.catalog, table)
        if entity.partition_keys and not partition:
            return {"partitions": len(site.metastore.catalog.partitions(entity)), "plan": None}
        (plan,) = preview(site, table, partition=partition or None, type=type or None)
        return {"partitions": 1, "plan": plan.to_json()}


@router.get("/queue")
@on_readers(PageWork.LIST)
def read_queue(by: By, find: Find = "", state: Choice = "", limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Returns the queue, oldest first."""
    with by.site() as site:
        return overview.queue_page(site, find=find, state=_parse_state(state), limit=limit, offset=offset).to_json()


@router.get("/blocked")
@on_readers(PageWork.LIST)
def read_blocked(by: By) -> dict[str, Any]:
    """Returns the transactions that block the cleaner, and what they block."""
    with by.site() as site:
        return {"rows": [holder.to_json() for holder in blocking_transactions(site)]}


@router.get("/history")
@on_readers(PageWork.LIST)
def read_history(by: By, find: Find = "", state: Choice = "", limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Returns the ended compactions, newest first."""
    only = _parse_state(state)
    states = None if only is None else (only,)
    with by.site() as site:
        return overview.history_page(site, find=find, states=states, limit=limit, offset=offset).to_json()


@router.get("/runs")
@on_readers(PageWork.LIST)
def read_runs(by: By) -> dict[str, Any]:
    """Returns the figures of our newest runs, for plots."""
    with by.site() as site:
        return {"rows": list(overview.newest_runs(site, _RUNS))}


@router.get("/settings")
@on_readers(PageWork.LIST)
def read_settings(by: By, table: Name = "") -> dict[str, Any]:
    """Returns every setting with its value and source, for one table if given, else for the metastore."""
    with by.site() as site:
        settings, overrides = site.settings, []
        if table.strip():
            entity = find_table(site.metastore.catalog, table)
            settings = site.settings_for(entity)
            if site.state is not None:
                overrides = site.state.overrides.of_table(site.name, entity.database, entity.name)
    return {
        "of_tables": [
            setting.key for setting in CATALOGUE.values() if setting.scope is Scope.TABLE and setting.honoured
        ],
        "overrides": [
            {"key": override.key, "value": override.value, "by": override.by, "at": override.at}
            for override in overrides
        ],
        "rows": [row.to_json() for row in show_settings(settings)],
        "spark_conf": dict(settings.spark_conf),
        "ignored": [{"property": key, "reason": reason} for key, reason in settings.without_effect],
    }


def _parse_state(label: str) -> State | None:
    """Returns the state with the given label of SHOW COMPACTIONS; None for no label.

    Raises:
        BadSetting: there is no such state.
    """
    if not label:
        return None
    for state in State:
        if state.label == label:
            return state
    raise BadSetting(f"state {label!r}: expected one of {', '.join(state.label for state in State)}")
