"""A YARN of our own and a site on it, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.site.site import Site
from tests.support.spark_cluster import Packed, pack
from tests.support.yarn import Yarn, yarn
from tests.support.yarn_site import YarnSite


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """``make dist-spark``, once, for all that these tests reach."""
    return pack(tmp_path_factory.mktemp("dist"), "hdfs postgres")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn")) as running:
        yield running


@pytest.fixture
def on_yarn(
    cluster: Yarn, packed: Packed, deployment: Site, metastore_url: str, warehouse: Path, tmp_path: Path
) -> YarnSite:
    """A site with an embedded metastore, whose applications find it by compactor.toml."""
    found = YarnSite(yarn=cluster, packed=packed, site=deployment, warehouse=warehouse, folder=tmp_path)
    found.write_config(metastore_url)
    return found
