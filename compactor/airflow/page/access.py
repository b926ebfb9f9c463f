"""The rights to see and to act, derived from Airflow's rights on the DAGs of the metastore.

For people who may not see a metastore, it does not exist: no answer names it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, HTTPException, Request, status

from compactor.airflow.configuration import dag_id, metastore_names
from compactor.airflow.hooks import CompactorHook
from compactor.site.deployment import Configuration, open_site
from compactor.site.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A right on one of a metastore's DAGs, in the words of messages and in Airflow's."""

    to: str
    dag: str
    method: str
    entity: Any = None

    def on(self, metastore: str) -> str:
        """Returns the right in words, with the DAG that it is on."""
        return f"{self.to} the DAG {dag_id(self.dag, metastore)}"


SEE = Right(to="read", dag="compaction_worker", method="GET")
COMPACT = Right(to="trigger", dag="compact_table", method="POST", entity=DagAccessEntity.RUN)
ABORT = Right(to="edit", dag="acid_housekeeper", method="PUT")  #: also transactions of any user


def has(right: Right, metastore: str, request: Request, user: Any) -> bool:
    """Tells whether Airflow's auth manager gives the user this right."""
    try:
        requires_access_dag(right.method, right.entity, dag_id(right.dag, metastore))(request, user)
    except HTTPException as error:
        if error.status_code != status.HTTP_403_FORBIDDEN:
            raise
        return False
    return True


def list_visible(request: Request, user: GetUserDep) -> tuple[str, ...]:
    """Returns the metastores that the user may see, in the configured order.

    Raises:
        HTTPException: 403, the user may see none.
    """
    visible = tuple(name for name in metastore_names() if has(SEE, name, request, user))
    if not visible:
        raise _deny(f"{SEE.to} the DAG {SEE.dag} of any metastore")
    return visible


def may_see(request: Request, user: GetUserDep) -> str:
    """Returns the metastore in the route, which the user may see.

    Raises:
        HTTPException: 403, the right is missing or there is no such metastore; 404, there is none, for somebody who may see
            all metastores.
    """
    name, names = str(request.path_params["metastore"]), metastore_names()
    if name in names and has(SEE, name, request, user):
        return name
    if name in names or not all(has(SEE, other, request, user) for other in names):
        raise _deny(SEE.on(name))
    raise HTTPException(
        status.HTTP_404_NOT_FOUND,
        f"There is no metastore {name!r}; [compactor] metastores has {', '.join(names)}.",
    )


Metastore = Annotated[str, Depends(may_see)]


def requires(right: Right) -> Callable[..., None]:
    """Returns a check that the user may see the route's metastore, and has ``right`` in it."""

    def check(metastore: Metastore, request: Request, user: GetUserDep) -> None:
        if not has(right, metastore, request, user):
            raise _deny(right.on(metastore))

    return check


def _deny(right: str) -> HTTPException:
    return HTTPException(
        status.HTTP_403_FORBIDDEN,
        f"Your role in Airflow does not allow this. It lacks the right to {right}; ask your Airflow administrator for it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The user who makes a request, and the metastore of the request with its configuration."""

    metastore: str
    request: Request
    user: Any
    configuration: Configuration

    @property
    def name(self) -> str:
        return str(self.user.get_name())

    def site(self) -> AbstractContextManager[Site]:
        """Opens the metastore."""
        return open_site(self.configuration)

    def rights(self) -> dict[str, bool]:
        """Returns the user's rights, by which the page offers actions; each action checks them again."""
        return {
            what: has(right, self.metastore, self.request, self.user)
            for what, right in (("compact", COMPACT), ("abort", ABORT))
        }

    def metastores(self) -> tuple[str, ...]:
        """Returns the metastores that the user may choose."""
        return list_visible(self.request, self.user)


def _find_requester(metastore: Metastore, request: Request, user: GetUserDep) -> Requester:
    configuration = CompactorHook(metastore).configuration()
    return Requester(metastore=metastore, request=request, user=user, configuration=configuration)


By = Annotated[Requester, Depends(_find_requester)]
