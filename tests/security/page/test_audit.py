"""Whatever changes something has its row in Airflow's audit log, and no row says anything that was not asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.security.page.conftest import JSON, OURS, PAGE, Audit, Server
from tests.security.page.routes import ACTIONS, TABLE, changing, filled
from tests.support.kept_tables import KeptTables
from tests.support.tables import insert, make_table

PATHS = pytest.mark.parametrize("path", ACTIONS)
#: FastAPI takes what ends in +json for JSON, and Airflow's logging whatever has the word in it.
NO_JSON = (
    "application/x+json",
    "application/vnd.api+json",
    "text/plain",
    "application/jsonx",
    "application/json, a/b",
    None,
)


@pytest.fixture
def number(site: Site, place: DemoPaths, kept_tables: KeptTables) -> dict[str, int]:
    """An id for each action that needs one: something that it can be done to."""
    kept_tables.get(site, place.warehouse, make_subjects)
    (waiting,) = site.metastore.entries.queue()
    (failed,) = site.metastore.entries.history()
    (txn,) = site.metastore.transactions.open("ann", "h")
    return {
        "compactions/{entry_id}/cancel": waiting.id,
        "compactions/{entry_id}/retry": failed.id,
        "transactions/{txn}/abort": int(txn),
    }


def make_subjects(site: Site, warehouse: Path) -> Table:
    """Makes two tables, a request that waits, and one that has failed."""
    from compactor.requests.request import request_compaction

    table = make_table(site, warehouse)
    insert(site, table, [1])
    insert(site, table, [2])
    other = make_table(site, warehouse, "other")
    insert(site, other, [1])
    (failed,) = request_compaction(site, table="default.other")
    assert failed.entry_id is not None
    site.metastore.claims.abort_request(failed.entry_id)
    request_compaction(site, table="default.other", type="minor")
    return table


def state_of(site: Site) -> list[Any]:
    """Returns everything that an action of the page may change."""
    metastore, state = site.metastore, site.state
    assert state is not None
    return [
        [(entry.id, entry.state) for entry in (*metastore.entries.queue(), *metastore.entries.history())],
        list(state.overrides.of_table(site.name, "default", "t")),
        metastore.transactions.snapshot(None).open,
    ]


def test_every_route_that_changes_something_is_among_the_actions(server: Server) -> None:
    assert changing() == sorted(ACTIONS)


@PATHS
def test_an_action_has_a_row_that_says_what_was_done(
    server: Server, number: dict[str, int], audit: Audit, path: str
) -> None:
    event, _, body = ACTIONS[path]
    if path == "compactions/{entry_id}/retry":
        assert server.act(
            f"{PAGE}/{filled('compactions/{entry_id}/cancel', number['compactions/{entry_id}/cancel'])}"
        ).json
    before = len(audit())
    answer = server.act(f"{PAGE}/{filled(path, number.get(path))}", body)
    assert answer.status == 200, answer.text
    ((found, owner, said),) = audit()[before:]
    of_path = {"entry_id" if "entry_id" in path else "txn": str(number[path])} if path in number else {}
    assert (found, owner) == (event, "user-1")
    assert said == {"metastore": "default", "method": "POST", **of_path, **body}


@PATHS
@pytest.mark.parametrize("content_type", NO_JSON)
def test_what_does_not_say_that_it_is_json_is_not_taken(
    server: Server, site: Site, number: dict[str, int], audit: Audit, path: str, content_type: str | None
) -> None:
    before = state_of(site)
    headers = OURS if content_type is None else {**OURS, "Content-Type": content_type}
    url = f"{PAGE}/{filled(path, number.get(path))}"
    answer = server.ask("POST", url, "user", json.dumps(ACTIONS[path][2]), headers)
    assert (answer.status, "nothing was done" in answer.json["detail"]) == (415, True)
    assert state_of(site) == before
    assert audit() == []


@pytest.mark.parametrize("content_type", ["application/json;charset=utf-8", "Application/JSON ; q=1"])
def test_parameters_of_the_content_type_do_not_matter(
    server: Server, number: dict[str, int], audit: Audit, content_type: str
) -> None:
    headers = {**OURS, "Content-Type": content_type}
    assert server.ask("POST", f"{PAGE}/pause", "user", json.dumps({"table": TABLE}), headers).status == 200
    assert [(event, said["table"]) for event, _, said in audit()] == [("compactor_pause", TABLE)]


@PATHS
def test_what_is_not_allowed_or_not_ours_has_no_row(
    server: Server, site: Site, number: dict[str, int], audit: Audit, path: str
) -> None:
    before, (_, right, body) = state_of(site), ACTIONS[path]
    url = f"{PAGE}/{filled(path, number.get(path))}"
    answer = server.act(url, body, "viewer")
    assert (answer.status, f"It lacks the right to {right};" in answer.json["detail"]) == (403, True)
    assert server.act(url, body, None).status == 401
    assert server.ask("POST", url, "user", json.dumps(body), JSON).status == 403
    assert server.get(url, "user").status == 405
    assert state_of(site) == before
    assert audit() == []


@PATHS
@pytest.mark.parametrize(
    "body",
    ['{"dag_id": "payroll", "table": 1}', '{"table": "default.t", "dag_id": "payroll"}', '{"dag_id": "payroll', "[]"],
)
def test_a_body_names_no_other_dag_in_the_log(
    server: Server, number: dict[str, int], audit: Audit, path: str, body: str
) -> None:
    """An action without a body does not read it, and its row says what it did."""
    answer = server.ask(
        "POST", f"{PAGE}/{filled(path, number.get(path))}?dag_id=payroll&run_id=7", "user", body, {**OURS, **JSON}
    )
    if ACTIONS[path][2]:
        assert answer.status == 400, answer.text
        assert audit() == []
    for event, _, said in audit():
        assert event == ACTIONS[path][0]
        assert "payroll" not in json.dumps(said)
    assert dags() <= {None, "compaction_worker"}


def dags() -> set[str | None]:
    """Returns the DAGs that rows about our actions belong to."""
    from airflow.models import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return set(session.scalars(select(Log.dag_id).where(Log.event.like("compactor_%"))))


@pytest.fixture
def known() -> Iterator[None]:
    """Airflow knows the DAG of the metastore's worker."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        is_there = session.get(DagModel, "compaction_worker") is not None  # as another test has left it
        if not is_there:
            session.add(DagBundleModel(name="of-the-test"))
            session.flush()
            session.add(DagModel(dag_id="compaction_worker", bundle_name="of-the-test", fileloc="/nowhere"))
    yield
    if is_there:
        return
    with create_session() as session:
        session.delete(session.get(DagModel, "compaction_worker"))
        session.flush()
        session.delete(session.get(DagBundleModel, "of-the-test"))


