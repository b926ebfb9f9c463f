"""Mirrors of tables in object stores, next to them, through catalogs whose files PyIceberg reads and writes itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.metastore.catalog.values import Table
from compactor.mirror.catalogs import open_catalog
from compactor.mirror.mirrored_tables import NewMirror, add_mirror, remove_mirror, run_mirrors
from compactor.mirror.retention import named_files
from compactor.site.site import Site
from compactor.tables.store import Store
from tests.storage.conftest import Place
from tests.support.moved_tables import moved
from tests.support.passes import compact
from tests.support.tables import delete, insert, make_table, with_settings


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    created = make_table(deployment, warehouse)
    insert(deployment, created, range(10))
    insert(deployment, created, range(1000, 1002), commits=False)
    delete(deployment, created, [3])
    return created


def io_properties(place: Place) -> dict[str, str]:
    """Returns the properties by which PyIceberg reaches the store."""
    if place.kind == "s3":
        options = place.stores.options.of_place("s3", "")
        return {
            "s3.endpoint": str(options["endpoint_url"]),
            "s3.access-key-id": str(options["key"]),
            "s3.secret-access-key": str(options["secret"]),
        }
    return {}


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
def test_a_mirror_next_to_its_table(deployment: Site, table: Table, place: Place, tmp_path: Path) -> None:
    site = moved(with_settings(deployment, compactor_mirror_retention="0h"), table, place.stores, place.location)
    root = place.location.replace("file:/", "file:///")
    lake = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"{root}-lake",
        **io_properties(place),
    }
    site = replace(site, catalogs={"lake": lake})
    add_mirror(site, NewMirror(table="default.t", catalog="lake"))

    def shown() -> list[tuple[int, str]]:
        (outcome,) = run_mirrors(site)
        assert outcome.error is None
        rows = open_catalog(site, "lake").load_table("default.t").scan().to_arrow()
        return sorted(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))

    def expected() -> list[tuple[int, str]]:
        rows = Store(site).load_table("default.t").scan().to_arrow()
        return sorted(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))

    assert shown() == expected()
    assert len(expected()) == 9
    Store(site).load_table("default.t").append(pa.table({"a": [10, 11], "b": ["x", "y"]}))
    Store(site).load_table("default.t").delete("a = 5 or a = 11")
    assert shown() == expected()
    compact(site, "major")
    assert shown() == expected()
    Store(site).load_table("default.t").update({"b": "'new'"}, "a = 7")
    assert shown() == expected()
    iceberg = open_catalog(site, "lake").load_table("default.t")
    location = site.storage.resolve(iceberg.location())
    ours = {
        f"{folder}/{name}"
        for folder in ("data", "metadata")
        for name in site.storage.children(f"{location}/{folder}")
        if not name.endswith(".metadata.json")
    }
    assert len(iceberg.metadata.snapshots) == 1
    assert ours == named_files(iceberg)
    remove_mirror(site, "default.t", purge=True)
    assert site.storage.children(f"{location}/data") == ()
