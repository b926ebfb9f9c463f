"""A Kerberos HttpFS, through which all bytes pass: every operation, its tokens, and whom it lets one act for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compactor.storage.capabilities import HTTPFS
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.storage.hdfs import HdfsStorage
from tests.support.kerberos_hdfs import SecureHdfs, options_of, reached
from tests.support.kerberos_httpfs import secure_httpfs


@pytest.fixture(scope="module")
def gateway(cluster: SecureHdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with secure_httpfs(tmp_path_factory.mktemp("httpfs"), cluster) as url:
        yield url


def test_every_operation(realm: SecureHdfs, gateway: str, top: str) -> None:
    store = reached(realm, url=gateway, httpfs=True)
    assert store.capabilities(top) == HTTPFS
    store.make_directories(f"{top}/.compactor_v7/out/base_1", like=top)
    store.write(f"{top}/.compactor_v7/out/base_1/bucket_00000", b"123456")
    store.rename(f"{top}/.compactor_v7/out/base_1", f"{top}/base_1")
    assert store.read_range(f"{top}/base_1/bucket_00000", 2, 3) == b"345"
    assert (store.owner(top), store.exists(f"{top}/base_2")) == ("compactor", False)
    store.remove(f"{top}/.compactor_v7")
    assert store.children(top) == ("base_1",)


def test_its_own_tokens_stand_in(realm: SecureHdfs, gateway: str, top: str) -> None:
    options = options_of(realm, url=gateway, httpfs=True)
    with ExecutorTokens() as tokens:
        found = HdfsStorage(tokens.standing_in(options, top))
        found.write(f"{top}/f", b"1")
        assert found.read(f"{top}/f") == b"1"
        assert found.owner(f"{top}/f") == "compactor"


def test_on_behalf_of_others(realm: SecureHdfs, gateway: str, top: str) -> None:
    realm.curl("compactor", f"/webhdfs/v1/t/{top.rpartition('/')[2]}?op=SETPERMISSION&permission=777", method="PUT")
    store = reached(realm, url=gateway, proxy_to="hive")
    store.write(f"{top}/f", b"1")
    assert store.owner(f"{top}/f") == "hive"
