"""The rights to see and to act, derived from Airflow's rights on the DAGs of the metastore."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import HTTPException, Request, status

from compactor.airflow.configuration import dag_id, metastore_names


def metastore_of(request: Request) -> str:
    """Returns the metastore in the route.

    Raises:
        HTTPException: 404, Airflow's configuration does not name it.
    """
    name = str(request.path_params["metastore"])
    if name not in metastore_names():
        raise HTTPException(
            status.HTTP_404_NOT_FOUND,
            f"There is no metastore {name!r}; [compactor] metastores has {', '.join(metastore_names())}.",
        )
    return name


def may_see(request: Request, user: GetUserDep) -> None:
    """Requires the right to see the DAG that compacts this metastore."""
    requires_access_dag("GET", None, dag_id("compaction_worker", metastore_of(request)))(request, user)


def may_see_any(request: Request, user: GetUserDep) -> None:
    """Requires the right to see any metastore's DAG, for content that is the same for all metastores."""
    refused: HTTPException | None = None
    for name in metastore_names():
        try:
            requires_access_dag("GET", None, dag_id("compaction_worker", name))(request, user)
        except HTTPException as error:
            refused = error
        else:
            return
    raise refused or HTTPException(status.HTTP_403_FORBIDDEN)


def may_compact(request: Request, user: GetUserDep) -> None:
    """Requires the right to trigger ``compact_table``."""
    requires_access_dag("POST", DagAccessEntity.RUN, dag_id("compact_table", metastore_of(request)))(request, user)


def may_abort(request: Request, user: GetUserDep) -> None:
    """Requires the right to change ``acid_housekeeper``, which also aborts transactions of any user."""
    requires_access_dag("PUT", None, dag_id("acid_housekeeper", metastore_of(request)))(request, user)


def rights(request: Request, user: GetUserDep) -> dict[str, bool]:
    """Returns the user's rights, so that the page offers nothing else; each action checks them again."""
    found = {}
    for what, check in (("compact", may_compact), ("abort", may_abort)):
        try:
            check(request, user)
        except HTTPException:
            found[what] = False
        else:
            found[what] = True
    return found
