"""A table whose metastore is put back, with nothing remembered outside of its database."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from tests.support.backups import Backup, without_memory
from tests.support.tables import insert, make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(without_memory(deployment), hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, [1, 2, 3])
    return table


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return Backup(tmp_path / "metastore.db")
