"""Every route of the page, and for each action a request that is understood; a new action needs one here."""

from __future__ import annotations

from typing import Any

TABLE = "default.t"
#: Path below the API of a metastore -> the event in the log, the DAG and the right, and a body.
ACTIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "compact": ("compactor_compact", "trigger the DAG compact_table", {"table": TABLE, "type": "minor"}),
    "compactions/{entry_id}/cancel": ("compactor_cancel", "trigger the DAG compact_table", {}),
    "compactions/{entry_id}/retry": ("compactor_retry", "trigger the DAG compact_table", {}),
    "override": (
        "compactor_override",
        "trigger the DAG compact_table",
        {"table": TABLE, "key": "hive.compactor.delta.num.threshold", "value": "7"},
    ),
    "pause": ("compactor_pause", "trigger the DAG compact_table", {"table": TABLE}),
    "resume": ("compactor_resume", "trigger the DAG compact_table", {"table": TABLE}),
    "transactions/{txn}/abort": ("compactor_abort_transaction", "edit the DAG acid_housekeeper", {}),
}
API = "/{metastore}/api/"
#: Where programs with a token post, who have no login; ``tests/unit/airflow/page/test_read_events_endpoint.py`` has
#: their rights.
BY_TOKEN = ("reads",)


def routes() -> list[Any]:
    """Returns every route of the application."""
    # here, since importing Airflow while tests are collected warns of what its libraries do among themselves
    from fastapi.routing import APIRoute

    from compactor.airflow.page.app import build

    return [route for route in build().routes if isinstance(route, APIRoute)]


def changing() -> list[str]:
    """Returns the paths of whatever is asked for otherwise than by GET, below the API of a metastore."""
    found = (route.path.removeprefix(API) for route in routes() if (route.methods or set()) - {"GET", "HEAD"})
    return sorted(path for path in found if path not in BY_TOKEN)


def reading() -> list[str]:
    """Returns the paths of what is read below the API of a metastore."""
    return sorted(
        route.path.removeprefix(API)
        for route in routes()
        if "GET" in (route.methods or set()) and route.path.startswith(API)
    )


def filled(path: str, number: object = 1) -> str:
    """Returns ``path`` with ``number`` for each id."""
    for name in ("entry_id", "txn"):
        path = path.replace("{" + name + "}", str(number))
    return path
