"""WebHDFS by ticket: every operation, over HTTP and HTTPS, and what of it is in no log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from compactor.acid.names import parse_directory
from compactor.base.errors import StorageError
from compactor.storage.hdfs import HdfsStorage
from compactor.storage.hdfs_client import RemoteError
from tests.support.kerberos import REALM
from tests.support.kerberos_hdfs import SecureHdfs, reached


@pytest.fixture(params=["http", "https"])
def store(
    realm: SecureHdfs, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> HdfsStorage:
    """By keytab; over HTTPS with a private authority, though the environment names another one."""
    other = tmp_path / "other.pem"
    other.write_bytes(Path("/etc/ssl/certs/ca-certificates.crt").read_bytes())
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(other))
    secure = {"url": realm.https_url, "ca_file": str(realm.ca)} if request.param == "https" else {}
    return reached(realm, **secure)


def test_every_operation(store: HdfsStorage, top: str) -> None:
    store.make_directories(f"{top}/.compactor_v7/out/base_1", like=top)
    store.write(f"{top}/.compactor_v7/out/base_1/bucket_00000", b"123456")
    store.adopt(f"{top}/.compactor_v7/out", like=top)
    assert store.read_range(f"{top}/.compactor_v7/out/base_1/bucket_00000", 2, 3) == b"345"
    store.rename(f"{top}/.compactor_v7/out/base_1", f"{top}/base_1")
    assert store.read(f"{top}/base_1/bucket_00000") == b"123456"
    assert [str(directory) for directory in store.tree(top).directories if parse_directory(str(directory))] == [
        "base_1"
    ]
    assert (store.owner(top), store.may_write(top), store.exists(f"{top}/base_2")) == ("compactor", True, False)
    store.remove(f"{top}/.compactor_v7")
    assert store.children(top) == ("base_1",)


def test_only_the_authority_that_is_written_down_is_trusted(realm: SecureHdfs, top: str) -> None:
    with pytest.raises(StorageError, match=r"Connection: no answer \(SSLError"):
        reached(realm, url=realm.https_url).listing(top)


def test_by_the_ticket_of_a_cache(realm: SecureHdfs, top: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in realm.kdc.ticket("compactor", tmp_path / "tickets").items():
        monkeypatch.setenv(name, value)
    assert reached(realm, principal=None, keytab=None).children(top) == ()
    assert reached(realm, principal=f"compactor@{REALM}", keytab=None).children(top) == ()


def test_a_keytab_goes_before_a_cache_of_somebody_else(
    realm: SecureHdfs, top: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in realm.kdc.ticket("stranger", tmp_path / "tickets").items():
        monkeypatch.setenv(name, value)
    assert reached(realm).may_write(top) is True
    assert reached(realm, principal=None, keytab=None).may_write(top) is False


def test_nothing_secret_is_in_any_log(realm: SecureHdfs, top: str, caplog: pytest.LogCaptureFixture) -> None:
    """The NameNode gives a token for the data node; the data node's address is logged by urllib3."""
    with caplog.at_level(logging.DEBUG):
        store = reached(realm)
        store.write(f"{top}/f", b"1")
        assert store.read(f"{top}/f") == b"1"
    assert "op=CREATE" in caplog.text
    assert "delegation=***" in caplog.text
    assert "Negotiate" not in caplog.text
    assert not [word for word in caplog.text.split() if "delegation=" in word and "delegation=***" not in word]


def test_a_server_that_proves_nothing_is_not_believed(
    realm: SecureHdfs, top: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something between us and the NameNode takes the proof out of its answer; the operation has been done."""
    import requests

    send = requests.adapters.HTTPAdapter.send

    def without_proof(self: Any, request: Any, **arguments: Any) -> Any:
        answer = send(self, request, **arguments)
        if answer.status_code == 200:
            answer.headers.pop("WWW-Authenticate", None)
        return answer

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", without_proof)
    with pytest.raises(
        RemoteError, match=r"localhost:\d+ answered 200 and did not prove .*carried out the request all the same"
    ):
        reached(realm)._must("MKDIRS", "PUT", f"{top}/a")
    monkeypatch.undo()
    assert "true" in realm.curl(
        "compactor", f"/webhdfs/v1/{top.partition('://')[2].partition('/')[2]}/a?op=DELETE", method="DELETE"
    )