@pytest.mark.usefixtures("known")
def test_a_row_belongs_to_the_dag_by_which_people_see_the_metastore(
    server: Server, number: dict[str, int], audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nobody else reads it in Airflow's own list of events."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    assert server.act(f"{PAGE}/pause", {"table": TABLE}).status == 200
    assert "compaction_worker" in dags()
    events = "/api/v2/eventLogs?event=compactor_pause"
    assert "compaction_worker" in {row["dag_id"] for row in server.get(events, "op").json["event_logs"]}

    def no_worker(self: object, *, details: Any = None, **more: object) -> bool:
        return getattr(details, "id", None) != "compaction_worker"

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", no_worker)
    assert "compaction_worker" not in {row["dag_id"] for row in server.get(events, "op").json["event_logs"]}


def test_what_is_refused_by_the_metastore_is_in_the_log_as_it_was_asked(
    server: Server, site: Site, number: dict[str, int], audit: Audit
) -> None:
    body = {"table": "default.gone", "type": "huge", "properties": {"compactor.spark.password": "s3cret", "a": "b"}}
    assert 400 <= server.act(f"{PAGE}/compact", body).status < 500
    ((event, _, said),) = audit()
    assert (event, said["table"], said["type"]) == ("compactor_compact", "default.gone", "huge")
    assert said["properties"] == {"compactor.spark.password": "***", "a": "b"}
    assert server.act(f"{PAGE}/override", {"table": TABLE, "key": "my.password", "value": "s3cret"}).status == 400
    assert "s3cret" not in json.dumps([said for *_, said in audit()])


def test_nothing_is_done_that_cannot_be_logged(
    server: Server, site: Site, number: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from compactor.airflow.page import actions

    def broken(*given: object, **more: object) -> None:
        raise RuntimeError("Airflow's database is away")

    monkeypatch.setattr(actions, "create_session", broken)
    assert server.act(f"{PAGE}/compact", {"table": TABLE}).status == 500
    assert [entry.state for entry in site.metastore.entries.queue(database="default", table="t")] == []
    assert State.INITIATED in {entry.state for entry in site.metastore.entries.queue()}
