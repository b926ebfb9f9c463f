"""PostgreSQL by GSSAPI: the driver of the extra ``postgres`` brings a libpq that can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import open_database
from compactor.site.connection import metastore_url
from tests.support.kerberos import REALM, Kdc
from tests.support.kerberos_hdfs import SecureHdfs
from tests.support.ports import free_port
from tests.support.servers import Server, postgres


@pytest.fixture(scope="module")
def server(cluster: SecureHdfs) -> Iterator[Server]:
    kdc, port = cluster.kdc, free_port()
    keytab = kdc.add("postgres/localhost")
    with postgres(port, gss=(keytab.read_bytes(), kdc.config.read_bytes())) as found:
        found.make("metastore", "CREATE ROLE compactor LOGIN;")
        yield found


@pytest.fixture
def url(server: Server, realm: SecureHdfs) -> str:
    return f"postgresql+psycopg://compactor@localhost:{server.port}/metastore?gssencmode=prefer"


def who(url: str) -> tuple[object, ...]:
    """Returns how the server knows this connection: by Kerberos, as whom, and encrypted or not."""
    with closing(open_database(url)) as database, database.read() as connection:
        asked = "SELECT gss_authenticated, principal, encrypted FROM pg_stat_gssapi WHERE pid = pg_backend_pid()"
        return tuple(connection.exec_driver_sql(asked).one())


def use(kdc: Kdc, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    for name, value in kdc.ticket("compactor", cache).items():
        monkeypatch.setenv(name, value)


def test_by_ticket(url: str, realm: SecureHdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(realm.kdc, monkeypatch, tmp_path / "tickets")
    assert who(url) == (True, f"compactor@{REALM}", True)
    assert who(url.replace("prefer", "disable")) == (True, f"compactor@{REALM}", False)


def test_by_keytab(url: str, realm: SecureHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As MIT's library does it; a service needs no kinit, and its tickets are renewed."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(realm.kdc.keytab("compactor")))
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:postgres")
    assert who(url) == (True, f"compactor@{REALM}", True)


def test_a_jdbc_url(server: Server, realm: SecureHdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(realm.kdc, monkeypatch, tmp_path / "tickets")
    jdbc = f"jdbc:postgresql://localhost:{server.port}/metastore?user=compactor&gssEncMode=require&kerberosServerName=postgres"
    site = {"javax.jdo.option.ConnectionURL": jdbc}
    found = metastore_url(None, password_file=None, site=site, environment={})
    assert found is not None
    assert who(found) == (True, f"compactor@{REALM}", True)


def test_no_ticket(url: str, realm: SecureHdfs) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"GSSAPI|Kerberos") as refused:
        who(url)
    assert "kinit" in str(refused.value)


def test_another_principal(url: str, realm: SecureHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(realm.kdc.keytab("stranger")))
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:stranger")
    with pytest.raises(DatabaseUnavailable, match=r'failed for user "compactor".*pg_hba.conf'):
        who(url)
