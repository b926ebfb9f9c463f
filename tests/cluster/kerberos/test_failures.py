"""Each way of being refused says which it is, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from compactor.base.errors import StorageError
from tests.support.kerberos import REALM, kerberos_libraries
from tests.support.kerberos_hdfs import SecureHdfs, reached
from tests.support.patience import until
from tests.support.ports import free_port


def refused(cluster: SecureHdfs, **options: object) -> str:
    with pytest.raises(StorageError) as caught:
        reached(cluster, **options).listing(cluster.location)
    return str(caught.value).removeprefix(f"cannot list {cluster.location}: ")


def use(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def changed(cluster: SecureHdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str) -> None:
    """Gives this process a krb5.conf with something else in it."""
    text = cluster.kdc.config.read_text("utf-8")
    assert old in text
    (tmp_path / "krb5.conf").write_text(text.replace(old, new), "utf-8")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))


def test_no_ticket(realm: SecureHdfs, tmp_path: Path) -> None:
    said = refused(realm, principal=None, keytab=None)
    assert said.startswith("Kerberos: no ticket: this process cannot log in (No Kerberos credentials available")
    assert f"{tmp_path}/no-tickets" in said
    assert "kinit" in said
    assert "principal and keytab" in said


def test_an_expired_ticket(realm: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, realm.kdc.ticket("compactor", tmp_path / "tickets", "-l", "1s"))
    realm.kdc.wait_until_expired(tmp_path / "tickets")
    for principal in (None, f"compactor@{REALM}"):
        options = {"principal": principal, "keytab": None}
        # in its last second a ticket is good for some of the way
        until("it has expired for all", lambda at=options: refused(realm, **at).startswith("Kerberos: the ticket has"))
        said = refused(realm, **options)
        assert said.startswith("Kerberos: the ticket has expired: ")
        assert "principal and keytab in [storage.hdfs], which log in without a person" in said


def test_a_clock_that_is_wrong(realm: SecureHdfs, tmp_path: Path) -> None:
    """Twenty minutes fast."""
    code = (
        "from compactor.storage.hdfs import HdfsStorage as S; from compactor.storage.store_options import StoreOptions as O;"
        f"S(O.of({{'hdfs': {{'url': {realm.url!r}, 'kerberos': True}}}})).listing({realm.location!r})"
    )
    environment = os.environ | realm.kdc.ticket("compactor", tmp_path / "tickets")
    environment["PYTHONPATH"] = f"{Path.cwd()}:{kerberos_libraries()}"
    command = ["faketime", "-f", "+20m", sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = (
        "Kerberos: the clocks differ by too much: this process cannot log in (Clock skew too great); set the clock of"
    )
    assert said in done.stderr


def test_a_principal_that_nobody_knows(realm: SecureHdfs) -> None:
    realm.kdc.add("gone")
    realm.kdc.remove("gone")
    said = refused(realm, principal="gone", keytab=str(realm.kdc.keytab("gone")))
    assert said.startswith("Kerberos: unknown principal: gone cannot log in (")
    assert "the KDC has no such principal" in said


def test_a_realm_that_nobody_knows(realm: SecureHdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the principal, and of the cluster's host."""
    elsewhere = "ELSEWHERE.EXAMPLE"
    realm.kdc.add_of_other_realm("compactor", elsewhere)
    said = refused(realm, principal=f"compactor@{elsewhere}", keytab=str(realm.kdc.keytab(f"compactor@{elsewhere}")))
    assert said.startswith(f"Kerberos: wrong realm: compactor@{elsewhere} cannot log in (")
    changed(realm, monkeypatch, tmp_path, f"localhost = {REALM}", f"localhost = {elsewhere}")
    assert refused(realm).startswith("Kerberos: wrong realm: ")


def test_a_host_that_has_another_name(realm: SecureHdfs) -> None:
    said = refused(realm, url=realm.url.replace("localhost", "127.0.0.1"))
    assert said.startswith("Kerberos: unknown service: ")
    assert "HTTP/127.0.0.1" in said
    assert "no address and no alias" in said


def test_a_keytab_with_old_keys_without_the_principal_and_none_at_all(realm: SecureHdfs, tmp_path: Path) -> None:
    realm.kdc.add("renewed")
    realm.kdc.new_keys("renewed")
    for principal, keytab in (
        ("renewed", realm.kdc.keytab("renewed")),
        ("compactor", realm.kdc.keytab("hive")),
    ):
        said = refused(realm, principal=principal, keytab=str(keytab))
        assert said.startswith("Kerberos: the keytab does not fit the principal: "), said
        assert "klist -kt" in said
    (tmp_path / "damaged").write_bytes(b"no keytab")
    (tmp_path / "empty").write_bytes(b"\x05\x02")
    for keytab in (tmp_path / "absent", tmp_path / "damaged"):
        said = refused(realm, keytab=str(keytab))
        assert said.startswith("Kerberos: the keytab cannot be read: "), said
    assert "cannot log in" in refused(realm, principal=None, keytab=str(tmp_path / "empty"))


def test_no_kdc(realm: SecureHdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    port = realm.kdc.port
    changed(realm, monkeypatch, tmp_path, f"kdc = 127.0.0.1:{port}", f"kdc = 127.0.0.1:{free_port()}")
    said = refused(realm)
    assert said.startswith("Kerberos: no KDC answers: "), said


def test_no_configuration(realm: SecureHdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "absent"))
    said = refused(realm, principal="compactor")
    assert said.startswith("Kerberos: Kerberos is not configured here: "), said


def test_a_log_in_that_a_secure_cluster_does_not_take(realm: SecureHdfs) -> None:
    for options in ({"user": "hdfs"}, {}):
        said = refused(realm, kerberos=None, principal=None, keytab=None, **options)
        assert "write kerberos = true into [storage.hdfs]" in said


def test_a_token_that_is_none(realm: SecureHdfs) -> None:
    said = refused(realm, kerberos=None, principal=None, keytab=None, token="HAAGc3R1ZmY")
    assert "the delegation token is damaged; fetch a new one" in said


def test_on_behalf_of_others(realm: SecureHdfs, top: str) -> None:
    """``hadoop.proxyuser.compactor.groups`` is ``hadoop``."""
    assert reached(realm, proxy_to="hive").owner(top) == "compactor"
    realm.curl("compactor", f"/webhdfs/v1/t/{top.rpartition('/')[2]}?op=SETPERMISSION&permission=777", method="PUT")
    acting = reached(realm, proxy_to="hive")
    acting.write(f"{top}/f", b"1")
    assert acting.owner(f"{top}/f") == "hive"
    said = refused(realm, proxy_to="stranger")
    assert "compactor is not allowed to impersonate stranger (refused proxy; in the NameNode's core-site.xml" in said
    assert "hadoop.proxyuser.<user>.groups" in said
