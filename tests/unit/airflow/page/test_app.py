from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from compactor.airflow.page import actions, queries
from tests.unit.airflow.page.conftest import STATIC, VIEWS, Caller


def test_the_plugin_is_listed_with_its_entry_in_the_navigation(client: Caller) -> None:
    """One bad view would hide the whole plugin."""
    plugins = {p["name"]: p for p in client("admin").get("/api/v2/plugins").json()["plugins"]}
    (view,) = plugins["compactor"]["external_views"]
    assert (view["destination"], view["href"], view["url_route"]) == ("nav", "/compactor/", "compactor")
    assert [app["url_prefix"] for app in plugins["compactor"]["fastapi_apps"]] == ["/compactor"]


def test_who_comes_is_led_to_the_overview_of_the_first_metastore(
    client: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = client("viewer").get("/compactor/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "default/overview")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", "archive,default")
    assert client("viewer").get("/compactor/", follow_redirects=False).headers["location"] == "archive/overview"


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_the_same_file_that_nothing_may_be_added_to(client: Caller, view: str) -> None:
    answer = client("viewer").get(f"/compactor/default/{view}")
    assert answer.text == (STATIC / "index.html").read_text("utf-8")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_file_that_a_view_names_is_there_and_comes_from_here(client: Caller) -> None:
    viewer = client("viewer")
    for path in STATIC.iterdir():
        if path.suffix in (".js", ".css", ".svg"):
            answer = viewer.get(f"/compactor/.static/{path.name}")
            assert answer.status_code == 200, path
            assert answer.text == path.read_text("utf-8")
        if path.suffix in (".js", ".css", ".html") and path.stem != "uplot":
            assert re.search(r"https?://|@import|url\(", path.read_text("utf-8")) is None, path


@pytest.mark.parametrize(
    "path", [".static/uplot.LICENSE", ".static/app.py", ".static/..%2fapp.py", "default/nothing", "default/"]
)
def test_nothing_else_is_served(client: Caller, path: str) -> None:
    assert client("admin").get(f"/compactor/{path}").status_code == 404


@pytest.mark.parametrize(
    "path", ["", "default/tables", ".static/page.js", "default/api/tables", "default/api/overview"]
)
def test_nobody_sees_nothing(client: Caller, path: str) -> None:
    answer = client(None).get(f"/compactor/{path}", follow_redirects=False)
    assert answer.status_code == 401
    assert answer.json() == {
        "detail": "You are not logged in to Airflow, or your login has ended. Log in and try again."
    }


@pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json"])
def test_it_does_not_describe_itself(client: Caller, path: str) -> None:
    assert client("admin").get(f"/compactor/{path}").status_code == 404


def test_what_breaks_is_told_without_its_insides(client: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    from compactor.answers import overview

    def broken(*given: Any, **more: Any) -> None:
        raise RuntimeError("secret://user:password")

    monkeypatch.setattr(overview, "newest_runs", broken)
    answer = client("viewer").get("/compactor/default/api/runs")
    assert answer.status_code == 500
    assert answer.json() == {"detail": "An internal error occurred; the log of Airflow's api-server has the details."}


def test_a_database_that_is_away_is_told(client: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", "/nowhere.toml")
    answer = client("viewer").get("/compactor/default/api/overview")
    assert answer.status_code == 400
    assert "/nowhere.toml: cannot be read" in answer.json()["detail"]


def test_the_document_has_each_path_of_the_interface() -> None:
    text = (Path(__file__).parents[4] / "docs" / "http-api.md").read_text("utf-8")
    reads, acts = text.partition("## Act")[::2]
    documented = (
        set(re.findall(r"^\| `(\w+)` \|", reads, re.MULTILINE)),
        set(re.findall(r"`([a-z]+(?:/\{\w+\}/[a-z]+)?)`", acts)),
    )
    assert documented == (_paths("GET"), _paths("POST"))


def _paths(method: str) -> set[str]:
    found = (route for router in (queries.router, actions.router) for route in router.routes)
    return {route.path[1:] for route in found if isinstance(route, APIRoute) and method in route.methods}
