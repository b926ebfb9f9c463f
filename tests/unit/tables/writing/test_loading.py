"""Files that are loaded are read as Hive reads a table's original files, all of their digits included."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from compactor.base.errors import NotConforming, StorageError
from compactor.site.site import Site
from compactor.tables.store import Store
from compactor.tables.writing.loading import list_local_files, must_have_table_columns, read_rows


def test_values_are_read_in_the_tables_types(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    store = Store(deployment)
    store.create_database("d", str(warehouse))
    made = store.create_table("d.t", {"t": "timestamp", "d": "decimal(5,2)", "l": "array<int>"})
    rows = pa.table(
        {
            "t": pa.array([datetime(2026, 11, 1, 1, 2, 3, 456789), None], pa.timestamp("ns")),
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "l": pa.array([[1, None], None], pa.list_(pa.int32())),
        }
    )
    orc.write_table(rows, tmp_path / "rows.orc", batch_size=1)
    table = deployment.metastore.catalog.table("d", "t")
    folder, files = list_local_files(deployment, str(tmp_path / "rows.orc"))
    must_have_table_columns(deployment, table, folder, files)
    assert made.append(read_rows(deployment, table, folder, files)) == 2
    found = made.scan().to_arrow()
    assert found.cast(rows.schema).to_pylist() == rows.to_pylist()
    orc.write_table(rows.slice(0, 1), tmp_path / "rows.orc")
    with pytest.raises(StorageError, match=r"changed while it was loaded.*rows\.orc"):
        made.append(read_rows(deployment, table, folder, files))
    assert made.scan().count() == 2
    narrow = store.create_table("d.n", {"t": "timestamp", "d": "decimal(4,2)", "l": "array<int>"})
    orc.write_table(rows, tmp_path / "rows.orc")
    with pytest.raises(NotConforming, match=r"has column d decimal\(5,2\)"):
        must_have_table_columns(deployment, deployment.metastore.catalog.table("d", "n"), folder, files)
    assert narrow.scan().count() == 0
