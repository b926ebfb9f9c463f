"""Delegation tokens: those of executors, which the driver fetches, renews and cancels, and those that Hadoop hands over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compactor.base.errors import StorageError
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.storage.hdfs import HdfsStorage
from compactor.storage.store_options import StoreOptions
from tests.support.kerberos_hdfs import TOKEN_LIFE_S, TOKEN_RENEWAL_S, SecureHdfs, options_of, reached
from tests.support.patience import until

NO_LOG_IN = {"kerberos": None, "principal": None, "keytab": None}


def use(options: StoreOptions, top: str, name: str) -> None:
    """Writes and reads as an executor does, without ticket and keytab."""
    assert "keytab" not in options.text
    store = HdfsStorage(options)
    store.write(f"{top}/{name}", b"123")
    assert store.read(f"{top}/{name}") == b"123"


def test_it_is_renewed_replaced_and_cancelled(realm: SecureHdfs, top: str) -> None:
    """The NameNode's tokens live for seconds here: work goes on after renewals, and after the end of a token's life."""
    options = options_of(realm)
    begun = time.monotonic()
    with ExecutorTokens() as tokens:
        first = tokens.standing_in(options, top)
        use(first, top, "at once")

        def aged(seconds: float) -> bool:
            return time.monotonic() > begun + seconds

        until("the first one would have expired", lambda: aged(TOKEN_RENEWAL_S + 2), pause=0.5)
        use(first, top, "renewed")
        until("it has reached its end", lambda: aged(TOKEN_LIFE_S + 2), pause=0.5)
        with pytest.raises(StorageError, match=r"the delegation token has expired; fetch a new one"):
            HdfsStorage(first).children(top)
        second = tokens.standing_in(options, top)
        assert second != first
        use(second, top, "replaced")
    with pytest.raises(StorageError, match=r"the delegation token is not valid; it was cancelled"):
        HdfsStorage(second).children(top)


def test_one_for_somebody_else(realm: SecureHdfs, top: str) -> None:
    realm.curl("compactor", f"/webhdfs/v1/t/{top.rpartition('/')[2]}?op=SETPERMISSION&permission=777", method="PUT")
    with ExecutorTokens() as tokens:
        given = tokens.standing_in(options_of(realm, proxy_to="hive"), top)
        use(given, top, "f")
        assert HdfsStorage(given).owner(f"{top}/f") == "hive"


def test_a_token_that_hadoop_hands_over(
    realm: SecureHdfs, top: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container of YARN: there is no ticket, and the file of Hadoop's own client says who one is."""
    file = tmp_path / "tokens"
    realm.fetch_tokens("compactor", file)
    file.chmod(0o600)
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(file))
    options = options_of(realm, principal=None, keytab=None)
    with ExecutorTokens() as tokens:
        use(tokens.standing_in(options, top), top, "by an executor")
    assert HdfsStorage(options).owner(f"{top}/by an executor") == "compactor"
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(Exception, match="is not a file with tokens of Hadoop"):
        HdfsStorage(options).children(top)


def test_by_a_token_alone(realm: SecureHdfs, top: str) -> None:
    with ExecutorTokens() as tokens:
        token = tokens.standing_in(options_of(realm), top).of_place("hdfs", realm.authority)["token"]
        assert reached(realm, token=token, **NO_LOG_IN).children(top) == ()


def test_it_is_not_in_an_error(realm: SecureHdfs, top: str) -> None:
    with ExecutorTokens() as tokens:
        given = tokens.standing_in(options_of(realm), top)
        with pytest.raises(StorageError, match="Permission denied") as caught:
            HdfsStorage(given).write(f"hdfs://{realm.authority}/f", b"")
    assert given.of_place("hdfs", realm.authority)["token"] not in str(caught.value)
