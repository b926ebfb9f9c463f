from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from compactor.airflow.page.queries import LastAnswer
from compactor.initiator.initiator import initiate
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.support.backups import Backup
from tests.support.passes import clean_all, compact
from tests.support.patience import until
from tests.support.tables import insert, make_table, with_settings
from tests.unit.airflow.page.conftest import Caller


class Clock:
    """Says the seconds that a test wants."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def slow(clock: Clock, seconds: float) -> Iterator[int]:
    """Returns answers 1, 2, … each of which takes as long."""
    number = 0
    while True:
        clock.now += seconds
        number += 1
        yield number


@pytest.mark.parametrize(
    ("took", "stands"),
    [(0.01, 0.1), (1.9, 19.0), (60.0, 30.0)],
    ids=["a quick one", "a slow one", "a very slow one"],
)
def test_an_answer_stands_for_ten_times_as_long_as_it_took_and_half_a_minute_at_most(
    clock: Clock, took: float, stands: float
) -> None:
    last, answers = LastAnswer[int](clock), slow(clock, took)
    found = [last.get(lambda: next(answers))]
    for part in (0.99, 0.02):
        clock.now += stands * part
        found.append(last.get(lambda: next(answers)))
    assert found == [1, 1, 2]


def test_an_error_is_told_to_whoever_asked_and_stands_for_nobody(clock: Clock) -> None:
    last = LastAnswer[int](clock)

    def fail() -> int:
        clock.now += 5
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        last.get(fail)
    assert last.get(lambda: 1) == 1


def test_those_who_ask_meanwhile_wait_for_the_answer_that_is_on_its_way(clock: Clock) -> None:
    last, begun, go_on = LastAnswer[int](clock), threading.Event(), threading.Event()
    asked: list[int] = []
    got: list[int] = []

    def answer() -> int:
        asked.append(1)
        begun.set()
        assert go_on.wait(30)
        clock.now += 1
        return len(asked)

    askers = [threading.Thread(target=lambda: got.append(last.get(answer))) for _ in range(3)]
    askers[0].start()
    assert begun.wait(30)
    for other in askers[1:]:
        other.start()
    go_on.set()
    for one in askers:
        one.join(30)
    assert (asked, got) == ([1], [1, 1, 1])


@pytest.fixture
def seen(site: Site, place: DemoPaths) -> Site:
    """Six deltas, looked at by an initiator that may not ask for anything."""
    table = make_table(site, place.warehouse)
    for value in range(6):
        insert(site, table, [value])
    initiate(with_settings(site, compactor_mode="observe", hive_compactor_delta_num_threshold="4"))
    return site


def read(client: Caller, path: str, role: str = "viewer") -> Any:
    answer = client(role).get(f"/compactor/default/api/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_stands_above_every_view(client: Caller, seen: Site) -> None:
    found = read(client, "overview")
    assert (found["mode"], found["outcomes"], found["queue"]) == ("clean", {"major": 1}, {})
    assert found["looked_at"] <= found["now"]
    assert found["dags"]["compaction_worker"] == "compaction_worker"


def test_a_restored_metastore_is_told_above_every_view(client: Caller, site: Site) -> None:
    """PROTOCOL 11.2: the page stays readable and says why nothing is done."""
    assert read(client, "overview")["doubt"] == []
    backup = Backup(site.metastore.database.path)
    backup.take()
    (txn,) = site.metastore.transactions.open("ann", "h")
    site.metastore.transactions.commit(txn)
    must_be_newest(site)
    backup.restore()
    (sentence,) = read(client, "overview")["doubt"]
    assert "the database is older than" in sentence
    for path in ("tables", "queue", "blocked", "history", "runs", "settings"):
        read(client, path)


def test_tables_with_their_decision_and_what_would_flip_it(client: Caller, seen: Site) -> None:
    found = read(client, "tables?order=deltas&descending=true&find=DEFAULT.t&outcome=due&limit=10")
    (row,) = found["rows"]
    assert found["total"] == 1
    assert (row["table"], row["partition"], row["outcome"], row["queued"]) == ("default.t", None, "major", None)
    assert row["because"] == "6 deltas > 4 (hive.compactor.delta.num.threshold), and no base"
    assert row["flips"] == ["hive.compactor.delta.num.threshold of 6 or more"]
    assert (row["figures"]["deltas"], row["figures"]["files"]) == (6, 6)
    assert read(client, "tables?outcome=calm") == {"rows": [], "total": 0}


def test_no_directory_is_listed_for_a_view(client: Caller, seen: Site, place: DemoPaths) -> None:
    place.warehouse.rename(place.folder / "elsewhere")
    assert read(client, "tables")["total"] == 1
    for path in ("queue", "blocked", "history", "runs", "settings?table=default.t", "overview"):
        read(client, path)
    answer = client("viewer").get("/compactor/default/api/explain?table=default.t")
    assert "does not exist" in answer.text or "no such" in answer.text.lower() or "error" in answer.text


def test_a_look_at_one_table_is_of_now(client: Caller, seen: Site) -> None:
    found = read(client, "explain?table=default.t")
    assert (found["outcome"], found["numbers"]["deltas"], found["health"]) == ("notneeded", 6, 57)
    assert found["flips"]


def test_a_look_is_kept_for_the_list(client: Caller, seen: Site, place: DemoPaths) -> None:
    insert(seen, seen.metastore.catalog.table("default", "t"), [7])
    before, looked = read(client, "overview")["looked_at"], read(client, "explain?table=default.t")
    (row,) = read(client, "tables")["rows"]
    assert row == looked["row"]
    assert (row["outcome"], row["figures"]["deltas"]) == ("notneeded", 7)
    assert row["at"] <= looked["now"]
    assert read(client, "overview")["looked_at"] == before


def test_a_row_is_true_after_a_compaction_and_its_cleaning(client: Caller, seen: Site) -> None:
    (before,) = read(client, "tables")["rows"]
    assert (before["figures"]["deltas"], before["last_compacted"], before["changed_at"]) == (6, None, None)
    compact(seen)
    (committed,) = read(client, "tables")["rows"]
    assert (committed["figures"]["deltas"], committed["figures"]["obsolete"]) == (0, 6)
    assert (committed["queued"]["state"], committed["changed_at"]) == ("ready for cleaning", None)
    clean_all(with_settings(seen, hive_txn_opentxn_timeout="1ms"))
    (cleaned,) = read(client, "tables")["rows"]
    assert (cleaned["figures"]["obsolete"], cleaned["queued"], cleaned["changed_at"]) == (0, None, None)
    assert before["at"] < committed["last_compacted"] <= cleaned["last_compacted"] <= cleaned["at"]


def test_the_overview_of_all_tables(client: Caller, seen: Site) -> None:
    before = read(client, "fleet")
    assert (before["due"], before["waiting"], before["days"]) == (1, 0, [])
    assert [(one["table"], one["deltas"]) for one in before["worst"]] == [("t", 6)]
    compact(seen)
    # what was counted stands for ten times as long as that took
    until("a new count", lambda: read(client, "fleet")["counted_at"] > before["counted_at"])
    after = read(client, "fleet")
    assert [(one["days"], one["runs"], one["fewer_directories"]) for one in after["returns"]] == [(7, 1, 5), (30, 1, 5)]
    assert (after["due"], after["ready_for_cleaning"]) == (0, 1)


def test_queue_and_history_are_paged(client: Caller, seen: Site) -> None:
    compact(seen)
    (row,) = read(client, "queue?state=ready%20for%20cleaning&find=t")["rows"]
    assert (row["tabname"], row["can_cancel"]) == ("t", False)
    assert read(client, "queue?state=working")["total"] == 0
    assert read(client, "history") == {"rows": [], "total": 0}
    (run,) = read(client, "runs")["rows"]
    assert (run["directories_before"], run["directories_after"]) == (6, 1)
    assert run["bytes_copied"] + run["bytes_reencoded"] == run["bytes_after"]


def test_settings_say_where_each_comes_from(client: Caller, site: Site, place: DemoPaths) -> None:
    make_table(
        site,
        place.warehouse,
        "t",
        **{"compactorthreshold.hive.compactor.delta.num.threshold": "3", "compactor.no": "1"},
    )
    rows = {row["key"]: row for row in read(client, "settings")["rows"]}
    assert rows["hive.compactor.delta.num.threshold"]["source"] == "default"
    of_table = read(client, "settings?table=default.t")
    rows = {row["key"]: row for row in of_table["rows"]}
    assert rows["hive.compactor.delta.num.threshold"]["value"] == "3"
    assert rows["hive.compactor.delta.num.threshold"]["source"] == "table"
    assert [ignored["property"] for ignored in of_table["ignored"]] == ["table: compactor.no"]


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("tables?order=size", 400, "order 'size': expected one of table, health"),
        ("queue?state=sleeping", 400, "state 'sleeping': expected one of initiated, working"),
        ("settings?table=default.gone", 404, "default.gone"),
        ("explain?table=a.b.c", 409, "table 'a.b.c': expected DATABASE.TABLE"),
        ("tables?limit=9999", 400, "This was not understood: limit: Input should be less than or equal to 200."),
    ],
)
def test_what_is_wrong_is_a_sentence(client: Caller, place: DemoPaths, path: str, status: int, told: str) -> None:
    answer = client("viewer").get(f"/compactor/default/api/{path}")
    assert answer.status_code == status
    assert told in answer.json()["detail"]


def test_what_a_compaction_would_take_before_it_is_asked_for(client: Caller, seen: Site) -> None:
    """Without a type, it is the one that the initiator would ask for."""
    found = read(client, "plan?table=default.t")
    assert found["partitions"] == 1
    plan = found["plan"]
    assert (plan["type"], plan["noop"], plan["files"], plan["expected"]) == ("major", False, 6, None)
    assert plan["input_bytes"] > 0
    assert read(client, "plan?table=default.t&type=minor")["plan"]["type"] == "minor"
    compact(seen)
    clean_all(seen)
    assert read(client, "plan?table=default.t")["plan"]["noop"] is True
