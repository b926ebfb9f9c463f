"""A live Trino posts its queries to the page by its own HTTP event listener, and tables are known to be read."""

from __future__ import annotations

import json

from compactor.answers.reader_gains import reads_of
from compactor.site.deployment import open_deployment
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.passes import compact
from tests.support.patience import until
from tests.support.told_queries import Told
from tests.support.trino import Trino


def test_like_queries_of_trino_before_and_after_a_compaction(beside: Beside, trino: Trino, told: Told) -> None:
    """Each of Trino's queries is understood; those of a table are counted, compared and shown to have read fewer files."""
    beside.hive.sql(f"create table told (a int, b string) {TRANSACTIONAL}")
    for key in range(6):
        beside.hive.sql(f"insert into told values ({key}, 'row {key}')")
    with open_deployment(config_path=str(told.config), flags={"compactor.mode": "clean"}) as site:

        def ask(times: int, at_least: int) -> None:
            for number in range(times):
                assert trino.sql(f"select count(*) from told where a >= {-number}") == [[6]]

            def is_told() -> bool:
                assert [answer for answer in told.answers if answer[0] != 200] == []
                return reads_of(site, "default", "told").queries >= at_least

            until("Trino's queries are told", is_told)

        ask(3, 3)
        compact(site, table="default.told")
        ask(3, 6)
        found = reads_of(site, "default", "told").to_json()
    assert (found["queries"], found["runs"], found["compared"]) == (6, 1, 1)
    assert isinstance(found["files_before"], float)
    assert isinstance(found["files_after"], float)
    assert found["files_before"] > found["files_after"] >= 1
    assert any(json.loads(text)["stored"] == 1 for _, text in told.answers)
    beside.clean_all()
