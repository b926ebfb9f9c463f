"""The plugin, an entry point that every component of Airflow imports, so importing it does no work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from compactor.airflow.configuration import below_airflow
from compactor.airflow.options import PREFIX

_App = Callable[[Any, Any, Any], Awaitable[None]]


class LazyPage:
    """The page, built at its first request: only the API server gets requests."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> _App:
        from compactor.airflow.page.app import build

        return build()


class CompactorPlugin(AirflowPlugin):
    """The page, and its entry in Airflow's navigation."""

    name = "compactor"
    fastapi_apps: ClassVar[list[dict[str, Any]]] = [{"app": LazyPage(), "url_prefix": PREFIX, "name": "Compactor"}]
    external_views: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Compactor",
            "href": below_airflow(f"{PREFIX}/"),
            "destination": "nav",
            "url_route": "compactor",
            "nav_top_level": True,
            "icon": below_airflow(f"{PREFIX}/.static/icon.svg"),
        }
    ]
