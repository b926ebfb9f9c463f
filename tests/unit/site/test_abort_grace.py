from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.base.ids import TxnId, WriteId
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import TXNS
from compactor.site.abort_grace import AbortGrace
from compactor.site.site import Site
from compactor.state.state_tables import ABORTS
from tests.support.tables import insert, make_table, with_settings

DELTA = "delta_0000001_0000001_0000"


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, compactor_forget_grace="1h")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    """Its write ID 1 is aborted."""
    made = make_table(site, warehouse)
    insert(site, made, [1], commits=False)
    return made


def aborted_of(site: Site) -> TxnId:
    (txn,) = site.metastore.transactions.aborted()
    return txn


def pass_an_hour(site: Site) -> None:
    """Makes what was seen an hour older."""
    assert site.state is not None
    with site.state.database.write() as conn:
        conn.execute(update(ABORTS).values(SEEN_AT=ABORTS.c.SEEN_AT - 3_600_000))


def test_the_time_counts_from_the_first_pass_that_saw_the_abort(site: Site, table: Table) -> None:
    """PROTOCOL 11.7: TXNS has no time of abort, and its other times say nothing about it."""
    txn = aborted_of(site)
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).values(TXN_STARTED=1, TXN_LAST_HEARTBEAT=1))
    assert not AbortGrace.recorded(site).is_over(txn)
    assert not AbortGrace.recorded(site).is_over(txn)
    pass_an_hour(site)
    assert AbortGrace.recorded(site).is_over(txn)
    assert AbortGrace(site).is_over(txn)


def test_the_number_of_another_transaction_is_seen_for_the_first_time(site: Site, table: Table) -> None:
    """PROTOCOL 11.7: a restored metastore gave the number to another INSERT."""
    txn = aborted_of(site)
    AbortGrace.recorded(site)
    pass_an_hour(site)
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).values(TXN_STARTED=TXNS.c.TXN_STARTED + 1))
    assert not AbortGrace(site).is_over(txn)
    assert not AbortGrace.recorded(site).is_over(txn)


def test_who_only_reads_stores_nothing(site: Site, table: Table) -> None:
    site_ = with_settings(site, compactor_forget_grace="0s")
    assert not AbortGrace(site_).is_over(aborted_of(site))
    assert AbortGrace.recorded(site_).is_over(aborted_of(site))
    assert AbortGrace(site_).is_over(aborted_of(site))


def test_without_a_state_of_our_own_the_time_is_never_over(site: Site, table: Table) -> None:
    """PROTOCOL 11.7: nobody knows when the abort was first seen."""
    stateless = replace(with_settings(site, compactor_forget_grace="0s"), state=None)
    grace = AbortGrace.recorded(stateless)
    assert not grace.is_over(aborted_of(site))
    assert grace.names_in_grace("default", "t", [DELTA], [WriteId(1)]) == {DELTA}


def test_a_directory_is_held_while_it_may_hold_a_young_write(site: Site, table: Table) -> None:
    """PROTOCOL 11.7: a streaming writer's delta has write IDs of several transactions."""
    AbortGrace.recorded(site)
    pass_an_hour(site)
    insert(site, table, [2], commits=False)
    grace = AbortGrace.recorded(site)
    both, output = "delta_0000001_0000002", "delta_0000001_0000002_v0000009"
    names = [DELTA, "delete_delta_0000002_0000002_0000", both, output, "000000_0", "base_0000002"]
    aborted = [WriteId(1), WriteId(2)]
    assert grace.names_in_grace("default", "t", names, aborted) == {names[1], both, "base_0000002"}
    assert grace.names_in_grace("default", "t", names, []) == frozenset()


def test_what_was_aborted_during_the_pass_is_young(site: Site, table: Table) -> None:
    grace = AbortGrace.recorded(with_settings(site, compactor_forget_grace="0s"))
    insert(site, table, [2], commits=False)
    assert grace.names_in_grace("default", "t", [DELTA, "base_0000002"], [WriteId(1), WriteId(2)]) == {"base_0000002"}
