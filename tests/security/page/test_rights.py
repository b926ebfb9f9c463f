"""Rights to see a metastore and to act on it, and the answers to those without them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.security.page.conftest import Answer, Audit, Server
from tests.security.page.routes import ACTIONS, changing, filled, reading

Allow = Callable[..., None]
HIDDEN, NOWHERE = "payroll", "nowhere"  #: of one length, as a name is part of the answer


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Allow:
    """Gives everybody these rights on DAGs (``GET compaction_worker``) and no others, in three metastores."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", f"{HIDDEN},archive,default")

    def give(*rights: str) -> None:
        def is_authorized(self: object, *, method: str, details: object, **more: object) -> bool:
            return f"{method} {getattr(details, 'id', None)}" in rights

        monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized)

    return give


def everything(server: Server, metastore: str) -> dict[str, Answer]:
    """Returns what a person hears of a metastore anywhere."""
    below = f"/compactor/{metastore}"
    found = {path: server.get(f"{below}/api/{path}?table=default.t") for path in reading()}
    found |= {path: server.act(f"{below}/api/{filled(path)}", ACTIONS[path][2]) for path in changing()}
    return found | {path: server.get(f"{below}/{path}") for path in ("tables", "no-view")}


def test_a_metastore_that_nobody_may_see_is_answered_like_one_that_does_not_exist(
    server: Server, allow: Allow, audit: Audit
) -> None:
    allow("GET compaction_worker", "GET compaction_worker__archive", "POST compact_table__payroll")
    hidden, nowhere = everything(server, HIDDEN), everything(server, NOWHERE)
    assert {path: (answer.status, answer.text.replace(NOWHERE, HIDDEN)) for path, answer in nowhere.items()} == {
        path: (answer.status, answer.text) for path, answer in hidden.items()
    }
    assert {answer.status for answer in hidden.values()} == {403}
    assert {answer.json["detail"] for answer in hidden.values()} == {
        "Your role in Airflow does not allow this. It lacks the right to read the DAG compaction_worker__payroll; ask your "
        "Airflow administrator for it."
    }
    assert {name: value for name, value in hidden["overview"].headers.items() if name != "date"} == {
        name: value for name, value in nowhere["overview"].headers.items() if name != "date"
    }
    assert audit() == []


def test_it_is_listed_nowhere(server: Server, allow: Allow) -> None:
    allow("GET compaction_worker", "GET compaction_worker__archive", "POST compact_table", "PUT acid_housekeeper")
    assert server.get("/compactor/default/api/overview").json["metastores"] == ["archive", "default"]
    assert server.get("/compactor/").headers["location"] == "archive/overview"
    heard = [*everything(server, "default").values(), server.get("/compactor/"), server.get("/compactor/.static/x")]
    assert [answer for answer in heard if HIDDEN in answer.text] == []


def test_who_may_see_all_hears_which_there_are(server: Server) -> None:
    answer = server.get("/compactor/other/api/overview", "admin")
    assert answer.status == 404
    assert answer.json["detail"] == "There is no metastore 'other'; [compactor] metastores has default."


def test_who_may_see_none_hears_which_right_is_missing(server: Server, allow: Allow) -> None:
    allow("POST compact_table", "PUT acid_housekeeper")
    for path in ("", ".static/page.js"):
        answer = server.get(f"/compactor/{path}")
        assert answer.status == 403
        assert "It lacks the right to read the DAG compaction_worker of any metastore" in answer.json["detail"]
    for path, answer in everything(server, "default").items():
        assert (answer.status, "to read the DAG compaction_worker;" in answer.text) == (403, True), path


@pytest.mark.parametrize("path", ACTIONS)
def test_the_right_that_is_missing_is_named_with_its_object(
    server: Server, allow: Allow, audit: Audit, path: str
) -> None:
    """By the DAG of this metastore, with every other right given."""
    _, wanted, body = ACTIONS[path]
    others = {
        "trigger the DAG compact_table": "PUT acid_housekeeper",
        "edit the DAG acid_housekeeper": "POST compact_table",
    }
    given = [right for right in others.values() if right != others[wanted]]
    allow("GET compaction_worker__archive", f"{others[wanted]}__archive", *given)
    answer = server.act(f"/compactor/archive/api/{filled(path)}", body)
    assert answer.status == 403
    assert f"It lacks the right to {wanted}__archive; ask your Airflow administrator for it." in answer.json["detail"]
    assert audit() == []


def test_a_login_that_airflow_does_not_know_is_no_missing_right(server: Server) -> None:
    answer = server.ask("GET", "/compactor/default/api/overview", None, headers={"Authorization": "Bearer nonsense"})
    assert answer.status in (401, 403)
    assert "Log in and try again." in answer.json["detail"]
    assert "right" not in answer.json["detail"]
