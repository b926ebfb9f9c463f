"""One realm and one secure HDFS for all tests of this folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kerberos import kdc, kerberos_on_path
from tests.support.kerberos_hdfs import SecureHdfs, secure_hdfs


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    with (
        kerberos_on_path(),
        kdc(tmp_path_factory.mktemp("kdc")) as realm,
        secure_hdfs(tmp_path_factory.mktemp("secure-hdfs"), realm) as found,
    ):
        yield found


@pytest.fixture
def realm(cluster: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecureHdfs:
    """The cluster, as a process sees it that knows its KDC and has no ticket."""
    for name, value in cluster.kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/no-tickets")
    return cluster


@pytest.fixture
def top(realm: SecureHdfs, request: pytest.FixtureRequest) -> str:
    """An empty directory of ``compactor``."""
    name = re.sub(r"\W+", "-", f"{request.node.path.stem}-{request.node.name}")
    said = realm.curl("compactor", f"/webhdfs/v1/t/{name}?op=MKDIRS&permission=755", method="PUT")
    assert "true" in said, said
    return f"{realm.location}/{name}"
