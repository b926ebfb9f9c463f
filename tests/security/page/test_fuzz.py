"""Whatever is sent to the page, its actions and its endpoint for reads is answered, and never with an internal error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compactor.airflow.page.request_bounds import MOST_BODY
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.security.page.conftest import JSON, OURS, PAGE, Audit, Server
from tests.security.page.routes import ACTIONS, filled, routes
from tests.support.read_events import hive, plain, trino
from tests.support.sizes import sized
from tests.support.tables import make_table

TOKEN = "a-token-of-some-length"
MANY = settings(
    max_examples=sized(short=25, whole=300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["\0", "a\0b"]),
    lambda value: st.lists(value, max_size=3) | st.dictionaries(st.text(max_size=8), value, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["table", "partition", "type", "pool", "properties", "key", "value", "other"])


@pytest.fixture
def token(place: DemoPaths, tmp_path: Path) -> dict[str, str]:
    """The header with the token that the configuration names."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    place.config.write_text(f'{place.config.read_text()}\n"compactor.reads.token.file" = "{file}"\n')
    return {"Authorization": f"Bearer {TOKEN}"}


def test_actions(server: Server, site: Site, place: DemoPaths) -> None:
    make_table(site, place.warehouse)

    @MANY
    @given(
        st.sampled_from(sorted(ACTIONS)),
        st.binary(max_size=100) | st.dictionaries(NAMES, VALUES, max_size=4) | st.just({"table": "default.t"}),
        st.dictionaries(NAMES, VALUES, max_size=2),
    )
    def is_answered(path: str, body: bytes | dict[str, Any], more: dict[str, Any]) -> None:
        sent = body if isinstance(body, bytes) else json.dumps({**body, **more}).encode()
        answer = server.ask("POST", f"{PAGE}/{filled(path, 10**9)}", "user", sent, {**OURS, **JSON})
        assert answer.status == 200 or 400 <= answer.status < 500, (path, sent, answer.text)

    is_answered()


def test_queries(server: Server, site: Site, place: DemoPaths) -> None:
    make_table(site, place.warehouse)
    texts = [
        (route.path.replace("{metastore}", "default"), field.name)
        for route in routes()
        for field in route.dependant.query_params
    ]
    assert len(texts) >= 20

    @MANY
    @given(st.sampled_from(texts), st.text(max_size=30) | st.sampled_from(["\0", "x\0", "x" * 2000, "default.t"]))
    def is_answered(place_of_text: tuple[str, str], text: str) -> None:
        path, name = place_of_text
        sent = quote(text, errors="surrogatepass")
        found = server.get(f"/compactor{path}?table=default.t&{name}={sent}")
        assert found.status == 200 or 400 <= found.status < 500, (path, name, text, found.text)
        if "\0" in text:
            assert found.status == 400, (path, name, text)

    is_answered()


@pytest.mark.parametrize("text", ["\0", "x" * 1000, "..", "%2e%2e", "\ud800", "page.js\0"])
def test_paths(server: Server, text: str) -> None:
    sent = quote(text, errors="surrogatepass")
    for path in (f".static/{sent}", f"{sent}/overview", f"default/{sent}", f"{sent}/api/tables"):
        assert 400 <= server.get(f"/compactor/{path}").status < 500, path


def test_reads(server: Server, site: Site, place: DemoPaths, token: dict[str, str]) -> None:
    make_table(site, place.warehouse)

    @MANY
    @given(
        st.sampled_from([trino(), hive(), plain(1, at=1, seconds=1)]),
        st.dictionaries(st.integers(0, 12), VALUES, max_size=2),
        st.none() | st.binary(max_size=200),
    )
    def is_answered(event: dict[str, Any], changes: dict[int, Any], junk: bytes | None) -> None:
        names = sorted(event)
        changed = event | {names[number % len(names)]: value for number, value in changes.items()}
        body = json.dumps(changed).encode() if junk is None else junk
        answer = server.ask("POST", f"{PAGE}/reads", None, body, token)
        assert answer.status in (200, 422), (body, answer.text)

    is_answered()


LONG = "x" * 20_000_000


@pytest.mark.parametrize("path", ["compact", "override"])
@pytest.mark.parametrize("role", [None, "viewer", "user"])
def test_a_long_body_is_neither_read_nor_logged(server: Server, audit: Audit, path: str, role: str | None) -> None:
    """FastAPI reads a body before it asks who sends it."""
    body = json.dumps({"table": "default.gone", "properties": {"a": LONG}})
    answer = server.ask("POST", f"{PAGE}/{path}", role, body, {**OURS, **JSON})
    assert answer.status in (401, 413), answer.text
    assert audit() == []


@pytest.mark.parametrize(
    "more",
    [
        {"type": "x" * 101},
        {"properties": {"x" * 257: ""}},
        {"properties": {"x": "x" * 4001}},
        {"properties": dict.fromkeys(map(str, range(51)), "")},
        {"table": "x" * 401},
        {"pool": "x" * 129},
        {"partition": "x" * 768},
        {"type": "a\0b"},
        {"properties": {"a\0b": "c"}},
        {"properties": {"a": "b\0c"}},
    ],
)
def test_what_is_out_of_bounds_is_not_logged(server: Server, audit: Audit, more: dict[str, Any]) -> None:
    answer = server.act(f"{PAGE}/compact", {"table": "default.gone", **more})
    assert (answer.status, len(answer.text) < 1000) == (400, True)
    assert next(iter(more)) in answer.json["detail"]
    assert audit() == []
    assert MOST_BODY < 100_000


def test_people_can_cancel_whatever_programs_and_other_actions_hold(
    server: Server, site: Site, place: DemoPaths
) -> None:
    from compactor.airflow.page.readers import PageWork, find_readers
    from compactor.requests.request import request_compaction
    from tests.support.tables import insert

    table = make_table(site, place.warehouse)
    insert(site, table, [1])
    insert(site, table, [2])
    (waiting,) = request_compaction(site, table="default.t", type="minor")
    taken = [find_readers("default", work) for work in PageWork if work is not PageWork.STOP]
    try:
        for readers in taken:
            readers._busy += 100
        assert server.act(f"{PAGE}/compact", {"table": "default.t"}).status == 503
        assert server.act(f"{PAGE}/compactions/{waiting.entry_id}/cancel").status == 200
    finally:
        for readers in taken:
            readers._busy -= 100
