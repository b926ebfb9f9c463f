"""The actions of the page. Each must come from our page and be allowed, and is logged in Airflow's audit log first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field

from compactor.airflow.hooks import CompactorHook
from compactor.airflow.page.access import may_abort, may_compact, metastore_of
from compactor.airflow.page.same_origin import from_our_page
from compactor.airflow.page.worker_event import announce
from compactor.compaction.states import TERMINAL
from compactor.ids import TxnId
from compactor.service.requests import overrides
from compactor.service.requests import pause as pauses
from compactor.service.requests.abort import abort_compaction, abort_transaction
from compactor.service.requests.request import Enqueued, parse_table, request_again, request_compaction

router = APIRouter()
Metastore = Annotated[str, Depends(metastore_of)]
Id = Annotated[int, Path(ge=1)]


def _guards(event: str, allowed: Callable[..., None]) -> Sequence[Any]:
    """Returns the checks, in this order: requests of another origin are refused before anything is revealed or logged."""
    return [Depends(from_our_page), Depends(allowed), Depends(action_logging(event))]


class CompactBody(BaseModel):
    """The parameters of ``ALTER TABLE ... COMPACT``."""

    model_config = ConfigDict(extra="forbid")

    table: str = Field(max_length=400)
    partition: str | None = Field(default=None, max_length=767)
    type: str = "major"
    pool: str | None = Field(default=None, max_length=128)
    properties: dict[str, str] = Field(default_factory=dict)


class TableBody(BaseModel):
    """The name of a table."""

    model_config = ConfigDict(extra="forbid")

    table: str = Field(max_length=400)


@router.post("/compact", dependencies=_guards("compactor_compact", may_compact))
def compact(metastore: Metastore, body: CompactBody) -> dict[str, Any]:
    """Queues a request; for a partitioned table without a partition, one for each partition."""
    with CompactorHook(metastore).get_conn() as site:
        done = request_compaction(
            site,
            table=body.table,
            partition=body.partition or None,
            type=body.type,
            pool=body.pool or None,
            properties=body.properties,
        )
    return _enqueued(metastore, done)


@router.post("/compactions/{entry_id}/cancel", dependencies=_guards("compactor_cancel", may_compact))
def cancel(metastore: Metastore, entry_id: Id) -> dict[str, Any]:
    """Takes a compaction off the queue, or stops our worker that runs it."""
    with CompactorHook(metastore).get_conn() as site:
        entry = abort_compaction(site, entry_id)
    ended = entry.state in TERMINAL
    result = "is cancelled" if ended else "is stopped; its row ends when the next pass has removed its staged files"
    return {"message": f"Compaction {entry_id} of {entry.entity} {result}.", "state": entry.state.label}


@router.post("/compactions/{entry_id}/retry", dependencies=_guards("compactor_retry", may_compact))
def retry(metastore: Metastore, entry_id: Id) -> dict[str, Any]:
    """Repeats the request of a failed compaction."""
    with CompactorHook(metastore).get_conn() as site:
        done = request_again(site, entry_id)
    return _enqueued(metastore, [done])


class OverrideBody(TableBody):
    """An override of a table's setting; without a value the override is removed."""

    key: str = Field(max_length=128)
    value: str | None = Field(default=None, max_length=4000)


@router.post("/pause", dependencies=_guards("compactor_pause", may_compact))
def pause(metastore: Metastore, body: TableBody, user: GetUserDep) -> dict[str, Any]:
    """Pauses a table: the initiator skips it until somebody resumes it."""
    with CompactorHook(metastore).get_conn() as site:
        pauses.pause(site, body.table, user.get_name())
    return {"message": f"{body.table} is paused; the initiator skips it until somebody resumes it."}


@router.post("/override", dependencies=_guards("compactor_override", may_compact))
def override(metastore: Metastore, body: OverrideBody, user: GetUserDep) -> dict[str, Any]:
    """Overrides a setting of a table in our own state, or removes the override."""
    with CompactorHook(metastore).get_conn() as site:
        if body.value is None:
            gone = overrides.remove_override(site, body.table, body.key)
            return {"message": f"{body.table}: the override {gone.key} = {gone.value} is removed."}
        made = overrides.override(site, body.table, body.key, body.value, user.get_name())
    return {"message": f"{body.table}: {made.key} is {made.value}, whatever the table's properties say."}


@router.post("/resume", dependencies=_guards("compactor_resume", may_compact))
def resume(metastore: Metastore, body: TableBody) -> dict[str, Any]:
    """Resumes a table that was paused or failed too often, so that the initiator considers it again."""
    with CompactorHook(metastore).get_conn() as site:
        done = pauses.resume(site, *parse_table(body.table))
    if not done:
        return {"message": f"{body.table} is not paused and has no failure since its last success."}
    rows = sum(len(one.forgotten) for one in done)
    removed = f"; {rows} rows about failures were removed from the history" if rows else ""
    return {"message": f"The initiator considers {body.table} again at its next pass{removed}."}


@router.post("/transactions/{txn}/abort", dependencies=_guards("compactor_abort_transaction", may_abort))
def abort(metastore: Metastore, txn: Id, user: GetUserDep) -> dict[str, Any]:
    """Aborts an open transaction; no reader sees its writes."""
    with CompactorHook(metastore).get_conn() as site:
        abort_transaction(site, TxnId(txn), f"aborted by {user.get_name()} (Airflow)")
    return {"message": f"Transaction {txn} is aborted."}


def _enqueued(metastore: str, done: Sequence[Enqueued]) -> dict[str, Any]:
    taken = [one for one in done if one.entry_id is not None]
    announced = announce(metastore, len(taken))
    refused = [one.refused for one in done if one.refused is not None]
    which = f"{taken[0].entity} is queued as compaction {taken[0].entry_id}" if len(taken) == 1 else ""
    message = f"{which or f'{len(taken)} compactions are queued'}" + (
        f", {len(refused)} are refused" if refused else ""
    )
    soon = "" if announced else "; the worker finds it at its next interval"
    return {"message": f"{message}{soon}.", "results": [one.to_json() for one in done]}
