from __future__ import annotations

from typing import Any

import pytest

from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, paused_tables
from demo.demo_folder import DemoPaths
from tests.support.tables import insert, make_table
from tests.unit.airflow.page.conftest import Audit, Caller
from tests.unit.airflow.page.test_access import ACTIONS


@pytest.mark.parametrize(("path", "body"), ACTIONS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "X-Compactor": "1"},
        {"Sec-Fetch-Site": "same-site", "X-Compactor": "1"},
        {"Sec-Fetch-Site": "none", "X-Compactor": "1"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_what_our_page_did_not_ask_for_is_refused_and_not_logged(
    client: Caller, audit: Audit, path: str, body: dict[str, str], headers: dict[str, str]
) -> None:
    answer = client("admin").post(f"/compactor/default/api/{path}", json=body, headers=headers)
    assert answer.status_code == 403
    assert "nothing was done" in answer.json()["detail"]
    assert audit() == []


def test_a_form_of_another_page_can_say_neither_header_nor_json(client: Caller, site: Site, place: DemoPaths) -> None:
    table = make_table(site, place.warehouse)
    insert(site, table, [1])
    answer = client("admin").post("/compactor/default/api/compact", data={"table": "default.t"})
    assert answer.status_code in (400, 403)
    assert site.metastore.entries.queue() == []


def test_no_other_origin_is_told_that_it_may(client: Caller) -> None:
    asked = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "X-Compactor",
    }
    answer = client("admin").options("/compactor/default/api/compact", headers=asked)
    assert "access-control-allow-origin" not in answer.headers
    assert answer.status_code == 405


def test_where_airflow_knows_no_such_asset_nothing_happens(application: Any, place: DemoPaths) -> None:
    from compactor.airflow.page.actions import announce_requests

    assert announce_requests("nowhere", 1) is False


def test_the_workers_dag_is_told(application: Any, place: DemoPaths) -> None:
    from airflow.models.asset import AssetActive, AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from compactor.airflow.page.actions import announce_requests

    name = "hive://told/-/requested"
    with create_session() as session:
        asset = AssetModel(name=name, uri=name, group="asset")
        session.add(asset)
        session.flush()
        session.add(AssetActive.for_asset(asset))
    assert announce_requests("told", 3) is True
    with create_session() as session:
        query = (
            select(AssetEvent.extra)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.uri == name)
        )
        (extra,) = session.scalars(query).all()
    assert extra["entries"] == 3


OURS = {"X-Compactor": "1", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def table(site: Site, place: DemoPaths) -> Table:
    made = make_table(site, place.warehouse)
    for value in range(3):
        insert(site, made, [value])
    return made


def post(client: Caller, path: str, body: dict[str, Any] | None = None, status: int = 200) -> Any:
    answer = client("user").post(f"/compactor/default/api/{path}", json=body or {}, headers=OURS)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_request_stands_in_the_queue_and_in_the_audit_log(
    client: Caller, site: Site, table: Table, audit: Audit
) -> None:
    body = {
        "table": "default.t",
        "type": "minor",
        "pool": "night",
        "properties": {"compactor.hive.compactor.job.queue": "etl"},
    }
    told = post(client, "compact", body)
    (entry,) = site.metastore.entries.queue()
    assert (entry.type.label, entry.pool, dict(entry.properties)) == ("MINOR", "night", body["properties"])
    assert told["message"].startswith(f"default.t is queued as compaction {entry.id}")
    ((event, user, what),) = audit()
    assert (event, user, what["table"], what["metastore"]) == ("compactor_compact", "user-1", "default.t", "default")


def test_what_is_refused_is_logged_too_and_told_in_a_sentence(client: Caller, table: Table, audit: Audit) -> None:
    post(client, "compact", {"table": "default.t"})
    told = post(client, "compact", {"table": "default.t"}, status=409)
    assert told["detail"].startswith("default.t: Compaction is already scheduled with state='initiated'")
    assert [event for event, *_ in audit()] == ["compactor_compact"] * 2


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"table": "default.gone"}, 404, "default.gone"),
        (
            {"table": "default.t", "type": "huge"},
            409,
            "compaction type 'huge': expected one of major, minor, rebalance",
        ),
        ({"table": "default.t", "properties": {"colour": "red"}}, 400, "colour"),
        ({}, 400, "This was not understood: table: Field required."),
        ({"table": "default.t", "force": "yes"}, 400, "force: Extra inputs are not permitted."),
    ],
)
def test_what_cannot_be_done(
    client: Caller, site: Site, table: Table, body: dict[str, Any], status: int, told: str
) -> None:
    assert told in post(client, "compact", body, status)["detail"]
    assert site.metastore.entries.queue() == []


