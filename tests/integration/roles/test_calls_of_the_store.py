"""Calls of a worker and a cleaner to the store for a small partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.cleaner.cleaner import clean
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options
from compactor.worker.worker import work_together
from tests.support.counted_storage import CountedStorage
from tests.support.many import make_partitions
from tests.support.passes import settle, with_storage
from tests.support.tables import with_settings

PARTITIONS = 12


def of_each(counts: Counter[str]) -> dict[str, int]:
    """Returns the calls for each partition, without those that a whole group or pass makes."""
    return {name: number // PARTITIONS for name, number in counts.items() if number >= PARTITIONS}


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_cleaner_threads_num="1")


def test_calls_for_a_small_partition(site: Site, warehouse: Path) -> None:
    """They do not grow with the number of deltas; a call more would cost a far store a round trip for each partition."""
    table = make_partitions(site.metastore, warehouse, PARTITIONS, deltas=12, name="parted")
    request_compaction(site, table=str(table), type="major")
    worker = CountedStorage()
    outcomes: list[Outcome] = []
    counted = with_storage(site, worker).for_a_pass()
    work_together(counted, list_claimable_ids(site), InProcessRunner(), Options(), outcomes.append)
    assert [outcome.result for outcome in outcomes] == [Result.COMPACTED] * PARTITIONS
    claims = {"listing": 1, "write": 1}  # the first compaction of a directory claims it
    assert of_each(worker.counts - Counter({name: number * PARTITIONS for name, number in claims.items()})) == {
        "listing": 3,
        "free_bytes": 1,
        "make_private": 1,
        "adopt": 1,
        "write": 1,
        "rename": 1,
        "remove": 1,
    }
    settle()
    cleaner = CountedStorage()
    passed = clean(with_storage(site, cleaner))
    assert (len(passed.cleaned), passed.failed) == (PARTITIONS, ())
    assert of_each(cleaner.counts) == {"listing": 3, "identities": 3, "rename_each": 1, "remove_all": 1}
