"""Mirrors for readers of which one shows some values differently."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import NotSupported
from compactor.mirror.mirrored_tables import NewMirror, add_mirror, rebuild_mirror, run_mirrors
from compactor.site.site import Site
from compactor.tables.store import Store
from tests.judges.iceberg_java import iceberg_1_12, rows_of_arrow
from tests.support.mirrored import MirroredTable, with_catalog


@pytest.mark.parametrize("for_pyiceberg", [True, False])
def test_values_that_pyiceberg_shows_differently(deployment: Site, tmp_path: Path, for_pyiceberg: bool) -> None:
    """PROTOCOL 15.7: they are refused, or shown right by other readers; a rebuilt mirror has the same readers."""
    site = with_catalog(deployment, tmp_path / "lake")
    store = Store(site)
    store.create_database("d", str(tmp_path / "d"))
    table = store.create_table("d.t", {"id": "int", "a": "array<struct<x:int>>", "t": "timestamp", "c": "char(3)"})
    structs, late = pa.list_(pa.struct({"x": pa.int32()})), 10**10 * 10**6
    rows = {
        "id": pa.array([1, 2, 3], pa.int32()),
        "a": pa.array([None, [], [{"x": 1}]], structs),
        "t": pa.array([late, None, 0], pa.timestamp("us")),
        "c": ["a", "b ", None],
    }
    table.append(pa.table(rows))
    table.delete("id = 2")
    add_mirror(site, NewMirror(table="d.t", catalog="lake", for_pyiceberg=for_pyiceberg))
    for _ in range(2):
        (outcome,) = run_mirrors(site, [])
        if for_pyiceberg:
            assert isinstance(outcome.error, NotSupported)
            assert "column a has a NULL array<struct<x:int>>" in str(outcome.error)
            assert "--without-pyiceberg" in str(outcome.error)
        else:
            assert outcome.error is None
            iceberg = MirroredTable(site=site, name="d.t").iceberg
            expected = rows_of_arrow(pa.table(rows))
            shown = iceberg_1_12().rows_of_table(iceberg.metadata_location)
            assert sorted(shown) == [expected[0], expected[2]]
        rebuild_mirror(site, "d.t")
