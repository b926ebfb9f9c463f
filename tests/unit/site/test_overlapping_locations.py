from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.locations import Locations
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import SDS
from compactor.site import overlapping_locations as module
from compactor.site.overlapping_locations import Ground
from compactor.site.site import Site
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))
    return deployment


def make(site: Site, name: str, location: str, *partitions: tuple[str, str | None], acid: bool = True) -> Table:
    table = site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            name,
            location,
            [Column(name="a", type="int")],
            partition_keys=[Column(name="p", type="string")] if partitions else (),
            parameters={"transactional": "true"} if acid else {},
        )
    )
    for value, where in partitions:
        site.metastore.embedded_catalog.add_partition(table, [value], where)
    return table


def ground(site: Site, options: StoreOptions | None = None) -> Ground:
    return Ground(site.metastore.locations, Stores(options))


def refused(site: Site, *tables: Table) -> list[bool]:
    found = ground(site)
    return [found.refusal(table.id, None) is not None for table in tables]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hdfs://nn/w/t", "hdfs://NN:8020/w/t/x"),
        ("s3a://b/w/t", "s3://b/w//t/"),
        ("hdfs://ns1/w/t", "hdfs://nn2.example:8020/w/t"),
        ("oss://b/w/t", "OSS://b/w/t/"),
    ],
)
def test_locations_in_any_store_however_they_are_spelt(site: Site, one: str, other: str) -> None:
    """PROTOCOL 11.13: of a store that is not supported, too."""
    tables = [make(site, "a", one), make(site, "b", other)]
    options = StoreOptions.from_tables({"hdfs://ns1": {"url": ["http://nn1.example:9870", "http://nn2.example:9870"]}})
    found = ground(site, options)
    assert [found.refusal(table.id, None) is not None for table in tables] == [True, True]


@pytest.mark.parametrize("other", ["hdfs://anything/w/t", "hdfs:///w/t/x", "webhdfs://far:1/w/t"])
def test_with_one_url_for_all_of_hdfs_every_authority_is_the_same_cluster(site: Site, other: str) -> None:
    """PROTOCOL 11.13: requests go to that URL, whatever a location says."""
    tables = [make(site, "a", "hdfs://nn/w/t"), make(site, "b", other)]
    found = ground(
        site, StoreOptions.from_tables({"hdfs": {"url": "http://gateway:14000"}, "hdfs://own": {"user": "x"}})
    )
    assert [found.refusal(table.id, None) is not None for table in tables] == [True, True]
    assert refused(site, *tables) == [False, False]


@pytest.mark.parametrize("other", ["abfs://c/w/t", "ABFSS://c/w/t/x", "abfss://c@Acct.blob.core.windows.net/w"])
def test_a_location_that_leaves_out_the_account_lies_in_the_configured_one(site: Site, other: str) -> None:
    """PROTOCOL 11.13."""
    tables = [make(site, "a", "abfss://c@acct.dfs.core.windows.net/w/t"), make(site, "b", other)]
    for table in ({"account_name": "acct"}, {"connection_string": "AccountName=acct;AccountKey=aA=="}):
        found = ground(site, StoreOptions.from_tables({"abfs": table}))
        assert [found.refusal(table.id, None) is not None for table in tables] == [True, True]


