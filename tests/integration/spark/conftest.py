from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.spark_cluster import Cluster, Packed, cluster, oldest, pack


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """``make dist-spark``, once."""
    return pack(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def spark(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("spark"), packed) as running:
        yield running


@pytest.fixture
def oldest_spark(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of the oldest Spark that is supported, with the same packed environment."""
    with cluster(tmp_path_factory.mktemp("oldest"), packed, oldest()) as running:
        yield running
