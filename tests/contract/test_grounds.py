"""Locations of tables and partitions, as every database finds them (PROTOCOL 11.13)."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import update

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.locations import PartitionGround
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import SDS, TBLS

KEYS = [Column(name="p", type="string")]


def make(metastore: Metastore, name: str, location: str, **parameters: str) -> Table:
    columns = [Column(name="a", type="int")]
    new = NewTable("default", name, location, columns, partition_keys=KEYS, parameters=parameters)
    return metastore.embedded_catalog.create_table(new)


def shown(found: Iterable[PartitionGround]) -> list[tuple[int, str, str]]:
    return sorted((one.table, one.name, one.location) for one in found)


def test_every_table_with_its_kind(metastore: Metastore) -> None:
    acid = make(metastore, "acid", "/w/acid", TRANSACTIONAL=" True ")
    plain = make(metastore, "plain", "/w/plain", transactional="false")
    view = make(metastore, "v", "/w/v")
    gone = make(metastore, "gone", "/w/gone")
    with metastore.database.write() as conn:
        conn.execute(update(TBLS).where(TBLS.c.TBL_ID == view.id).values(TBL_TYPE="VIRTUAL_VIEW"))
        conn.execute(update(SDS).where(SDS.c.LOCATION == "/w/gone").values(LOCATION=None))
    found = {one.id: (one.name, one.location, one.is_transactional) for one in metastore.locations.tables()}
    assert found[acid.id] == ("default.acid", "/w/acid", True)
    assert found[plain.id] == ("default.plain", "/w/plain", False)
    assert not {view.id, gone.id} & found.keys()


def test_only_partitions_in_unusual_places_are_read(metastore: Metastore) -> None:
    """A million usual ones cost the database one look at each, and us nothing."""
    acid = make(metastore, "acid", "/w/acid", Transactional="true")
    plain = make(metastore, "plain", "/w/plain")
    add = metastore.embedded_catalog.add_partition
    for table in (acid, plain):
        for value in ("us", "US", "a/b", "50%_of"):
            add(table, [value])
    add(acid, ["far"], "/far/acid")
    add(plain, ["in"], "/w/acid/p=us/x")
    add(plain, ["beside"], "/w/acidx/y")
    far, inside = (acid.id, "p=far", "/far/acid"), (plain.id, "p=in", "/w/acid/p=us/x")
    assert shown(metastore.locations.partitions_elsewhere([])) == [far]
    assert shown(metastore.locations.partitions_elsewhere(["/w/acid"])) == [far, inside]
    assert shown(metastore.locations.partitions_elsewhere(["/w_acid", "/w/%"])) == [far]  # no patterns
    assert len(shown(metastore.locations.partitions_elsewhere([""]))) == 3


def test_partitions_of_some_tables(metastore: Metastore) -> None:
    tables = [make(metastore, name, f"/w/{name}") for name in ("a", "b", "c")]
    for table in tables:
        metastore.embedded_catalog.add_partition(table, ["x"])
    metastore.embedded_catalog.add_partition(tables[0], ["far"], "/far/x")
    unknown = range(10_000, 11_200)
    some = [tables[0].id, tables[2].id, *unknown]
    assert shown(metastore.locations.partitions_of(some)) == [
        (tables[0].id, "p=far", "/far/x"),
        (tables[0].id, "p=x", "/w/a/p=x"),
        (tables[2].id, "p=x", "/w/c/p=x"),
    ]
    assert shown(metastore.locations.partitions_of(some, ["/far"])) == [(tables[0].id, "p=far", "/far/x")]
    assert shown(metastore.locations.partitions_of([])) == []
    assert len(shown(metastore.locations.partitions())) == 4
