"""A site with a neighbour that nobody may touch, and a place outside of the warehouse."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from tests.support.hostile import due_table, everything_in
from tests.support.kept_tables import KeptTables
from tests.support.tables import with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(
        deployment,
        hive_compactor_delta_num_threshold="1",
        hive_compactor_abortedtxn_threshold="0",
        hive_txn_opentxn_timeout="1ms",
        compactor_forget_grace="0s",
    )


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Files of somebody else, which look like a table's; they are the same afterwards."""
    made = tmp_path / "outside"
    for name in ("delta_0000001_0000001_0000", "base_0000009", "out/base_0000003"):
        (made / name).mkdir(parents=True)
        (made / name / "bucket_00000").write_bytes(b"somebody else's")
    (made / "secret").write_bytes(b"password")
    (made / "secret").chmod(0o600)
    before = everything_in(made)
    yield made
    assert everything_in(made) == before


@pytest.fixture
def hostile(site: Site, due_tables: None) -> Table:
    """A table in whose directory a stranger may write."""
    return site.metastore.catalog.table("default", "hostile")


@pytest.fixture
def neighbour(site: Site, due_tables: None) -> Table:
    """Another table, as due as the hostile one."""
    return site.metastore.catalog.table("default", "neighbour")


@pytest.fixture
def due_tables(request: pytest.FixtureRequest, site: Site, warehouse: Path, kept_tables: KeptTables) -> None:
    """The one or the other of these tables, or both."""
    has_both = {"hostile", "neighbour"} <= set(request.fixturenames)
    make_one = make_hostile if "hostile" in request.fixturenames else make_neighbour
    kept_tables.get(site, warehouse, make_both if has_both else make_one)


def make_hostile(site: Site, warehouse: Path) -> Table:
    return due_table(site, warehouse, "hostile")


def make_neighbour(site: Site, warehouse: Path) -> Table:
    return due_table(site, warehouse, "neighbour")


def make_both(site: Site, warehouse: Path) -> Table:
    make_neighbour(site, warehouse)
    return make_hostile(site, warehouse)


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Nothing that is opened stays open."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 3  # connections of the database's pool come and go
