from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.zookeeper import ZooKeeper
from tests.support.zookeeper import zookeeper as running


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A ZooKeeper of its own for the tests of one file."""
    with running(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
