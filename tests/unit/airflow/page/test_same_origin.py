from __future__ import annotations

import pytest

from compactor.site.site import Site
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
