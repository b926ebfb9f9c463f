"""Only the first driver of a batch works on it (DESIGN 6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import run_batch
from compactor.compaction.states import State
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.tables import insert, make_table
from tests.support.watching import Interrupted, files_below, rows_of_database


def planned(site: Site, warehouse: Path) -> int:
    table = make_table(site, warehouse)
    for start in (0, 4):
        insert(site, table, range(start, start + 4))
    request_compaction(site, table="default.t")
    (batch,) = plan_batches(site)
    return batch.batch_id


class Untouchable:
    """A runner that must not be asked."""

    application: str | None = None

    def run(self, jobs: object) -> list[object]:
        raise AssertionError("a second driver began to work")


def test_a_second_driver_ends_without_touching_anything(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    batch = planned(deployment, warehouse)
    database = tmp_path / "metastore.db"

    def second() -> None:
        before = rows_of_database(database), files_below(warehouse)
        done = run_batch(deployment, batch, Untouchable())  # type: ignore[arg-type]
        assert not done.mine
        assert done.outcomes == ()
        assert (rows_of_database(database), files_below(warehouse)) == before

    done = run_batch(deployment, batch, Interrupted(before=second))
    assert done.mine
    assert [o.result for o in done.outcomes] == [Result.COMPACTED]
    second()  # and a late one, when all is done


def test_what_a_batch_has_reserved_nobody_else_takes(deployment: Site, warehouse: Path) -> None:
    batch = planned(deployment, warehouse)
    assert list_claimable_ids(deployment) == []
    assert plan_batches(deployment) == []
    assert run_batch(deployment, batch, InProcessRunner()).mine


def test_a_driver_that_breaks_leaves_nothing_and_its_entry_waits_again(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 6: an error that is not the entry's own queues it again; its transaction is aborted first."""
    batch = planned(deployment, warehouse)
    before = files_below(warehouse / "t")

    def breaks() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_batch(deployment, batch, Interrupted(after=breaks))
    assert files_below(warehouse / "t") == before
    (entry,) = deployment.metastore.entries.queue()
    assert (entry.state, entry.txn_id, entry.worker_id) == (State.INITIATED, None, None)
    assert deployment.metastore.transactions.open_transactions() == []
    (again,) = plan_batches(deployment)
    assert again.batch_id != batch
    assert [o.result for o in run_batch(deployment, again.batch_id, InProcessRunner()).outcomes] == [Result.COMPACTED]
