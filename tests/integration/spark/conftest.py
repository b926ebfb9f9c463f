from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.spark_cluster import Cluster, Packed, cluster, pack


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """``make dist-spark``, once."""
    return pack(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def spark(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("spark"), packed) as running:
        yield running
