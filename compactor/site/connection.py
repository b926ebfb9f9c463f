"""Determines the URL and password of the metastore's database, completed from ``hive-site.xml``.

The password's order: in the URL > COMPACTOR_METASTORE_PASSWORD > a mounted file > Hadoop's credential store >
``javax.jdo.option.ConnectionPassword`` in plain text. It is only looked up if the URL has a user and no password.

A password in a file belongs to this user: others may not read the file, and it is sent to another machine only with TLS.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from compactor.base.errors import BadSetting, NotSupported
from compactor.base.private_files import is_here, read_secret, read_secret_text
from compactor.settings.credential_store import DEFAULT_PASSWORD, read_stored_secret
from compactor.settings.jdbc_url import CONNECTION_URL, convert_url, is_jdbc

PASSWORD = "COMPACTOR_METASTORE_PASSWORD"
PASSWORD_FILE = "COMPACTOR_METASTORE_PASSWORD_FILE"
STORE_PASSWORD_FILE = "hadoop.security.credstore.java-keystore-provider.password-file"
_ALIAS = "javax.jdo.option.ConnectionPassword"
_USER = "javax.jdo.option.ConnectionUserName"
_MYSQL_TLS = frozenset(
    (
        *("ssl_ca", "ssl_capath", "ssl_cert", "ssl_cipher", "ssl_check_hostname", "ssl_key"),
        *("ssl_verify_cert", "ssl_verify_identity"),
    )
)
#: Options of libpq, psycopg, and two of PyMySQL
_OPTIONS_WITH_HOSTS = ("service", "conninfo", "read_default_file", "read_default_group")
_LOCAL = ("localjceks://file/", "jceks://file/")


def metastore_url(
    url: str | None, *, password_file: str | None, site: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """Returns the URL with its password; None if no database is configured.

    Args:
        url: as given by flag, environment or ``compactor.toml``, perhaps a JDBC URL; None takes
            ``javax.jdo.option.ConnectionURL``.
        password_file: of ``compactor.toml``; the environment's takes precedence.
        site: the properties of ``hive-site.xml`` and ``metastore-site.xml`` as found.

    Raises:
        BadSetting: a file cannot be read, or others may read it; the JDBC URL is of an unknown kind of database; or the
            password of a file would be sent without TLS.
        NotSupported: the credential store cannot be read from here.
    """
    if url is None:
        jdbc = site.get(CONNECTION_URL)
        if jdbc is None:
            return None
        url = convert_url(jdbc, site.get(_USER))
    elif is_jdbc(url):
        url = convert_url(url, site.get(_USER), "url")
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        return url  # opening it raises a better error
    if parts.username is None or parts.password is not None:
        return url
    password = environment.get(PASSWORD)
    if password is None:
        password = _from_file(environment.get(PASSWORD_FILE) or password_file, site, environment)
        if password is not None:
            _must_be_private(parts, environment)
        else:
            password = site.get(_ALIAS)
    return url if password is None else parts.set(password=password).render_as_string(hide_password=False)


def _from_file(file: str | None, site: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    if file is not None:
        return read_secret_text(Path(file), "password_file").rstrip("\r\n")
    for provider in site.get("hadoop.security.credential.provider.path", "").split(","):
        password = _read_stored(provider.strip(), site, environment)
        if password is not None:
            return password
    return None


def _must_be_private(url: URL, environment: Mapping[str, str]) -> None:
    """Refuses to send the password of a file over an unencrypted connection.

    Raises:
        BadSetting: the database is on another machine, and the URL does not ask for TLS.
    """
    far = [host for host in _hosts(url, environment) if not is_here(host)]
    if not far or _asks_for_tls(url):
        return
    option = "sslmode=verify-full" if url.get_backend_name() == "postgresql" else "ssl_ca=/path/of/ca.pem"
    raise BadSetting(
        f"the password of a file is not sent to {far[0]} without TLS, since anybody on the way may read it; expected: a URL "
        f"with {option}, or a database on this machine"
    )


def _hosts(url: URL, environment: Mapping[str, str]) -> list[str]:
    """Returns the hosts and socket directories that the driver may connect to.

    Empty for its default, this machine.

    An option in which the driver looks for a host counts as a host, since a file may be read for it.
    """
    further = [url.query.get(key, ()) for key in ("host", "hostaddr")]
    named = [name for values in further for name in ((values,) if isinstance(values, str) else values)]
    files = [f"the server that {key} leads to" for key in _OPTIONS_WITH_HOSTS if key in url.query]
    if url.get_backend_name() == "postgresql":  # what libpq takes where the URL is silent
        if "hostaddr" not in url.query:
            named.append(environment.get("PGHOSTADDR", ""))
        if not url.host and "host" not in url.query:
            named.append(environment.get("PGHOST", ""))
        files += ["the server that PGSERVICE leads to"] if environment.get("PGSERVICE") else []
    hosts = [url.host or "", *(host for name in named for host in name.split(","))]
    return [*(host.rpartition(":")[0] if host.count(":") == 1 else host for host in hosts if host), *files]


def _asks_for_tls(url: URL) -> bool:
    if url.get_backend_name() == "postgresql":
        return url.query.get("sslmode") in ("require", "verify-ca", "verify-full")
    # PyMySQL takes any text in ssl_disabled for true, and without one of these it does without TLS where the server has none
    return "ssl_disabled" not in url.query and not _MYSQL_TLS.isdisjoint(url.query)


def _read_stored(provider: str, site: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    if not provider:
        return None
    path = _local(provider)
    if path is None:
        raise NotSupported(
            f"hadoop.security.credential.provider.path: {provider} cannot be read here, only stores in files "
            f"(localjceks://file/…); copy it to one, or set {PASSWORD_FILE}"
        )
    return read_stored_secret(
        read_secret(path, "credential store"), _ALIAS, _store_password(site, environment), str(path)
    )


def credential_stores(site: Mapping[str, str]) -> list[Path]:
    """Returns the credential stores in files of this machine that ``site`` names."""
    providers = site.get("hadoop.security.credential.provider.path", "").split(",")
    return [path for provider in providers if (path := _local(provider.strip())) is not None]


def _local(provider: str) -> Path | None:
    name = next((provider.removeprefix(prefix) for prefix in _LOCAL if provider.startswith(prefix)), None)
    return None if name is None else Path("/", name)


def _store_password(site: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Finds the store's password in the order of Hadoop's ``AbstractJavaKeyStoreProvider``."""
    file = site.get(STORE_PASSWORD_FILE)
    if "HADOOP_CREDSTORE_PASSWORD" in environment:
        return environment["HADOOP_CREDSTORE_PASSWORD"]
    if file is not None:
        return read_secret_text(Path(file), "password of the credential store").strip()
    return DEFAULT_PASSWORD
