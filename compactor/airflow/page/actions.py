"""The actions of the page.

``action`` registers each, with the checks and the audit row that all of them need.

Airflow's login is a cookie that a browser sends from any site, so actions accept only requests of our own page. The
``action_logging`` of Airflow writes its row from the raw request, before anybody has parsed it: a body in another encoding
would act without a row, and a refused body could name another DAG in it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, TypeVar

from airflow._shared.timezones import timezone
from airflow.assets.manager import asset_manager
from airflow.models import Log
from airflow.models.asset import AssetModel
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, HTTPException, Path, Request, status
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from compactor.airflow.assets import requested
from compactor.airflow.configuration import dag_id
from compactor.airflow.page.access import ABORT, COMPACT, SEE, By, Requester, Right, requires
from compactor.airflow.page.readers import PageWork, on_readers
from compactor.airflow.page.request_bounds import PartitionName, PoolName, PropertyKey, PropertyValue, TableName, Word
from compactor.base.ids import TxnId
from compactor.base.redaction import redact_plain
from compactor.compaction.states import TERMINAL
from compactor.requests import overrides
from compactor.requests import pause as pauses
from compactor.requests.abort import abort_compaction, abort_transaction
from compactor.requests.no_op import must_do_something
from compactor.requests.request import Enqueued, RequestWords, request_again, request_as
from compactor.settings.setting import LARGEST

_Act = TypeVar("_Act", bound=Callable[..., dict[str, Any]])


def action(
    router: APIRouter, path: str, *, event: str, right: Right, work: PageWork = PageWork.ACT
) -> Callable[[_Act], _Act]:
    """Returns a decorator that makes a function an action, called by POST.

    The request must come from our page, in JSON, from somebody with ``right``, and parse. Then Airflow's audit log gets a
    row. Only then the function runs, on a thread for ``work``.

    The function takes the requester as ``by``; its other parameters are ids in the path, and the body.
    """

    def register(act: _Act) -> _Act:
        checks = [Depends(must_be_our_page), Depends(must_be_json), Depends(requires(right))]
        endpoint = on_readers(work)(_audit(event, act))
        router.add_api_route(path, endpoint, methods=["POST"], dependencies=checks)
        return act

    return register


def _audit(event: str, act: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @wraps(act)
    def run(**arguments: Any) -> dict[str, Any]:
        _write_row(event, arguments["by"], {name: value for name, value in arguments.items() if name != "by"})
        return act(**arguments)

    return run


def _write_row(event: str, by: Requester, arguments: Mapping[str, Any]) -> None:
    """Writes the audit row from the parsed arguments.

    It belongs to the DAG whose readers may see the metastore, so nobody else learns from it about the metastore.
    """
    dag = dag_id(SEE.dag, by.metastore)
    with create_session(scoped=False) as session:
        row = Log(
            event=event,
            owner=by.name,
            owner_display_name=by.name,
            dag_id=dag if session.get(DagModel, dag) is not None else None,
            extra=json.dumps(_describe(by, arguments)),
        )
        session.add(row)


def _describe(by: Requester, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments for the audit row, without secrets."""
    row: dict[str, Any] = {"metastore": by.metastore, "method": "POST"}
    for name, value in arguments.items():
        row |= value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else {name: str(value)}
    return dict(redact_plain(row))


HEADER = "X-Compactor"  #: neither a form nor a script of another origin can send it without permission
JSON = "application/json"


def must_be_our_page(request: Request) -> None:
    """Checks that the request has our header and that the browser does not attribute it to another origin.

    Raises:
        HTTPException: 403, the check fails.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    if HEADER not in request.headers or site != "same-origin":
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            f"This request did not come from the page itself (expected: header {HEADER} and the same origin); nothing was "
            "done.",
        )


def must_be_json(request: Request) -> None:
    """Checks that the request declares its body as JSON; parameters such as a charset do not matter.

    Raises:
        HTTPException: 415, it declares another type, or none.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise HTTPException(
            status.HTTP_415_UNSUPPORTED_MEDIA_TYPE,
            f"The content type of this request is {content_type[:100]!r} (expected: {JSON}); nothing was done.",
        )


