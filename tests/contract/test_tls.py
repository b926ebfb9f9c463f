"""The encryption that a JDBC URL asks for, with a real server: whoever cannot prove that he is the server gets nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Connection

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import open_database
from compactor.site.connection import metastore_url
from tests.support.certificates import self_signed
from tests.support.ports import free_port
from tests.support.servers import postgres


@dataclass(frozen=True, slots=True, kw_only=True)
class Encrypted:
    """A server that takes encrypted connections only. ``mine`` is its certificate, ``other`` somebody else's."""

    port: int
    mine: Path
    other: Path

    def jdbc(self, options: str) -> str:
        filled = options.format(mine=self.mine, other=self.other)
        return f"jdbc:postgresql://127.0.0.1:{self.port}/metastore?user=hive&{filled}"

    @contextmanager
    def reached(self, options: str) -> Iterator[Connection]:
        site = {"javax.jdo.option.ConnectionURL": self.jdbc(options)}
        url = metastore_url(None, password_file=None, site=site, environment={})
        assert url is not None
        with closing(open_database(url)) as database, database.read() as connection:
            yield connection


def running(folder: Path, address: str) -> Iterator[Encrypted]:
    """A server whose certificate is for ``address``."""
    folder.chmod(0o755)
    port, tls = free_port(), self_signed(address)
    found = Encrypted(port=port, mine=folder / "mine.pem", other=folder / "other.pem")
    found.mine.write_bytes(tls[1])
    found.other.write_bytes(self_signed(address)[1])
    with postgres(port, tls=tls) as server:
        server.make("metastore")
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    yield from running(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """Its certificate is that of another address."""
    yield from running(tmp_path_factory.mktemp("tls"), "127.0.0.2")


@pytest.mark.parametrize(
    "options",
    [
        "ssl=true&sslrootcert={mine}",
        "sslmode=verify-full&sslrootcert={mine}",
        "sslMode=verify-ca&sslRootCert={mine}",
        "sslmode=require",
        "ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory",
    ],
)
def test_the_server_that_is_wanted_is_reached_and_encrypted(server: Encrypted, options: str) -> None:
    with server.reached(options) as connection:
        found = connection.exec_driver_sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        assert found.scalar_one() is True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ssl=true&sslrootcert={other}", "certificate verify failed"),
        ("sslmode=verify-ca&sslrootcert={other}", "certificate verify failed"),
        ("ssl=true&sslmode=verify-full&sslrootcert={other}", "certificate verify failed"),
        ("ssl=true&sslrootcert={mine}.gone", "does not exist"),
        ("sslmode=disable", "no encryption"),
    ],
)
def test_any_other_server_is_refused(server: Encrypted, options: str, said: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=said), server.reached(options):
        raise AssertionError("it was reached")


def test_the_certificate_of_another_address_is_refused(elsewhere: Encrypted) -> None:
    with elsewhere.reached("sslmode=verify-ca&sslrootcert={mine}"):
        pass
    with (
        pytest.raises(DatabaseUnavailable, match="does not match host name"),
        elsewhere.reached("ssl=true&sslrootcert={mine}"),
    ):
        raise AssertionError("it was reached")
