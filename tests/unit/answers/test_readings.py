from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compactor.answers.readings import Readings, take_readings
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.mark_files import MarkFiles
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site
from tests.support.backups import Backup
from tests.support.tables import insert, make_table


def test_readings_of_a_metastore(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    insert(deployment, table, [2])
    insert(deployment, table, [3], commits=False)
    (txn,) = deployment.metastore.transactions.open("ann", "laptop")
    (asked,) = request_compaction(deployment, table="t")
    found = take_readings(deployment)
    assert (found.initiated, found.open_transactions, found.aborted_transactions) == (1, 1, 1)
    assert (found.most_aborted, found.failed, found.succeeded) == (1, 0, 0)
    assert found.oldest_open_txn_ms >= 0
    assert found.txn_to_write_id >= 3
    deployment.metastore.transactions.abort(txn, "test")
    assert asked.entry_id is not None
    run_entries(deployment, [asked.entry_id], InProcessRunner())
    found = take_readings(deployment)
    assert (found.initiated, found.ready_for_cleaning, found.worker_versions) == (0, 1, 1)
    assert deployment.metastore.entries.queue(states=(State.READY_FOR_CLEANING,))
    assert set(found.to_json()) == set(Readings.__slots__)


def test_a_restored_metastore_and_a_memory_that_is_away_are_read(deployment: Site, tmp_path: Path) -> None:
    """PROTOCOL 11.2."""
    backup = Backup(tmp_path / "metastore.db")
    backup.take()
    assert take_readings(deployment).contradictions == 0
    (txn,) = deployment.metastore.transactions.open("ann", "h")
    deployment.metastore.transactions.commit(txn)
    must_be_newest(deployment)
    backup.restore()
    found = take_readings(deployment)
    assert (found.contradictions, found.memory_away) == (2, 0)
    assert deployment.memory is not None
    away = replace(deployment, memory=MarkFiles(deployment.storage, str(tmp_path / "metastore.db"), "default"))
    assert take_readings(away).memory_away == 1
