from __future__ import annotations

import pytest

from compactor.answers.show import TransactionRow, show_decisions, show_settings, show_transactions
from compactor.base.errors import Refused
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.site import Site
from demo.fixtures import register_fixture
from tests.support.expected import step


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
