"""A mirrored table of a few rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.site.site import Site
from compactor.tables.store import Store
from tests.support.mirrored import MirroredTable, mirror_table

COLUMNS = {"id": "bigint", "name": "string"}


def numbered(numbers: range) -> pa.Table:
    return pa.table({"id": pa.array(list(numbers), pa.int64()), "name": [f"row {n}" for n in numbers]})


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    store = Store(deployment)
    store.create_database("d", str(warehouse))
    return store


@pytest.fixture
def mirrored(store: Store, tmp_path: Path) -> MirroredTable:
    """Returns ``d.t`` with five rows, and a mirror that shows none of them yet."""
    store.create_table("d.t", COLUMNS).append(numbered(range(5)))
    return mirror_table(store.site, tmp_path / "lake", "d.t")