log = logging.getLogger(__name__)


def announce_requests(metastore: str, entries: int) -> bool:
    """Creates an event of the asset that the worker's DAG waits for, as ``compact_table`` does.

    Without the asset, or if Airflow's database refuses the event, the worker finds the entries at its next interval.

    Returns:
        True if the event was created.
    """
    uri = requested(metastore).uri
    try:
        with create_session() as session:
            asset = session.scalar(select(AssetModel).where(AssetModel.uri == uri).limit(1))
            if asset is None:
                return False
            event = asset_manager.register_asset_change(
                asset=asset,
                timestamp=timezone.utcnow(),
                extra={"entries": entries},
                source_is_api=True,
                session=session,
            )
            return event is not None
    except SQLAlchemyError as error:
        log.warning("%s: no event, so the worker finds the requests at its next interval: %s", uri, error)
        return False


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
    """Queues a request, or one for each partition; refuses a request that would do nothing."""
    words = RequestWords(
        table=body.table,
        partition=body.partition or None,
        type=body.type,
        pool=body.pool or None,
        properties=body.properties,
    )
    with by.site() as site:
        must_do_something(site, words)
        requests = request_as(site, words)
    return _report_requests(by.metastore, requests)


@action(router, "/compactions/{entry_id}/cancel", event="compactor_cancel", right=COMPACT, work=PageWork.STOP)
def cancel(by: By, entry_id: Id) -> dict[str, Any]:
    """Removes a compaction from the queue, or stops our worker that runs it."""
    with by.site() as site:
        entry = abort_compaction(site, entry_id)
    ended = entry.state in TERMINAL
    result = "is cancelled" if ended else "is stopped; the next pass removes its staged files and ends its row"
    return {"message": f"Compaction {entry_id} of {entry.entity} {result}.", "state": entry.state.label}


@action(router, "/compactions/{entry_id}/retry", event="compactor_retry", right=COMPACT)
def retry(by: By, entry_id: Id) -> dict[str, Any]:
    """Repeats the request of a failed compaction."""
    with by.site() as site:
        request = request_again(site, entry_id)
    return _report_requests(by.metastore, [request])


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
            removed = overrides.remove_override(site, body.table, body.key)
            return {"message": f"{body.table}: the override {removed.key} = {removed.value} is removed."}
        stored = overrides.override(site, body.table, body.key, body.value, by.name)
    return {"message": f"{body.table}: {stored.key} is {stored.value}, whatever the table's properties say."}


@action(router, "/resume", event="compactor_resume", right=COMPACT)
def resume(by: By, body: TableBody) -> dict[str, Any]:
    """Resumes a table that was paused or failed too often, so that the initiator considers it again."""
    with by.site() as site:
        resumed = pauses.resume(site, body.table)
    if not resumed:
        return {"message": f"{body.table} is not paused and has no failure since its last success."}
    rows = sum(len(entity.forgotten) for entity in resumed)
    removed = f"; {rows} rows about failures were removed from the history" if rows else ""
    return {"message": f"The initiator considers {body.table} again at its next pass{removed}."}


@action(router, "/transactions/{txn}/abort", event="compactor_abort_transaction", right=ABORT, work=PageWork.STOP)
def abort(by: By, txn: Id) -> dict[str, Any]:
    """Aborts an open transaction; no reader sees its writes."""
    with by.site() as site:
        abort_transaction(site, TxnId(txn), f"aborted by {by.name} (Airflow)")
    return {"message": f"Transaction {txn} is aborted."}


def _report_requests(metastore: str, requests: Sequence[Enqueued]) -> dict[str, Any]:
    queued = [request for request in requests if request.entry_id is not None]
    is_announced = announce_requests(metastore, len(queued))
    refused = [request.refused for request in requests if request.refused is not None]
    which = f"{queued[0].entity} is queued as compaction {queued[0].entry_id}" if len(queued) == 1 else ""
    message = f"{which or f'{len(queued)} compactions are queued'}" + (
        f", {len(refused)} are refused" if refused else ""
    )
    when = "" if is_announced else "; the worker finds it at its next interval"
    return {"message": f"{message}{when}.", "results": [request.to_json() for request in requests]}
