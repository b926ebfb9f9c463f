from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import NotFound, NotSupported, Refused
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.site import Site
from compactor.site.view import compactor_view
from tests.support.tables import entity_of, insert, make_table

KEYS = [Column(name="k", type="string")]


def test_identities_are_ours_unique_and_fit_their_column(deployment: Site) -> None:
    """PROTOCOL 6: they begin with ``compactor-``, since Hive takes back rows that begin with its host name."""
    names = {deployment.identity("worker") for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("compactor-worker-") and len(name) <= 128 for name in names)


def test_a_target_is_a_table_or_one_of_its_partitions(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    target = deployment.target(entity_of(table))
    assert (target.location, target.partition, target.row_type) == (
        str(warehouse / "t"),
        None,
        "struct<a:int,b:string>",
    )
    embedded = deployment.metastore.embedded_catalog
    parted = embedded.create_table(
        NewTable("default", "p", f"file:{warehouse}/p", list(table.columns), partition_keys=KEYS)
    )
    embedded.add_partition(parted, ["x"])
    found = deployment.target(Entity(database="default", table="p", partition="k=x"))
    assert found.location == f"{warehouse}/p/k=x"
    assert found.row_type == "struct<a:int,b:string>"


def test_entities_that_are_not_targets(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    embedded = deployment.metastore.embedded_catalog
    embedded.create_table(NewTable("default", "p", f"{warehouse}/p", list(table.columns), partition_keys=KEYS))
    embedded.create_table(NewTable("default", "far", "ftp://b/far", list(table.columns)))
    with pytest.raises(NotFound, match="gone"):
        deployment.target(Entity(database="default", table="gone"))
    with pytest.raises(NotFound, match="k=no"):
        deployment.target(Entity(database="default", table="p", partition="k=no"))
    with pytest.raises(Refused, match="name the partition"):
        deployment.target(Entity(database="default", table="p"))
    with pytest.raises(NotSupported, match="ftp"):
        deployment.target(Entity(database="default", table="far"))


def test_settings_of_a_table_are_known_even_if_it_is_broken(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    said = {"compactor.mode": "request"}
    embedded = deployment.metastore.embedded_catalog
    embedded.create_table(NewTable("default", "far", "s3a://b/far", list(table.columns), parameters=said))
    assert deployment.settings_of(Entity(database="default", table="far")).mode == "request"
    assert deployment.settings_of(Entity(database="default", table="gone")) == deployment.settings


def test_a_requests_properties_take_precedence_over_the_tables(deployment: Site, warehouse: Path) -> None:
    key = "hive.compactor.worker.pool"
    table = make_table(deployment, warehouse, **{key: "of the table"})
    entity = entity_of(table)
    assert deployment.target(entity).settings.text(key) == "of the table"
    assert deployment.target(entity, {f"compactor.{key}": "asked"}).settings.text(key) == "asked"


def test_a_compactors_view_ends_below_what_is_open(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 1.1."""
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    (writer,) = deployment.metastore.transactions.open("ann", "h")
    deployment.metastore.write_ids.allocate(writer, "default", "t")
    insert(deployment, table, [2])
    view = compactor_view(deployment, deployment.target(entity_of(table)))
    assert view.write_ids.high_watermark == 1
    assert [d.delta.max_write_id for d in view.directory.compactable()] == [1]
