"""A pilot: the site's own file opens one database of many, and nothing of the others is touched by any role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.base.errors import Refused
from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import run_batch, run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.states import State
from compactor.doctor.checks import doctor
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.schema.tables import TXNS
from compactor.requests.abort import abort_compaction, abort_transaction
from compactor.requests.overrides import override
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from tests.support.lost_workers import begun
from tests.support.tables import delete, insert, make_table, with_settings
from tests.support.watching import files_below, rows_about

PILOT = """
[metastore.default]
mode = "observe"

[metastore.default.settings]
"hive.compactor.delta.num.threshold" = 1
"hive.txn.opentxn.timeout" = "1ms"
"compactor.forget.grace" = "0s"

[metastore.default.database_modes]
pilot = "clean"
"""


@pytest.fixture
def pilot(deployment: Site, warehouse: Path, metastore_url: str, tmp_path: Path) -> Iterator[Site]:
    """A site whose file opens the database ``pilot``; ``pilot.t`` and ``default.u`` have the same history."""
    for database, name in (("pilot", "t"), ("default", "u")):
        table = make_table(deployment, warehouse, name, database=database)
        for start in (0, 4):
            insert(deployment, table, range(start, start + 4))
        insert(deployment, table, range(8, 12), commits=False)
        delete(deployment, table, [1])
    file = tmp_path / "compactor.toml"
    file.write_text(PILOT)
    environment = {"COMPACTOR_METASTORE_URL": metastore_url, "COMPACTOR_WAREHOUSE": str(warehouse)}
    with open_site(configure(environment=environment, config_path=str(file))) as site:
        yield site


def test_every_role_works_in_the_pilot_and_touches_nothing_else(pilot: Site, warehouse: Path, tmp_path: Path) -> None:
    database = tmp_path / "metastore.db"
    request_compaction(pilot, table="pilot.t", type="major")
    request_compaction(with_settings(pilot), table="default.u", type="major")  # by Hive, so to speak
    before = rows_about(database, "default"), files_below(warehouse / "u")
    opened = [row.id for row in pilot.metastore.transactions.open_transactions()]

    considered = {str(one.entity): one for one in initiate(pilot).considered}
    assert considered["default.u"].entry_id is None
    waiting = next(e.id for e in pilot.metastore.entries.queue() if e.entity.database == "pilot")
    assert list_claimable_ids(pilot) == [waiting]
    for batch in plan_batches(pilot):
        run_batch(pilot, batch.batch_id, InProcessRunner())
    assert pilot.metastore.entries.get(waiting).state is State.READY_FOR_CLEANING
    run_entries(pilot, [e.id for e in pilot.metastore.entries.queue()], InProcessRunner())  # also when named outright
    cleaned = [one for _ in range(3) for one in clean(pilot).cleaned]
    assert {one.entity.database for one in cleaned} == {"pilot"}
    assert keep_house(pilot).acted is False

    assert rows_about(database, "default") == before[0]
    assert files_below(warehouse / "u") == before[1]
    assert [row.id for row in pilot.metastore.transactions.open_transactions()] == opened
    assert [name for name in files_below(warehouse / "t") if name.startswith("delta")] == []


def test_a_silent_transaction_of_somebody_else_is_left_to_hive(pilot: Site) -> None:
    """Nobody knows which databases an open transaction will write to; Hive's own housekeeper ends it."""
    (silent,) = pilot.metastore.transactions.open("ann", "laptop")
    with pilot.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(silent == TXNS.c.TXN_ID).values(TXN_LAST_HEARTBEAT=0))
    for role in (initiate, clean, keep_house, plan_batches):
        role(pilot)
    assert pilot.metastore.transactions.state(silent) == "o"
    with pytest.raises(Refused, match=r"compactor\.mode is observe"):
        abort_transaction(pilot, silent, "by hand")


def test_people_are_refused_outside_of_the_pilot_and_served_inside(pilot: Site) -> None:
    with pytest.raises(Refused, match=r"default\.u: compactor\.mode is observe"):
        request_compaction(pilot, table="default.u")
    with pytest.raises(Refused, match=r"default\.u: compactor\.mode is observe"):
        override(pilot, "default.u", "hive.compactor.delta.num.threshold", "3", "ann")
    override(pilot, "pilot.t", "hive.compactor.delta.num.threshold", "3", "ann")
    request_compaction(pilot, table="pilot.t")
    (entry,) = pilot.metastore.entries.queue()
    assert abort_compaction(pilot, entry.id).state is State.ABORTED


def test_a_lost_worker_of_the_pilot_is_repaired(pilot: Site) -> None:
    entry, txn = begun(pilot, pilot.metastore.catalog.table("pilot", "t"))
    with pilot.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(txn == TXNS.c.TXN_ID).values(TXN_LAST_HEARTBEAT=0))
    (repaired,) = initiate(pilot).repaired
    assert repaired.entry.id == entry.id
    assert pilot.metastore.transactions.state(txn) == "a"


def test_the_doctor_names_the_databases_that_may_be_written_to(pilot: Site) -> None:
    (said,) = [finding.found for finding in doctor(pilot) if finding.subject == "mode"]
    assert said == "observe, from compactor.toml; of 2 databases, these may be written to: pilot (clean)"
