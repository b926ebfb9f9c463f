"""A location leads to no host, account or bucket that the configuration does not name: nobody there gets credentials."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.answers.explain import explain
from compactor.base.errors import UnnamedPlace
from compactor.doctor.storage_checks import check_storage
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import SDS
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores, open_stores
from tests.support.hostile import every_role, is_compacted_and_cleaned
from tests.support.listening import Listener
from tests.support.tables import entity_of

TOKEN = "KAAEaGl2ZQ"
HTTP_PORT = 9870  #: where a NameNode is asked, unless a URL says otherwise


@pytest.fixture
def stranger() -> Iterator[Listener]:
    """A host of somebody else: an address of the loopback interface that nobody else uses."""
    number = os.getpid()
    with Listener(f"127.{64 + number % 64}.{number // 64 % 250 + 1}.{number // 16000 % 250 + 1}", HTTP_PORT) as found:
        yield found


CREDENTIALS = [
    pytest.param({"token": TOKEN}, id="token"),
    pytest.param({"user": "hive", "password": "hush"}, id="password"),
    pytest.param({"user": "hive", "authorities": ["nn:8020"]}, id="user"),
]


@pytest.mark.parametrize("options", CREDENTIALS)
@pytest.mark.parametrize(
    "location",
    [
        "hdfs://{}/w/t",
        "hdfs://{}:8020/w/t",
        "webhdfs://{}:9870/w/t",
        "swebhdfs://{}/w/t",
        "hdfs://nn:8020@{}:8020/w/t",
        "hdfs://{}:nn@{}/w/t",
        "hdfs://{}#@nn:8020/w/t",
        "hdfs://{}?@nn/w/t",
    ],
)
def test_a_cluster_that_is_not_named_is_never_asked(
    stranger: Listener, options: dict[str, object], location: str
) -> None:
    stores = Stores(StoreOptions.from_tables({"hdfs": options, "hdfs://other": {"user": "hive"}}))
    path = location.replace("{}", stranger.host)
    for ask in (stores.listing, stores.children, stores.exists, stores.owner, stores.anchor, stores.may_write):
        with pytest.raises(UnnamedPlace, match=r"write \[storage\.hdfs\] authorities = \[") as refused:
            ask(stores.resolve(path))
        assert "hush" not in str(refused.value)
        assert TOKEN not in str(refused.value)
    assert stranger.received == []


def test_a_viewer_and_every_role_send_nothing_to_a_strangers_host(
    site: Site, stranger: Listener, hostile: Table, neighbour: Table
) -> None:
    with site.metastore.database.write() as conn:
        of_hostile = SDS.c.LOCATION.in_([hostile.location])
        conn.execute(update(SDS).where(of_hostile).values(LOCATION=f"hdfs://{stranger.host}:8020/w/hostile"))
    request_compaction(site, table="default.hostile", type="major")
    site = replace(site, storage=Stores(StoreOptions.from_tables({"hdfs": {"token": TOKEN}})))
    said = f'authorities = ["{stranger.host}:8020"]'
    assert said in str(explain(site, "default.hostile").to_json())
    passes = every_role(site)
    assert said in passes.said_of(entity_of(hostile))
    assert any(said in str(finding.found) for finding in check_storage(site))
    assert is_compacted_and_cleaned(site, neighbour)
    assert stranger.received == []


def test_a_cluster_that_is_named_gets_them(stranger: Listener) -> None:
    """Refusals above are for a store's name alone."""
    place = f"{stranger.host}:8020"
    for tables in (
        {"hdfs": {"token": TOKEN, "timeout": 5, "authorities": [place]}},
        {"hdfs": {"token": TOKEN, "timeout": 5}, f"hdfs://{place}": {}},
    ):
        stranger.received.clear()
        with pytest.raises(Exception, match="Connection"):
            Stores(StoreOptions.from_tables(tables)).exists(f"hdfs://{place}/w/t")
        assert f"delegation={TOKEN}".encode() in stranger.received[0]


def test_executors_refuse_it_too(stranger: Listener) -> None:
    options = pickle.loads(pickle.dumps(StoreOptions.from_tables({"hdfs": {"token": TOKEN}})))
    with pytest.raises(UnnamedPlace):
        open_stores(options).read(f"hdfs://{stranger.host}/w/t/bucket_00000")
    assert stranger.received == []


@pytest.mark.parametrize("host", ["{0}:9870#x", "{0}:9870?x", "{0}:9870#.dfs.core.windows.net", "x@{0}:9870#"])
def test_an_account_that_is_not_named_is_never_asked(stranger: Listener, host: str) -> None:
    """The client puts the account's name into the address of a host, whatever is in it."""
    pytest.importorskip("adlfs")
    name = "localhost" if "." in host else stranger.host
    stores = Stores(StoreOptions.from_tables({"abfs": {"account_key": "aHVzaA=="}}))
    with pytest.raises(UnnamedPlace, match=r"write \[storage\.abfs\] authorities"):
        stores.children(f"abfss://c@{host.format(name)}/w/t")
    assert stranger.received == []


@pytest.mark.parametrize("kind", ["s3", "gs"])
@pytest.mark.parametrize(
    "bucket",
    [
        "b?x",
        "b#x",
        "a@b",
        "b%2F..",
        "..",
        "a..b",
        ".b",
        "b ",
        "b\n",
        "B",
        "",
        "arn:aws:s3-outposts:us-east-1:1:outpost",
        "[::1]",
        "b:80",
        "b\\c",
    ],
)
def test_a_bucket_without_an_ordinary_name_is_never_asked(stranger: Listener, kind: str, bucket: str) -> None:
    url = f"http://{stranger.host}:{stranger.port}"
    stores = Stores(StoreOptions.from_tables({kind: {"endpoint_url": url}}))
    with pytest.raises(UnnamedPlace, match=rf"{kind}:"):
        stores.children(f"{kind}://{bucket}/w/t")
    assert stranger.received == []


def test_no_location_in_the_warehouse_changes(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    stores = Stores(StoreOptions.from_tables({"hdfs": {"authorities": []}}))
    assert stores.children(stores.resolve(f"file:{tmp_path}")) == ("t",)
