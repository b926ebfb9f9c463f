"""A live Trino posts its queries to the page by its own HTTP event listener, and tables are known to be read."""

from __future__ import annotations

import json

from compactor.service.answers.reads import reads_of
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.patience import until
from tests.support.told_queries import Told
from tests.support.trino import Trino


def test_like_queries_of_trino_before_and_after_a_compaction(beside: Beside, trino: Trino, told: Told) -> None:
    """Each of Trino's queries is understood; those of a table are counted, compared and shown to have read fewer files."""
    beside.hive.sql(f"create table told (a int, b string) {TRANSACTIONAL}")
    for key in range(6):
        beside.hive.sql(f"insert into told values ({key}, 'row {key}')")

    def ask(times: int, at_least: int) -> None:
        for number in range(times):
            assert trino.sql(f"select count(*) from told where a >= {-number}") == [[6]]
        until("Trino's queries are told", lambda: reads_of(beside.site, "default", "told").queries >= at_least)

    ask(3, 3)
    [done] = beside.compact("told", "major")
    assert done["fate"] == "compacted"
    ask(3, 6)
    found = reads_of(beside.site, "default", "told").to_json()
    assert (found["queries"], found["runs"], found["compared"]) == (6, 1, 1)
    assert found["seconds"] > 0
    assert found["files_before"] > found["files_after"] >= 1
    [shown] = [row for row in beside.ours("reads", "show") if row["table"] == "default.told"]
    assert shown["queries"] == 6
    beside.clean_all()
    assert [answer for answer in told.answers if answer[0] != 200] == []
    assert any(json.loads(text)["stored"] == 1 for _, text in told.answers)