def test_usual_partitions_are_not_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie below their table, so what overlaps them overlaps it."""
    table = make(site, "a", "/w/a", ("1", None), ("2", None))
    inside = make(site, "b", "/w/a/p=1/x")
    read: list[str] = []
    rows = Locations._rows

    def counted(self: Locations, query: object) -> object:
        for one in rows(self, query):  # type: ignore[arg-type]
            read.append(one.name)
            yield one

    monkeypatch.setattr(Locations, "_rows", counted)
    assert refused(site, table, inside) == [True, True]
    assert read == []


def test_a_location_with_a_slash_at_its_end_makes_no_partition_unusual(site: Site) -> None:
    table = make(site, "a", "hdfs://nn/w/a", ("1", None), ("2", None))
    with site.metastore.database.write() as conn:
        conn.execute(update(SDS).where(SDS.c.LOCATION == "hdfs://nn/w/a").values(LOCATION="hdfs://nn/w/a/"))
    assert refused(site, table) == [False]


def test_what_the_doctor_finds_beyond_what_a_pass_compares(site: Site) -> None:
    """A plain partition that is spelt in an odd way: a pass asks the database by the usual spelling."""
    table = make(site, "a", "hdfs://nn/w/a")
    make(site, "p", "hdfs://nn/ext", ("1", "hdfs://nn/%77/a/x"), acid=False)
    found = ground(site)
    assert found.refusal(table.id, None) is None
    assert "default.p/p=1 lies inside it" in (found.everything().refusal(table.id, None) or "")


def test_a_pass_reads_once_and_again_after_a_minute(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    table = make(site, "a", "/w/a")
    found = ground(site)
    assert found.refusal(table.id, None) is None
    other = make(site, "b", "/w/a")
    assert found.refusal(table.id, None) is None
    now[0] += 61
    assert found.refusal(table.id, None) is not None
    site.metastore.embedded_catalog.drop_table(other)
    assert site.for_a_pass().ground is not site.for_a_pass().ground


def test_nothing_transactional_nothing_to_compare(site: Site) -> None:
    tables = [make(site, name, "/w/a", acid=False) for name in ("a", "b")]
    assert refused(site, *tables) == [False, False]


def test_what_was_made_or_moved_since_is_looked_for_again(site: Site) -> None:
    """PROTOCOL 11.13"""
    table = make(site, "a", "/w/a")
    found = ground(site)
    assert found.refusal_of(table, None) is None
    for made in (make(site, "b", "/w/a/x"), make(site, "c", "/w/c", ("1", "/w/a"))):
        partition = next(iter(site.metastore.catalog.partitions(made)), None)
        assert "default.a lies" in (found.refusal_of(made, partition) or "")
    assert "default.b lies inside it" in (found.refusal_of(table, None) or "")


def test_what_lies_as_it_did_is_not_read_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(site, "a", "/w/a", ("1", None), ("2", "file:/w/a/p=2"), ("3", "/elsewhere"))
    found = ground(site)
    found.is_clear(table.id)
    monkeypatch.setattr(Locations, "tables", None)
    for partition in (None, *site.metastore.catalog.partitions(table)):
        assert found.refusal_of(table, partition) is None


def test_what_moves_all_the_time_is_left_to_the_next_pass(site: Site) -> None:
    table = make(site, "a", "/w/a")
    moved = replace(table, location="/w/b")
    assert "default.a: was created or moved just now" in (ground(site).refusal_of(moved, None) or "")


def test_a_location_that_no_store_takes_holds_up_nobody(site: Site) -> None:
    """PROTOCOL 10: what one table says is not read as if it were about all of them."""
    tables = [make(site, "a", "/w/a"), make(site, "odd", "/w/\0"), make(site, "b", "/w/a/x")]
    assert refused(site, *tables) == [True, False, True]


def test_tables_in_more_stores_than_a_question_can_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 10: a thousand tables in a bucket each made a statement that no database takes."""
    asked: list[list[str]] = []
    elsewhere = Locations.partitions_elsewhere

    def asking(self: Locations, spellings: list[str]) -> object:
        asked.append(spellings)
        return elsewhere(self, spellings)

    monkeypatch.setattr(Locations, "partitions_elsewhere", asking)
    tables = [make(site, f"t{number}", f"s3://bucket{number}/w/t") for number in range(40)]
    make(site, "plain", "/w/p", ("1", "s3a://bucket7/w/t/x"), acid=False)
    assert [number for number, is_refused in enumerate(refused(site, *tables)) if is_refused] == [7]
    assert asked == [[""]]
