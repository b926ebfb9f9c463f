from __future__ import annotations

import sys
from types import ModuleType
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from airflow.sdk import Asset

from compactor.airflow.assets import (
    compacted,
    convert_asset_to_openlineage,
    create_asset,
    requested,
    sanitize_uri,
)


class Named(NamedTuple):
    """What OpenLineage calls a dataset; its client is not installed here."""

    namespace: str
    name: str


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
    for asset in (requested("archive"), compacted("archive")):
        assert sanitize_uri(urlsplit(asset.uri)).geturl() == asset.uri
        assert asset.name == asset.uri


def test_a_table_is_an_asset_of_its_metastore() -> None:
    asset = create_asset(metastore="archive", database="demo", table="Flights", extra={"rows": 3})
    assert (asset.uri, asset.extra) == ("hive://archive/demo/flights", {"rows": 3})
    assert create_asset(database="demo", table="flights").uri == "hive://default/demo/flights"


def test_openlineage_has_its_own_name_for_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("airflow.providers.common.compat.openlineage.facet")
    module.Dataset = Named  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for written in ("hive://db:9083/demo/flights", "hive://db:9083/demo/flights/month=1"):
        assert convert_asset_to_openlineage(Asset(written), None) == ("hive://db:9083", "demo.flights")
    assert convert_asset_to_openlineage(requested("default"), None) is None
