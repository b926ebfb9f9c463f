"""The queries of the page. They write nothing, and only ``explain`` lists a table's directory."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Query, Request

from compactor.airflow.configuration import dag_id, metastore_names
from compactor.airflow.hooks import CompactorHook
from compactor.airflow.page.access import may_see, metastore_of, rights
from compactor.compaction.entry import Entity
from compactor.compaction.health import Condition
from compactor.compaction.states import State
from compactor.errors import BadSetting
from compactor.service.answers import overview
from compactor.service.answers.explain import considered_json
from compactor.service.answers.show import show_settings
from compactor.service.memory import sentences_about
from compactor.service.mode import mode_of
from compactor.service.requests.request import parse_table
from compactor.service.roles.blockers import blocking_transactions
from compactor.service.roles.initiator import consider_now
from compactor.settings.catalogue import CATALOGUE
from compactor.settings.setting import Scope

_DAGS = ("compaction_initiator", "compaction_worker", "compaction_cleaner", "acid_housekeeper", "compact_table")
_RUNS = 300  #: points of a plot

router = APIRouter(dependencies=[Depends(may_see)])
Metastore = Annotated[str, Depends(metastore_of)]
Find = Annotated[str, Query(max_length=1000)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0)]


@router.get("/overview")
def read_overview(metastore: Metastore, request: Request, user: GetUserDep) -> dict[str, Any]:
    """Returns the data shown above every view."""
    with CompactorHook(metastore).get_conn() as site:
        state = site.state
        return {
            "metastore": metastore,
            "metastores": list(metastore_names()),
            "mode": mode_of(site.settings).name.lower(),
            "mode_source": site.settings.source("compactor.mode"),
            "remembers": state is not None,
            "doubt": list(sentences_about(site)),
            "outcomes": {} if state is None else state.conditions.outcomes(site.name),
            "looked_at": None if state is None else state.conditions.newest(site.name),
            "now": site.metastore.now_ms(),
            "queue": {found.label: n for found, n in site.metastore.compaction_lists.states().items()},
            "dags": {name: dag_id(name, metastore) for name in _DAGS},
            "user": user.get_name(),
            "rights": rights(request, user),
        }


@router.get("/tables")
def read_tables(
    metastore: Metastore,
    find: Find = "",
    outcome: str = "",
    order: str = "health",
    descending: bool = False,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Returns tables and partitions as the initiator last saw them."""
    with CompactorHook(metastore).get_conn() as site:
        return overview.tables_page(
            site, find=find, outcome=outcome, order=order, descending=descending, limit=limit, offset=offset
        ).to_json()


@router.get("/explain")
def explain(metastore: Metastore, table: str, partition: str | None = None) -> dict[str, Any]:
    """Returns what would happen to one table or partition now; lists its directory."""
    database, name = parse_table(table)
    with CompactorHook(metastore).get_conn() as site:
        considered = consider_now(site, Entity(database=database, table=name, partition=partition))
    decision = considered.decision
    condition = None if decision is None else Condition.of(decision.numbers)
    return {**considered_json(considered), "health": None if condition is None else condition.health}


@router.get("/queue")
def read_queue(
    metastore: Metastore, find: Find = "", state: str = "", limit: Limit = 50, offset: Offset = 0
) -> dict[str, Any]:
    """Returns the queue, oldest first."""
    wanted = _state(state)
    with CompactorHook(metastore).get_conn() as site:
        return overview.queue_page(site, find=find, state=wanted, limit=limit, offset=offset).to_json()


@router.get("/blocked")
def read_blocked(metastore: Metastore) -> dict[str, Any]:
    """Returns the transactions that block the cleaner, and what they block."""
    with CompactorHook(metastore).get_conn() as site:
        return {"rows": [holder.to_json() for holder in blocking_transactions(site)]}


@router.get("/history")
def read_history(
    metastore: Metastore, find: Find = "", state: str = "", limit: Limit = 50, offset: Offset = 0
) -> dict[str, Any]:
    """Returns the ended compactions, newest first."""
    wanted = _state(state)
    states = None if wanted is None else (wanted,)
    with CompactorHook(metastore).get_conn() as site:
        return overview.history_page(site, find=find, states=states, limit=limit, offset=offset).to_json()


@router.get("/runs")
def read_runs(metastore: Metastore) -> dict[str, Any]:
    """Returns the figures of our newest runs, for plots."""
    with CompactorHook(metastore).get_conn() as site:
        return {"rows": list(overview.newest_runs(site, _RUNS))}


@router.get("/settings")
def read_settings(metastore: Metastore, table: str = "") -> dict[str, Any]:
    """Returns every setting with its value and source, for one table if given, else for the metastore."""
    with CompactorHook(metastore).get_conn() as site:
        settings, kept = site.settings, []
        if table.strip():
            found = site.metastore.catalog.table(*parse_table(table))
            settings = site.settings_for(found)
            if site.state is not None:
                kept = site.state.overrides.of_table(site.name, found.database, found.name)
    return {
        "of_tables": [
            setting.key for setting in CATALOGUE.values() if setting.scope is Scope.TABLE and setting.honoured
        ],
        "overrides": [{"key": one.key, "value": one.value, "by": one.by, "at": one.at} for one in kept],
        "rows": [row.to_json() for row in show_settings(settings)],
        "spark_conf": dict(settings.spark_conf),
        "ignored": [{"property": key, "reason": reason} for key, reason in settings.ignored],
    }


def _state(label: str) -> State | None:
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
