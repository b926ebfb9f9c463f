"""The user that we are in a cluster without Kerberos; tests/cluster has those with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compactor.base.errors import StorageError, UnnamedPlace
from compactor.storage.log_in import log_in
from compactor.storage.store_options import StoreOptions
from tests.unit.storage.test_executor_tokens import NameNode


class Home(NameNode):
    """Tells everybody that his home is that of ``hive``."""

    def answer(self, operation: str, token: str) -> object:
        return {"Path": "/user/hive"}


@pytest.fixture
def node() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({"user": "hive"}, "by a name that nobody checks"),
        ({"user": "ann", "password": "hush", "proxy_to": "hive"}, "by password, acting for hive"),
        ({"token": "hush"}, "by a delegation token"),
    ],
)
def test_how(node: Home, options: dict[str, str], how: str) -> None:
    found = log_in(StoreOptions.from_tables({"hdfs": {"url": node.url, **options}}), "nn")
    assert (found.user, found.how, found.tickets, found.keytab) == ("hive", how, None, None)
    assert abs(found.clock_ahead_s) < 60
    assert "hush" not in repr(found)
    assert [operation for operation, _ in node.seen] == ["GETHOMEDIRECTORY"]


def test_a_cluster_that_does_not_answer() -> None:
    with pytest.raises(StorageError, match="cannot log in to hdfs://nn: Connection: no answer"):
        log_in(StoreOptions.from_tables({"hdfs": {"url": "http://127.0.0.1:1"}}), "nn")


def test_one_that_is_not_named_is_not_asked() -> None:
    with pytest.raises(UnnamedPlace):
        log_in(StoreOptions(), "nn")
