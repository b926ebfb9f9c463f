"""What may be done from the page. Each action comes from our page, is allowed, and is in Airflow's audit log first."""

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
from compactor.service.requests.abort import abort_compaction, abort_transaction
from compactor.service.requests.overrides import override, remove_override
from compactor.service.requests.pause import pause, resume
from compactor.service.requests.request import Enqueued, parse_table, request_again, request_compaction

router = APIRouter()
Metastore = Annotated[str, Depends(metastore_of)]
Id = Annotated[int, Path(ge=1)]


def _guards(event: str, allowed: Callable[..., None]) -> Sequence[Any]:
    """In this order: what another origin asks for is refused before anything is told or logged."""
    return [Depends(from_our_page), Depends(allowed), Depends(action_logging(event))]


class CompactBody(BaseModel):
    """``ALTER TABLE ... COMPACT``."""

    model_config = ConfigDict(extra="forbid")

    table: str = Field(max_length=400)
    partition: str | None = Field(default=None, max_length=767)
    type: str = "major"
    pool: str | None = Field(default=None, max_length=128)
    properties: dict[str, str] = Field(default_factory=dict)


class TableBody(BaseModel):
    """A table."""

    model_config = ConfigDict(extra="forbid")

    table: str = Field(max_length=400)


@router.post("/compact", dependencies=_guards("compactor_compact", may_compact))
def compact(metastore: Metastore, body: CompactBody) -> dict[str, Any]:
    """Puts a request into the queue; of a partitioned table without a partition one for each."""
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
    """Takes a compaction off the queue, or stops the worker of ours that has it."""
    with CompactorHook(metastore).get_conn() as site:
        entry = abort_compaction(site, entry_id)
    ended = entry.state in TERMINAL
    told = "is cancelled" if ended else "is stopped; its row ends when what it staged is removed, by the next pass"
    return {"message": f"Compaction {entry_id} of {entry.entity} {told}.", "state": entry.state.label}


@router.post("/compactions/{entry_id}/retry", dependencies=_guards("compactor_retry", may_compact))
def retry(metastore: Metastore, entry_id: Id) -> dict[str, Any]:
    """Asks once more for what a compaction that failed was asked for."""
    with CompactorHook(metastore).get_conn() as site:
        done = request_again(site, entry_id)
    return _enqueued(metastore, [done])


class OverrideBody(TableBody):
    """A setting of a table; without a value its override is removed."""

    key: str = Field(max_length=128)
    value: str | None = Field(default=None, max_length=4000)


@router.post("/pause", dependencies=_guards("compactor_pause", may_compact))
def keep_the_initiator_away(metastore: Metastore, body: TableBody, user: GetUserDep) -> dict[str, Any]:
    """The initiator asks for nothing of a table until somebody resumes it."""
    with CompactorHook(metastore).get_conn() as site:
        pause(site, body.table, user.get_name())
    return {"message": f"{body.table} is paused; the initiator leaves it alone until somebody resumes it."}


@router.post("/override", dependencies=_guards("compactor_override", may_compact))
def say_otherwise(metastore: Metastore, body: OverrideBody, user: GetUserDep) -> dict[str, Any]:
    """Keeps a setting of a table in our own state, over the table's properties, or forgets it."""
    with CompactorHook(metastore).get_conn() as site:
        if body.value is None:
            gone = remove_override(site, body.table, body.key)
            return {"message": f"{body.table}: the override {gone.key} = {gone.value} is removed."}
        made = override(site, body.table, body.key, body.value, user.get_name())
    return {"message": f"{body.table}: {made.key} is {made.value}, whatever the table's properties say."}


@router.post("/resume", dependencies=_guards("compactor_resume", may_compact))
def let_it_be_considered(metastore: Metastore, body: TableBody) -> dict[str, Any]:
    """Lets the initiator consider a table again that was paused, or failed too often."""
    with CompactorHook(metastore).get_conn() as site:
        done = resume(site, *parse_table(body.table))
    if not done:
        return {"message": f"{body.table} is not paused and has no failure since its last success."}
    rows = sum(len(one.forgotten) for one in done)
    left = f"; {rows} rows about failures left the history" if rows else ""
    return {"message": f"{body.table} is considered again at the initiator's next look{left}."}


@router.post("/transactions/{txn}/abort", dependencies=_guards("compactor_abort_transaction", may_abort))
def abort(metastore: Metastore, txn: Id, user: GetUserDep) -> dict[str, Any]:
    """Aborts an open transaction; what it wrote is never seen."""
    with CompactorHook(metastore).get_conn() as site:
        abort_transaction(site, TxnId(txn), f"aborted by {user.get_name()} (Airflow)")
    return {"message": f"Transaction {txn} is aborted."}


def _enqueued(metastore: str, done: Sequence[Enqueued]) -> dict[str, Any]:
    taken = [one for one in done if one.entry_id is not None]
    told = announce(metastore, len(taken))
    refused = [one.refused for one in done if one.refused is not None]
    which = f"{taken[0].entity} is queued as compaction {taken[0].entry_id}" if len(taken) == 1 else ""
    message = f"{which or f'{len(taken)} compactions are queued'}" + (
        f", {len(refused)} are refused" if refused else ""
    )
    soon = "" if told else "; the worker finds it at its next interval"
    return {"message": f"{message}{soon}.", "results": [one.to_json() for one in done]}
