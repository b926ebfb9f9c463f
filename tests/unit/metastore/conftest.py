"""A table to write into."""

from __future__ import annotations

import pytest

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore


@pytest.fixture
def partitioned(metastore: Metastore) -> Table:
    """``default.p``, partitioned by the text ``d``, without partitions."""
    metastore.embedded_catalog.create_database("default", "/w")
    keys = [Column(name="d", type="string")]
    return metastore.embedded_catalog.create_table(
        NewTable("default", "p", "/w/p", [Column(name="a", type="int")], partition_keys=keys)
    )
