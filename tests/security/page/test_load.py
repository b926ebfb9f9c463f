"""The most that a viewer may cause when the store or the database behind the page does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.security.page.conftest import PAGE, Audit, Server
from tests.support.patience import until
from tests.support.silent import SilentServer, silent_server

READERS = 4  #: the default
CROWD = 60  #: more than the API server has threads
EXPLAIN = f"{PAGE}/explain?table=default.far"
#: Airflow's own, our own files, and what is in the metastore.
OTHERS = (
    "/api/v2/version",
    "/compactor/default/tables",
    *(f"{PAGE}/{name}" for name in ("overview", "tables", "queue")),
)


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    from compactor.airflow.page.readers import count_busy

    with silent_server() as made:
        yield made
    until("no thread is taken", lambda: count_busy() == 0)


@pytest.fixture
def far(site: Site, place: DemoPaths, silent: SilentServer) -> None:
    """A table in a store that accepts connections and never answers; the page waits a second for it."""
    config = place.config.read_text("utf-8")
    wanted = f'"compactor.page.timeout" = "1s"\n[storage."hdfs://far"]\nurl = "{silent.url}"\ntimeout = 3600\n'
    place.config.write_text(config + wanted, "utf-8")
    if "default" not in site.metastore.catalog.databases():
        site.metastore.embedded_catalog.create_database("default", str(place.warehouse))
    site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "far",
            "hdfs://far/warehouse/far",
            [Column(name="a", type="int")],
            parameters={"transactional": "true", "transactional_properties": "default"},
        )
    )


@pytest.mark.usefixtures("far")
def test_a_store_that_never_answers_holds_a_few_threads_and_no_page_of_others(
    server: Server, silent: SilentServer
) -> None:
    with ThreadPoolExecutor(CROWD) as crowd:
        asked = [crowd.submit(server.get, EXPLAIN) for _ in range(CROWD)]
        until("every place is taken", lambda: silent.held >= READERS, seconds=60)
        assert {path: server.get(path).status for path in OTHERS} == dict.fromkeys(OTHERS, 200)
        answers = [one.result() for one in asked]
    assert [answer.status for answer in answers] == [503] * CROWD
    told = [answer.json["found"] for answer in answers]
    assert sum(found.startswith("there was no answer within 1 s (compactor.page.timeout)") for found in told) == READERS
    assert sum(found.startswith(f"all {READERS} threads for looks into storage are taken") for found in told) == (
        CROWD - READERS
    )
    assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    for answer in answers:
        assert answer.json["thing"] == "metastore default"
        assert "compactor doctor" in answer.json["do"]
        assert answer.json["detail"] == f"{answer.json['thing']}: {answer.json['found']}. {answer.json['do']}"


@pytest.mark.usefixtures("far")
def test_what_hangs_keeps_its_place_until_it_really_ends(server: Server, silent: SilentServer) -> None:
    with ThreadPoolExecutor(READERS) as crowd:
        for answer in crowd.map(server.get, [EXPLAIN] * READERS):
            assert answer.json["found"].startswith("there was no answer within")
    until("all of them are at the store", lambda: silent.held == READERS)
    for _ in range(3):
        assert server.get(EXPLAIN).json["found"].startswith(f"all {READERS} threads")
    assert silent.held == READERS
    silent.release()
    until("a place is free again", lambda: server.get(EXPLAIN).status != 503)


@pytest.fixture
def mute(silent: SilentServer, place: DemoPaths) -> None:
    """A metastore whose database never answers: who connects waits for the first byte, as the server speaks HTTP."""
    place.config.write_text(
        f'[metastore.default]\nurl = "postgresql+psycopg://hive@127.0.0.1:{silent.server_port}/hive?sslmode=disable"\n'
        'mode = "clean"\n[metastore.default.settings]\n"compactor.page.readers" = 2\n"compactor.page.timeout" = "1s"\n',
        "utf-8",
    )


@pytest.mark.usefixtures("mute")
def test_a_database_that_never_answers_holds_a_few_threads(server: Server) -> None:
    lists = [f"{PAGE}/{name}" for name in ("tables", "queue", "blocked", "history", "runs", "settings")] * 10
    with ThreadPoolExecutor(CROWD) as crowd:
        found = [answer.json["found"] for answer in crowd.map(server.get, lists)]
    assert sum(one.startswith("there was no answer within") for one in found) == 2
    assert sum(one.startswith("all 2 threads for lists are taken") for one in found) == CROWD - 2
    for path in ("/api/v2/version", "/compactor/default/tables"):
        assert server.get(path).status == 200


@pytest.mark.usefixtures("mute")
def test_an_action_that_hangs_says_that_it_was_begun_and_one_that_was_not_is_not_in_the_log(
    server: Server, audit: Audit
) -> None:
    with ThreadPoolExecutor(2) as crowd:
        answers = list(crowd.map(lambda name: server.act(f"{PAGE}/pause", {"table": name}), ("a.b", "a.c")))
    assert {answer.status for answer in answers} == {503}
    assert all("It was begun and may still finish: check before you repeat it." in a.text for a in answers)
    refused = server.act(f"{PAGE}/pause", {"table": "a.d"})
    assert (refused.status, "nothing was done" in refused.json["found"]) == (503, True)
    until("both have their rows", lambda: len(audit()) >= 2)
    assert sorted((event, what["table"]) for event, _, what in audit()) == [
        ("compactor_pause", "a.b"),
        ("compactor_pause", "a.c"),
    ]
