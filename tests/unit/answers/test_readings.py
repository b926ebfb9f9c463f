from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy import delete

from compactor.answers.readings import Readings, take_readings
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.schema.tables import COMPLETED_COMPACTIONS
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


def test_hives_own_worker_next_to_ours_is_not_a_mixture(deployment: Site) -> None:
    def versions(*of_workers: str) -> int:
        with deployment.metastore.database.write() as conn:
            conn.execute(delete(COMPLETED_COMPACTIONS))
        for version in of_workers:
            deployment.metastore.requests.request(
                Request(
                    entity=Entity(database="default", table="t"), type=CompactionType.MAJOR, initiator="compactor-t"
                )
            )
            entry = deployment.metastore.claims.claim("compactor-w", version, pool_timeout_ms=0)
            assert entry is not None
            deployment.metastore.claims.finish(entry, State.REFUSED)
        return take_readings(deployment).worker_versions

    assert versions("compactor-1.0", "4.1.0") == 1
    assert versions("compactor-1.0", "compactor-1.1", "4.1.0") == 2
    assert versions("compactor-1.0", "4.1.0", "4.2.0") == 2
    assert versions() == 0


def test_results_that_wait_for_the_cleaner_did_not_fail() -> None:
    assert Readings(failed=1, succeeded=1, ready_for_cleaning=98).failed_ratio == 0.01
    assert Readings(failed=1).failed_ratio == 1.0
    assert Readings().failed_ratio == 0.0


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
