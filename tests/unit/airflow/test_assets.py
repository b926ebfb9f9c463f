from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.sdk import Asset
from openlineage.client.event_v2 import Dataset

from compactor.airflow import tasks
from compactor.airflow.assets import (
    committed,
    compacted,
    convert_asset_to_openlineage,
    create_asset,
    make_lineage,
    requested,
    sanitize_uri,
)
from compactor.airflow.compact_table import CompactTableOperator


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
        with pytest.raises(ValueError, match=r"expected: DATABASE\.TABLE"):
            committed(wrong)


def test_openlineage_has_its_own_name_for_a_table() -> None:
    for written in ("hive://db:9083/demo/flights", "hive://db:9083/demo/flights/month=1"):
        named = Dataset(namespace="hive://db:9083", name="demo.flights")
        assert convert_asset_to_openlineage(Asset(written), None) == named
    assert convert_asset_to_openlineage(requested("default"), None) is None


ONE = {"rows_in": 9, "rows_out": 8, "bytes_in": 700, "bytes_out": 600, "files_in": 5, "files_out": 1}


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_figures(metastore: str, ids: Collection[int]) -> dict[str, dict[str, int]]:
        return {f"{metastore}.t{entry}": ONE for entry in ids}

    monkeypatch.setattr(tasks, "sum_run_figures", run_figures)


@pytest.mark.usefixtures("figures")
def test_a_table_is_read_and_written() -> None:
    found = make_lineage("archive", [1, 2])
    assert [(one.namespace, one.name) for one in found.inputs] == [
        ("hive://archive", "archive.t1"),
        ("hive://archive", "archive.t2"),
    ]
    assert [(one.namespace, one.name) for one in found.outputs] == [(one.namespace, one.name) for one in found.inputs]
    read, written = found.inputs[0].inputFacets["inputStatistics"], found.outputs[0].outputFacets["outputStatistics"]
    assert (read.rowCount, read.size, read.fileCount) == (9, 700, 5)
    assert (written.rowCount, written.size, written.fileCount) == (8, 600, 1)


@pytest.mark.usefixtures("figures")
def test_the_provider_finds_it_on_the_operator() -> None:
    operator = CompactTableOperator(task_id="compact", table="a.t")
    extractor = DefaultExtractor(operator)
    empty = extractor.extract_on_complete(None)
    operator.compactions = [7]
    found = extractor.extract_on_complete(None)
    assert empty is not None
    assert found is not None
    assert (empty.inputs, [one.name for one in found.outputs]) == ([], ["default.t7"])
