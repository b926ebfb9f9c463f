from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException, Request

from compactor.airflow.page import read_events_endpoint
from compactor.airflow.page.read_events_endpoint import MOST_BODY
from compactor.airflow.page.readers import Limits
from compactor.site.site import Site, own_state
from demo.demo_folder import DemoPaths
from tests.support.read_events import plain, trino
from tests.support.tables import make_table
from tests.unit.airflow.page.conftest import Caller

TOKEN = "a-token-of-some-length"
PATH = "/compactor/default/api/reads"


@pytest.fixture
def token(place: DemoPaths, tmp_path: Path) -> Path:
    """The file with the token, which the configuration names."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    text = place.config.read_text()
    place.config.write_text(f'{text}\n"compactor.reads.token.file" = "{file}"\n')
    return file


def tell(client: Caller, body: str, token: str | None = TOKEN, path: str = PATH) -> Any:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return client(None).post(path, content=body, headers=headers)


def test_trino_posts_its_events(client: Caller, site: Site, place: DemoPaths, token: Path) -> None:
    make_table(site, place.warehouse)
    at = site.metastore.now_ms() / 1000
    answer = tell(client, json.dumps(trino(endTime=at)))
    assert (answer.status_code, answer.json()) == (200, {"events": 1, "queries": 1, "stored": 1})
    assert tell(client, json.dumps([trino(endTime=at), plain(1, at=at, seconds=1)])).json()["stored"] == 1
    assert own_state(site).reads.sums(site.name, 0)[0].queries == 2
    (row,) = client("viewer").get(PATH).json()["rows"]
    assert (row["table"], row["queries"]) == ("default.t", 2)


@pytest.mark.parametrize(
    ("given", "path"), [(None, PATH), ("another-token-of-length", PATH), (TOKEN, PATH.replace("default", "gone"))]
)
def test_without_the_token_nothing_is_told(client: Caller, token: Path, given: str | None, path: str) -> None:
    answer = tell(client, "{", given, path)
    assert answer.status_code == 401
    assert "compactor.reads.token.file" in answer.json()["detail"]


def test_without_a_file_nobody_has_a_token(client: Caller, place: DemoPaths) -> None:
    assert tell(client, "{}").status_code == 401
    assert tell(client, "{}", "").status_code == 401


def test_a_login_is_no_token(client: Caller, token: Path) -> None:
    assert client("admin").post(PATH, content="{}").status_code == 401


@pytest.mark.parametrize(
    ("text", "why"),
    [("short", "5 characters; expected: 16 or more"), (None, "No such file"), ("wide", "has mode 0644")],
)
def test_a_token_of_no_use_lets_nobody_in_and_only_the_log_says_where_it_is(
    client: Caller, token: Path, text: str | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    if text == "wide":
        token.chmod(0o644)
        text = TOKEN
    elif text is None:
        token.unlink()
    else:
        token.write_text(text)
    answer = tell(client, "{}", text or TOKEN)
    assert (answer.status_code, answer.json()) == (
        503,
        {"detail": "The token cannot be checked; the server's log says why."},
    )
    assert f"{token}: " in caplog.text
    assert why in caplog.text


def test_what_is_too_much_or_nonsense_is_refused(client: Caller, token: Path) -> None:
    assert tell(client, "x" * (MOST_BODY + 1)).status_code == 413
    answer = tell(client, "nonsense")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("the request, line 1: not JSON")


def test_one_bad_event_keeps_all_from_being_stored(client: Caller, site: Site, place: DemoPaths, token: Path) -> None:
    """More than are stored in one transaction come before it."""
    make_table(site, place.warehouse)
    at = site.metastore.now_ms() / 1000
    good = [plain(number, at=at, seconds=1) for number in range(1500)]
    answer = tell(client, json.dumps([*good, {**good[0], "engine": ["own"]}]))
    assert answer.status_code == 422
    assert own_state(site).reads.sums(site.name, 0) == []


def test_what_is_yet_to_come_is_refused(client: Caller, site: Site, place: DemoPaths, token: Path) -> None:
    make_table(site, place.warehouse)
    now = site.metastore.now_ms() / 1000
    assert tell(client, json.dumps(plain(1, at=now + 80_000, seconds=1))).json()["stored"] == 1
    answer = tell(client, json.dumps(plain(2, at=now + 90_000, seconds=1)))
    assert (answer.status_code, "in the future" in answer.json()["detail"]) == (422, True)


def test_events_are_bounded_in_number(
    client: Caller, site: Site, place: DemoPaths, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(site, place.warehouse)
    monkeypatch.setattr(read_events_endpoint, "MOST_EVENTS", 2)
    at = site.metastore.now_ms() / 1000
    events = [json.dumps(plain(number, at=at, seconds=1)) for number in range(3)]
    for body in ("\n".join(events), f"[{','.join(events)}]"):
        answer = tell(client, body)
        assert (answer.status_code, "more than 2 events" in answer.json()["detail"]) == (413, True)
    assert tell(client, "\n".join(events[:2])).json()["stored"] == 2


def test_a_text_may_have_any_character_of_json(client: Caller, site: Site, place: DemoPaths, token: Path) -> None:
    """Python ends a line at more characters than JSON does."""
    make_table(site, place.warehouse)
    event = plain(1, at=site.metastore.now_ms() / 1000, seconds=1, sql="select\u2028\x85 a")
    assert tell(client, json.dumps(event, ensure_ascii=False)).json()["stored"] == 1
    answer = client(None).post(PATH, content=b'"\xff"', headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, "not UTF-8 at byte 1" in answer.json()["detail"]) == (422, True)


def test_bodies_are_received_a_few_at_a_time(client: Caller, token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_events_endpoint, "MOST_BODIES", 0)
    answer = tell(client, "{")
    assert (answer.status_code, "nothing was stored" in answer.json()["detail"]) == (503, True)


def test_a_body_that_trickles_has_a_deadline() -> None:
    never = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await never.wait()
        raise AssertionError

    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(HTTPException, match=r"compactor\.page\.timeout") as refused:
        asyncio.run(read_events_endpoint._read_body(request, Limits(readers=1, seconds=0.01)))
    assert refused.value.status_code == 408
