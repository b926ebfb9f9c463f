from __future__ import annotations

import re

import pytest

from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.views import statements

T = Entity(database="default", table="t")
KINDS = ("sqlite", "postgresql", "mysql")


@pytest.mark.parametrize("kind", KINDS)
def test_no_placeholder_is_left(kind: str) -> None:
    for view in statements(kind):
        assert "UTC_TEXT" not in view
        assert "{0}" not in view
    assert len(statements(kind)) == 4


def test_the_views_have_the_same_names_and_columns_everywhere() -> None:
    found = {kind: [re.findall(r"(?:VIEW|AS) (\w+)", view) for view in statements(kind)] for kind in KINDS}
    assert found["sqlite"][0][0] == "COMPACTOR_V_COMPACTIONS"
    assert [names[0] for names in found["mysql"]] == [names[0] for names in found["postgresql"]]


def test_only_hives_names_are_quoted_on_postgresql() -> None:
    view = statements("postgresql")[1]
    assert 'FROM "TXNS" WHERE "TXN_ID" > 0' in view
    assert "COMPACTOR_V_TRANSACTIONS" in view
    assert '"COMPACTOR_V_TRANSACTIONS"' not in view
    assert '"' not in statements("mysql")[1]


def test_people_read_words_and_utc(metastore: Metastore) -> None:
    [aborted, _] = metastore.transactions.open("ada", "h", count=2)
    metastore.transactions.abort(aborted, "by a test")
    metastore.requests.request(Request(entity=T, type=CompactionType.MINOR, initiator="compactor-x"))
    with metastore.database.read() as conn:
        txns = conn.exec_driver_sql("SELECT state, started_at, reason FROM COMPACTOR_V_TRANSACTIONS ORDER BY txn_id")
        [first, second] = txns.all()
        [entry] = conn.exec_driver_sql("SELECT state, type, started_at FROM COMPACTOR_V_COMPACTIONS").all()
    assert (first.state, first.reason, second.state) == ("aborted", "by a test", "open")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.started_at)
    assert tuple(entry) == ("initiated", "MINOR", None)
