"""Numbers that no database can hold are refused wherever they come, and never break anything."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.security.page.conftest import JSON, OURS, PAGE, Server
from tests.security.page.routes import ACTIONS, filled, routes
from tests.support.tables import make_table

TEXTS = (str(2**63), str(2**64 + 1), "9" * 5000, "-1", f"-{2**63}", "NaN", "Infinity", "1e400", "true", "0x10", "１")
#: As JSON has them, some of which only Python's does.
VALUES = (
    *(str(2**n) for n in (31, 63, 64)),
    "9" * 5000,
    "-1",
    "NaN",
    "-Infinity",
    "1e400",
    "1.5",
    "true",
    "null",
    "[1]",
)


def test_in_a_query(server: Server) -> None:
    numbers = [
        (route.path.replace("{metastore}", "default"), field.name)
        for route in routes()
        for field in route.dependant.query_params
        if field.field_info.annotation is int
    ]
    assert len(numbers) >= 6
    for path, name in numbers:
        found = {text[:30]: server.get(f"/compactor{path}?{name}={quote(text)}").status for text in TEXTS}
        assert {text: status for text, status in found.items() if not 400 <= status < 500} == {}, (path, name)
    for name in ("tables", "queue", "history"):
        assert server.get(f"{PAGE}/{name}?offset={2**63 - 1}").json["rows"] == []


@pytest.mark.parametrize("path", [path for path in ACTIONS if "{" in path])
def test_in_a_path(server: Server, path: str) -> None:
    found = {
        text[:30]: server.act(f"{PAGE}/{filled(path, quote(text))}").status for text in (*TEXTS, str(2**63 - 1), "0")
    }
    assert {text: status for text, status in found.items() if not 400 <= status < 500} == {}


@pytest.mark.parametrize("path", [path for path, (_, _, body) in ACTIONS.items() if body])
def test_in_a_body(server: Server, site: Site, place: DemoPaths, path: str) -> None:
    make_table(site, place.warehouse)
    body = ACTIONS[path][2]
    for name in (*body, "properties", "limit"):
        for value in VALUES:
            text = json.dumps({**body, name: "@"}).replace('"@"', value)
            answer = server.ask("POST", f"{PAGE}/{path}", "user", text, {**OURS, **JSON})
            assert 400 <= answer.status < 500 or (value == "null" and answer.status == 200), (name, value, answer.text)
    assert site.metastore.entries.queue() == []


@pytest.mark.parametrize("number", [str(2**63), "9" * 400, f"-{2**63}", "9" * 400 + "d", f"{2**62}d"])
@pytest.mark.parametrize("key", ["hive.compactor.delta.num.threshold", "compactor.max.bytes", "compactor.max.time"])
def test_in_a_setting(server: Server, site: Site, place: DemoPaths, key: str, number: str) -> None:
    make_table(site, place.warehouse)
    for path, body in (
        ("override", {"table": "default.t", "key": key, "value": number}),
        ("compact", {"table": "default.t", "properties": {f"compactor.{key}": number}}),
    ):
        answer = server.act(f"{PAGE}/{path}", body)
        assert 400 <= answer.status < 500, answer.text
        assert key in answer.json["detail"]
    assert site.metastore.entries.queue() == []


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"table": "\\ud800"}', '"table"', "null", "", "{", '{"table": "a", }']
)
def test_what_is_no_object_is_no_request(server: Server, body: str) -> None:
    for path in ("pause", "compact"):
        answer = server.ask("POST", f"{PAGE}/{path}", "user", body, {**OURS, **JSON})
        assert 400 <= answer.status < 500, answer.text
