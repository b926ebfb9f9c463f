"""A worker or cleaner is killed while its table lies in a store that names file by file."""

from __future__ import annotations

import multiprocessing
import signal
from functools import partial
from pathlib import Path

import pytest

from compactor.metastore.catalog import Table
from compactor.rewrite.runner import InProcessRunner
from compactor.service.batch import claimable, run_entries
from compactor.service.cleaner import clean
from compactor.service.repair import repair
from compactor.service.request import request_compaction
from compactor.service.site import Site
from compactor.steps import Step
from compactor.storage.stores import Stores
from tests.storage.conftest import BUCKET, Place, s3_options
from tests.storage.test_tables import left, moved, rows
from tests.support import roles
from tests.support.passes import age, clean_all, time_out_all
from tests.support.patience import PATIENCE
from tests.support.tables import insert, make_table, with_settings

#: Attempts are uploads there, names are copies of single files, and what goes is not hidden before.
STEPS = (
    Step.ATTEMPT_STARTED,
    Step.ATTEMPT_WRITTEN,
    Step.ACCEPTED,
    Step.MANIFEST_WRITTEN,
    Step.NAMED_FIRST,
    Step.NAMED,
    Step.COMMITTED,
    Step.HIDDEN,
    Step.REMOVED,
)
_CLEANER = (Step.HIDDEN, Step.REMOVED)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_crash_over_an_object_store(
    deployment: Site, metastore_url: str, warehouse: Path, tmp_path: Path, s3_url: str, step: Step
) -> None:
    """PROTOCOL 3.4, 6, 7.2: what a dead worker left is taken away alone; what is whole stays."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = _table(site, warehouse)
    place = Place(kind="s3", location=f"s3a://{BUCKET}/crash-{tmp_path.name}/t", stores=Stores(s3_options(s3_url)))
    site = moved(site, table, place)
    wanted = rows(site, table)
    request_compaction(site, table="default.t", type="major")
    role = roles.worker
    if step in _CLEANER:
        run_entries(site, claimable(site), InProcessRunner())
        role = roles.cleaner
    config = tmp_path / "compactor.toml"
    config.write_text(f'[storage.s3]\nendpoint_url = "{s3_url}"\nkey = "somebody"\nsecret = "something"\n')
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.roles"])
    process = context.Process(
        target=roles.die_at, args=(partial(roles.over_s3, str(config), role), metastore_url, step.name)
    )
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL, f"the pass ended with {process.exitcode} and never came to {step.name}"
    assert rows(site, table) == wanted
    age(site)
    if step in _CLEANER:
        time_out_all(site)  # it died with the table's exclusive lock
    repair(site)
    run_entries(site, claimable(site), InProcessRunner())
    clean_all(site)
    clean(site)
    assert rows(site, table) == rows(site, table, honours_visibility=False) == wanted
    (name,) = left(site, table)
    assert name.startswith("base_")


def _table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, range(10))
    insert(site, table, range(10, 20))
    return table