def test_a_request_is_cancelled_and_asked_for_again(client: Caller, site: Site, table: Table, audit: Audit) -> None:
    post(client, "compact", {"table": "default.t"})
    (entry,) = site.metastore.entries.queue()
    assert post(client, f"compactions/{entry.id}/cancel") == {
        "message": f"Compaction {entry.id} of default.t is cancelled.",
        "state": "aborted",
    }
    assert site.metastore.entries.queue() == []
    post(client, f"compactions/{entry.id}/retry")
    (again,) = site.metastore.entries.queue()
    assert (again.entity, again.type, again.state) == (entry.entity, entry.type, State.INITIATED)
    assert [(event, what.get("entry_id")) for event, _, what in audit()] == [
        ("compactor_compact", None),
        ("compactor_cancel", str(entry.id)),
        ("compactor_retry", str(entry.id)),
    ]
    assert "is neither in the queue nor in the history" in post(client, "compactions/999/cancel", status=404)["detail"]
    told = post(client, f"compactions/{again.id}/retry", status=409)["detail"]
    assert "is initiated; only one that failed, was refused or was aborted" in told


def test_a_transaction_is_aborted_once(client: Caller, site: Site, place: DemoPaths, audit: Audit) -> None:
    (txn,) = site.metastore.transactions.open("ann", "h")
    assert post(client, f"transactions/{txn}/abort") == {"message": f"Transaction {txn} is aborted."}
    assert site.metastore.transactions.state(txn) == "a"
    assert post(client, f"transactions/{txn}/abort", status=409)["detail"] == f"transaction {txn} is aborted already"
    assert [(event, what["txn"]) for event, _, what in audit()] == [("compactor_abort_transaction", str(txn))] * 2


def test_a_table_that_failed_is_considered_again(client: Caller, site: Site, table: Table) -> None:
    assert "has no failure" in post(client, "resume", {"table": "default.t"})["message"]
    post(client, "compact", {"table": "default.t"})
    entry = site.metastore.claims.claim("compactor-worker-h-1-1", "v", pool_timeout_ms=0)
    assert entry is not None
    site.metastore.claims.finish(entry, State.FAILED, "no space")
    assert post(client, "resume", {"table": "default.t"})["message"] == (
        "The initiator considers default.t again at its next pass; 1 rows about failures were removed from the history."
    )
    assert site.metastore.entries.history() == []


def test_mode_observe_does_nothing(
    client: Caller, site: Site, table: Table, place: DemoPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    (txn,) = site.metastore.transactions.open("ann", "h")
    observing = f'mode = "observe"\nstate_url = "{place.url}"'
    place.config.write_text(place.config.read_text("utf-8").replace('mode = "clean"', observing), "utf-8")
    for path, body in (("compact", {"table": "default.t"}), (f"transactions/{txn}/abort", {})):
        assert "compactor.mode is observe" in post(client, path, body, status=409)["detail"]
    assert site.metastore.transactions.state(txn) == "o"


def test_a_table_is_paused_and_resumed(client: Caller, site: Site, table: Table, audit: Audit) -> None:
    assert post(client, "pause", {"table": "default.t"})["message"].startswith("default.t is paused")
    assert paused_tables(site) == {("default", "t")}
    assert "considers default.t again" in post(client, "resume", {"table": "default.t"})["message"]
    assert paused_tables(site) == frozenset()
    assert "is not paused" in post(client, "resume", {"table": "default.t"})["message"]
    assert [(event, user) for event, user, _ in audit()] == [
        ("compactor_pause", "user-1"),
        ("compactor_resume", "user-1"),
        ("compactor_resume", "user-1"),
    ]


def test_a_setting_of_a_table_is_overridden_and_given_back(
    client: Caller, site: Site, table: Table, audit: Audit
) -> None:
    said = {"table": "default.t", "key": "hive.compactor.delta.num.threshold"}
    assert "is 3, whatever" in post(client, "override", {**said, "value": "3"})["message"]
    shown = client("viewer").get("/compactor/default/api/settings?table=default.t").json()
    ((one),) = shown["overrides"]
    assert (one["key"], one["value"], one["by"]) == (said["key"], "3", "user-1")
    assert {row["source"] for row in shown["rows"] if row["key"] == said["key"]} == {"override"}
    assert said["key"] in shown["of_tables"]
    assert "compactor.lock.wait" not in shown["of_tables"]
    assert "removed" in post(client, "override", said)["message"]
    assert [event for event, *_ in audit()] == ["compactor_override"] * 2


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"key": "hive.compactor.delta.num.threshold", "value": "few"}, 400),
        ({"key": "compactor.lock.wait", "value": "1s"}, 400),
        ({"key": "hive.compactor.delta.num.threshold"}, 404),
    ],
)
def test_an_override_that_cannot_be(client: Caller, table: Table, said: dict[str, str], status: int) -> None:
    post(client, "override", {"table": "default.t", **said}, status)


def test_a_request_that_would_do_nothing_is_refused_at_once(client: Caller, site: Site, place: DemoPaths) -> None:
    make_table(site, place.warehouse, "empty")
    told = post(client, "compact", {"table": "default.empty"}, status=409)
    assert "nothing was queued" in told["detail"]
    assert site.metastore.entries.queue(table="empty") == []
