from __future__ import annotations

import pytest

from compactor.answers.show_rows import (
    QuarantineFilter,
    QuarantineRow,
    TransactionRow,
    quarantine_of_table,
    show_decisions,
    show_quarantine,
    show_settings,
    show_transactions,
)
from compactor.base.errors import Refused
from compactor.compaction.quarantine_rules import Quarantined
from compactor.compaction.queue_entry import Entity
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.named_tables import Where
from compactor.site.site import Site, own_state
from demo.fixtures import register_fixture
from tests.support.expected import step

NAMES = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000")


def test_keys_are_hives_columns_in_lower_case() -> None:
    assert TransactionRow.columns()[:6] == ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host")


def test_transactions_that_are_open_or_aborted(deployment: Site) -> None:
    transactions = deployment.metastore.transactions
    opened, aborted, committed = transactions.open("ann", "h1", count=3)
    transactions.abort(aborted, "by hand")
    transactions.commit(committed)
    (reader,) = transactions.open("bob", "h2", type=TxnType.READ_ONLY, agent="q")
    rows = show_transactions(deployment)
    assert [(row.txnid, row.state, row.user, row.type) for row in rows] == [
        (opened, "OPEN", "ann", "DEFAULT"),
        (aborted, "ABORTED", "ann", "DEFAULT"),
        (reader, "OPEN", "bob", "READ_ONLY"),
    ]
    assert rows[2].agent_info == "q"
    assert all(row.startedtime > 1_600_000_000_000 for row in rows)


def test_settings_with_their_sources(deployment: Site) -> None:
    rows = {row.key: row for row in show_settings(deployment.settings)}
    assert rows["hive.compactor.delta.num.threshold"].value == "10"
    assert rows["hive.compactor.delta.num.threshold"].source == "default"
    assert rows["compactor.mode"].value == "clean"


def test_decisions_of_the_newest_pass(deployment: Site, warehouse) -> None:  # type: ignore[no-untyped-def]
    from compactor.initiator.initiator import initiate

    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s10_dml_over_base"), warehouse)
    initiate(deployment)
    (row,) = show_decisions(deployment)
    assert row.table == "default.f1_basic"
    assert row.outcome == "major"
    assert row.numbers["deltas"] == 4


def test_without_a_state_there_are_no_decisions_to_show(deployment: Site) -> None:
    from dataclasses import replace

    with pytest.raises(Refused, match="state_url"):
        show_decisions(replace(deployment, state=None))


@pytest.fixture
def site(deployment: Site) -> Site:
    for number, (table, partition, until) in enumerate([("t", "p=1", 30), ("t", "p=2", 20), ("u", None, 25)], start=1):
        entity = Entity(database="default", table=table, partition=partition)
        one = Quarantined(entry_id=number, entity=entity, location="/w", since=10, until=until, bytes=7, names=NAMES)
        own_state(deployment).quarantines.keep(deployment.name, one)
    waiting = Quarantined(entry_id=4, entity=Entity(database="default", table="t"), location="/w", since=1, until=2)
    own_state(deployment).quarantines.keep(deployment.name, waiting)
    return deployment


def test_what_is_erased_next_comes_first_and_what_waits_for_its_cleaning_is_left_out(site: Site) -> None:
    assert [row.compactionid for row in show_quarantine(site)] == [2, 3, 1]
    assert [row.compactionid for row in show_quarantine(site, limit=1)] == [2]


def test_a_row_in_json(site: Site) -> None:
    assert show_quarantine(site)[0].to_json() == {
        "compactionid": 2,
        "dbname": "default",
        "tabname": "t",
        "partname": "p=2",
        "directories": list(NAMES),
        "bytes": 7,
        "since": 10,
        "until": 20,
        "location": "/w",
    }


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (QuarantineFilter(where=Where(table="t")), [2, 1]),
        (QuarantineFilter(where=Where(partition="p=1")), [1]),
        (QuarantineFilter(id=3), [3]),
        (QuarantineFilter(where=Where(database="other")), []),
    ],
)
def test_filters(site: Site, wanted: QuarantineFilter, ids: list[int]) -> None:
    assert [row.compactionid for row in show_quarantine(site, wanted)] == ids


def test_by_partition(site: Site) -> None:
    found = quarantine_of_table(site, "default", "t")
    assert {entity.partition: [row.compactionid for row in rows] for entity, rows in found.items()} == {
        "p=1": [1],
        "p=2": [2],
    }
    assert all(isinstance(row, QuarantineRow) for rows in found.values() for row in rows)
