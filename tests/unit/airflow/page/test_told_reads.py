from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactor.airflow.page.told_reads import MOST_BODY
from compactor.demo.demo_folder import DemoPaths
from compactor.service.site import Site, own_state
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


@pytest.mark.parametrize(("text", "why"), [("short", "5 characters; wanted: 16 or more"), (None, "FileNotFoundError")])
def test_a_token_of_no_use_lets_nobody_in_and_only_the_log_says_where_it_is(
    client: Caller, token: Path, text: str | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    token.unlink() if text is None else token.write_text(text)
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
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("the request, line 1: no JSON")
