from __future__ import annotations

import pytest

from tests.unit.airflow.page.conftest import Caller

ACTIONS = (
    ("compact", {"table": "default.t"}),
    ("compactions/1/cancel", {}),
    ("compactions/1/retry", {}),
    ("pause", {"table": "default.t"}),
    ("resume", {"table": "default.t"}),
    ("override", {"table": "default.t", "key": "compactor.paused", "value": "true"}),
    ("transactions/1/abort", {}),
)
OURS = {"X-Compactor": "1", "Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("user", True), ("op", True), ("admin", True)])
def test_a_page_knows_what_to_offer(client: Caller, role: str, may: bool) -> None:
    found = client(role).get("/compactor/default/api/overview").json()
    assert found["rights"] == {"compact": may, "abort": may}
    assert found["user"] == f"{role}-1"


@pytest.mark.parametrize(("path", "body"), ACTIONS)
def test_a_viewer_only_looks(client: Caller, path: str, body: dict[str, str]) -> None:
    answer = client("viewer").post(f"/compactor/default/api/{path}", json=body, headers=OURS)
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("Your role in Airflow does not allow this.")


@pytest.mark.parametrize(("path", "body"), ACTIONS)
def test_nobody_does_nothing(client: Caller, path: str, body: dict[str, str]) -> None:
    assert client(None).post(f"/compactor/default/api/{path}", json=body, headers=OURS).status_code == 401


@pytest.mark.parametrize("path", ["other/tables", "other/api/tables", "other/api/overview"])
def test_a_metastore_that_nobody_named(client: Caller, path: str) -> None:
    answer = client("admin").get(f"/compactor/{path}")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "There is no metastore 'other'; [compactor] metastores has default."}


def test_each_metastore_has_its_own_rights(client: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the DAGs of each: who may see those of one of them sees no other."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", "default,archive")
    asked: list[tuple[str, str]] = []

    def only_archive(self: object, *, method: str, details: object, **more: object) -> bool:
        name = str(getattr(details, "id", ""))
        asked.append((method, name))
        return name.endswith("__archive") and method == "GET"

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", only_archive)
    user = client("user")
    assert user.get("/compactor/default/tables").status_code == 403
    assert user.get("/compactor/archive/tables").status_code == 200
    assert user.get("/compactor/.static/page.js").status_code == 200
    assert user.post("/compactor/archive/api/compact", json={"table": "a.b"}, headers=OURS).status_code == 403
    assert ("POST", "compact_table__archive") in asked
