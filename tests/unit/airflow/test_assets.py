from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from airflow.sdk import Asset
from openlineage.client.event_v2 import Dataset

from compactor.airflow.assets import (
    committed,
    compacted,
    convert_asset_to_openlineage,
    create_asset,
    requested,
    sanitize_uri,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("hive://archive/Demo/Flights", "hive://archive/demo/flights"),
        ("hive://archive/demo/flights/", "hive://archive/demo/flights"),
        ("HIVE://db.example.com:9083/demo/flights", "hive://db.example.com:9083/demo/flights"),
        ("hive://default/demo/flights/Carrier=AA", "hive://default/demo/flights/Carrier=AA"),
    ],
)
def test_every_spelling_of_a_table_is_one_asset(written: str, meant: str) -> None:
    assert Asset(written).uri == meant


@pytest.mark.parametrize("written", ["hive://archive", "hive://archive/demo", "hive:///demo/flights"])
def test_a_uri_without_a_table_is_refused_when_parsed(written: str) -> None:
    with pytest.raises(ValueError, match="hive://METASTORE/DATABASE/TABLE"):
        Asset(written)


def test_our_own_assets_cannot_collide_with_tables() -> None:
    for asset in (requested("archive"), compacted("archive"), committed("demo.flights", "archive")):
        assert sanitize_uri(urlsplit(asset.uri)).geturl() == asset.uri
        assert asset.name == asset.uri


def test_a_table_is_an_asset_of_its_metastore() -> None:
    asset = create_asset(metastore="archive", database="demo", table="Flights", extra={"rows": 3})
    assert (asset.uri, asset.extra) == ("hive://archive/demo/flights", {"rows": 3})
    assert create_asset(database="demo", table="flights").uri == "hive://default/demo/flights"


def test_commits_to_a_table_are_an_asset_beside_it() -> None:
    assert committed("Demo.Flights", "archive").uri == "hive://archive/demo/flights/-/committed"
    for wrong in ("flights", "a.b.c", ".t", "d.", "d/e.t"):
        with pytest.raises(ValueError, match=r"wanted: DATABASE\.TABLE"):
            committed(wrong)


def test_openlineage_has_its_own_name_for_a_table() -> None:
    for written in ("hive://db:9083/demo/flights", "hive://db:9083/demo/flights/month=1"):
        named = Dataset(namespace="hive://db:9083", name="demo.flights")
        assert convert_asset_to_openlineage(Asset(written), None) == named
    assert convert_asset_to_openlineage(requested("default"), None) is None
