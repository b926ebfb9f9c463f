"""The checks and the audit row that every action of the page goes through first, in one place, so that none can forget one.

Airflow's own ``action_logging`` makes its row from the raw request before it is understood: a body in another guise was
carried out without one, and a refused body could name another DAG in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from airflow.models import Log
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends
from pydantic import BaseModel

from compactor.airflow.configuration import dag_id
from compactor.airflow.page.access import SEE, Asker, Right, requires
from compactor.airflow.page.readers import PageWork, on_readers
from compactor.airflow.page.same_origin import from_our_page, must_be_json
from compactor.base.redaction import redact_plain

_Act = TypeVar("_Act", bound=Callable[..., dict[str, Any]])


def action(
    router: APIRouter, path: str, *, event: str, right: Right, work: PageWork = PageWork.ACT
) -> Callable[[_Act], _Act]:
    """Returns a decorator that makes a function an action, called by POST: it must be asked for by our page, in JSON, by
    somebody with ``right``, and understood. Then Airflow's audit log gets a row, and only then it is carried out, on a
    thread for ``work``.

    The function takes the asker as ``by``; its other parameters are ids in the path, and the body.
    """

    def register(act: _Act) -> _Act:
        checks = [Depends(from_our_page), Depends(must_be_json), Depends(requires(right))]
        endpoint = on_readers(work)(_audited(event, act))
        router.add_api_route(path, endpoint, methods=["POST"], dependencies=checks)
        return act

    return register


def _audited(event: str, act: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @wraps(act)
    def acting(**given: Any) -> dict[str, Any]:
        _log(event, given["by"], {name: value for name, value in given.items() if name != "by"})
        return act(**given)

    return acting


def _log(event: str, by: Asker, given: Mapping[str, Any]) -> None:
    """Writes the row, from what was understood. It belongs to the DAG by which people see the metastore, so that nobody else
    reads in it what the metastore holds."""
    dag = dag_id(SEE.dag, by.metastore)
    with create_session(scoped=False) as session:
        row = Log(
            event=event,
            owner=by.name,
            owner_display_name=by.name,
            dag_id=dag if session.get(DagModel, dag) is not None else None,
            extra=json.dumps(_said(by, given)),
        )
        session.add(row)


def _said(by: Asker, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the object of the action as the row names it, without secrets."""
    said: dict[str, Any] = {"metastore": by.metastore, "method": "POST"}
    for name, value in given.items():
        said |= value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else {name: str(value)}
    return dict(redact_plain(said))
