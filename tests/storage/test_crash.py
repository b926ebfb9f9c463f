"""A worker or cleaner is killed while its table lies in a store that names file by file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from compactor.base.steps import Step
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.storage.stores import Stores
from tests.storage.conftest import AZURE, BUCKET, Place, azure_options, s3_options
from tests.storage.test_tables import left, moved, read_rows
from tests.support import roles
from tests.support.azurite import connection
from tests.support.forked import die
from tests.support.passes import age, clean_all, lose_cleaners, time_out_all
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
#: Where staged files are copied, these follow other requests; test_abfs.py has a death between two copies.
COPYING = (Step.NAMED_FIRST, Step.REMOVED)
#: Around what such a store makes other than a directory: the first name, the commit, what is half removed.
SHORT = {("s3", Step.NAMED_FIRST), ("s3", Step.COMMITTED), ("s3", Step.REMOVED), ("abfs", Step.NAMED_FIRST)}


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        pytest.param(kind, step, marks=[] if (kind, step) in SHORT else pytest.mark.whole)
        for kind, steps in {"s3": STEPS, "abfs": COPYING}.items()
        for step in steps
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_crash_over_an_object_store(
    deployment: Site,
    metastore_url: str,
    warehouse: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    kind: str,
    step: Step,
) -> None:
    """PROTOCOL 3.4, 6, 7.2: what a dead worker left is taken away alone; what is whole stays."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = _table(site, warehouse)
    config = tmp_path / "compactor.toml"
    place = _place(kind, request, f"crash-{tmp_path.name}/t", config)
    site = moved(site, table, place.stores, place.location)
    wanted = read_rows(site, table)
    request_compaction(site, table="default.t", type="major")
    role = roles.worker
    if step in _CLEANER:
        run_entries(site, list_claimable_ids(site), InProcessRunner())
        role = roles.cleaner
    die(partial(roles.configured, str(config), role), metastore_url, step)
    assert read_rows(site, table) == wanted
    age(site)
    if step in _CLEANER:
        time_out_all(site)  # it died with the table's exclusive lock, and with its entry
        lose_cleaners(site)
    repair(site)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    clean(site)
    assert read_rows(site, table) == read_rows(site, table, honours_visibility=False) == wanted
    (name,) = left(site, table)
    assert name.startswith("base_")


def _place(kind: str, request: pytest.FixtureRequest, name: str, config: Path) -> Place:
    """Makes a place in the store of ``kind``; ``config`` passes it to another process."""
    if kind == "s3":
        url = request.getfixturevalue("s3_url")
        config.write_text(f'[storage.s3]\nendpoint_url = "{url}"\nkey = "somebody"\nsecret = "something"\n')
        return Place(kind=kind, location=f"s3a://{BUCKET}/{name}", stores=Stores(s3_options(url)))
    url = request.getfixturevalue("azure_url")
    config.write_text(f'[storage.abfs]\nconnection_string = "{connection(url)}"\n')
    return Place(kind=kind, location=f"{AZURE}/{name}", stores=Stores(azure_options(url)))


def _table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, range(10))
    insert(site, table, range(10, 20))
    return table
