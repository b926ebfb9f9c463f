"""The actions of the page. Each is registered by ``action``, which sees to what all of them need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from compactor.airflow.page.access import ABORT, COMPACT, By
from compactor.airflow.page.action import action
from compactor.airflow.page.readers import PageWork
from compactor.airflow.page.request_bounds import PartitionName, PoolName, PropertyKey, PropertyValue, TableName, Word
from compactor.airflow.page.worker_event import announce
from compactor.base.ids import TxnId
from compactor.compaction.states import TERMINAL
from compactor.requests import overrides
from compactor.requests import pause as pauses
from compactor.requests.abort import abort_compaction, abort_transaction
from compactor.requests.no_op import must_do_something
from compactor.requests.request import Enqueued, RequestWords, request_again, request_as
from compactor.settings.setting import LARGEST

router = APIRouter()
Id = Annotated[int, Path(ge=1, le=LARGEST)]


class CompactBody(BaseModel):
    """The parameters of ``ALTER TABLE ... COMPACT``."""

    model_config = ConfigDict(extra="forbid")

    table: TableName
    partition: PartitionName | None = None
    type: Word = "major"
    pool: PoolName | None = None
    properties: dict[PropertyKey, PropertyValue] = Field(default_factory=dict, max_length=50)


class TableBody(BaseModel):
    """The name of a table."""

    model_config = ConfigDict(extra="forbid")

    table: TableName


@action(router, "/compact", event="compactor_compact", right=COMPACT)
def compact(by: By, body: CompactBody) -> dict[str, Any]:
    """Queues a request; for a partitioned table without a partition, one for each partition. One that would do nothing is
    refused."""
    words = RequestWords(
        table=body.table,
        partition=body.partition or None,
        type=body.type,
        pool=body.pool or None,
        properties=body.properties,
    )
    with by.site() as site:
        must_do_something(site, words)
        done = request_as(site, words)
    return _enqueued(by.metastore, done)


@action(router, "/compactions/{entry_id}/cancel", event="compactor_cancel", right=COMPACT, work=PageWork.STOP)
def cancel(by: By, entry_id: Id) -> dict[str, Any]:
    """Takes a compaction off the queue, or stops our worker that runs it."""
    with by.site() as site:
        entry = abort_compaction(site, entry_id)
    ended = entry.state in TERMINAL
    result = "is cancelled" if ended else "is stopped; its row ends when the next pass has removed its staged files"
    return {"message": f"Compaction {entry_id} of {entry.entity} {result}.", "state": entry.state.label}


@action(router, "/compactions/{entry_id}/retry", event="compactor_retry", right=COMPACT)
def retry(by: By, entry_id: Id) -> dict[str, Any]:
    """Repeats the request of a failed compaction."""
    with by.site() as site:
        done = request_again(site, entry_id)
    return _enqueued(by.metastore, [done])


class OverrideBody(TableBody):
    """An override of a table's setting; without a value the override is removed."""

    key: PropertyKey
    value: PropertyValue | None = None


@action(router, "/pause", event="compactor_pause", right=COMPACT, work=PageWork.STOP)
def pause(by: By, body: TableBody) -> dict[str, Any]:
    """Pauses a table: the initiator skips it until somebody resumes it."""
    with by.site() as site:
        pauses.pause(site, body.table, by.name)
    return {"message": f"{body.table} is paused; the initiator skips it until somebody resumes it."}


@action(router, "/override", event="compactor_override", right=COMPACT)
def override(by: By, body: OverrideBody) -> dict[str, Any]:
    """Overrides a setting of a table in our own state, or removes the override."""
    with by.site() as site:
        if body.value is None:
            gone = overrides.remove_override(site, body.table, body.key)
            return {"message": f"{body.table}: the override {gone.key} = {gone.value} is removed."}
        made = overrides.override(site, body.table, body.key, body.value, by.name)
    return {"message": f"{body.table}: {made.key} is {made.value}, whatever the table's properties say."}


@action(router, "/resume", event="compactor_resume", right=COMPACT)
def resume(by: By, body: TableBody) -> dict[str, Any]:
    """Resumes a table that was paused or failed too often, so that the initiator considers it again."""
    with by.site() as site:
        done = pauses.resume(site, body.table)
    if not done:
        return {"message": f"{body.table} is not paused and has no failure since its last success."}
    rows = sum(len(one.forgotten) for one in done)
    removed = f"; {rows} rows about failures were removed from the history" if rows else ""
    return {"message": f"The initiator considers {body.table} again at its next pass{removed}."}


@action(router, "/transactions/{txn}/abort", event="compactor_abort_transaction", right=ABORT, work=PageWork.STOP)
def abort(by: By, txn: Id) -> dict[str, Any]:
    """Aborts an open transaction; no reader sees its writes."""
    with by.site() as site:
        abort_transaction(site, TxnId(txn), f"aborted by {by.name} (Airflow)")
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
