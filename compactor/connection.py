"""Determines the URL and password of the metastore's database, completed from ``hive-site.xml``.

The password's order: in the URL > COMPACTOR_METASTORE_PASSWORD > a mounted file > Hadoop's credential store >
``javax.jdo.option.ConnectionPassword`` in plain text. It is only looked up if the URL has a user and no password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from compactor.errors import BadSetting, NotSupported
from compactor.settings.credential_store import DEFAULT_PASSWORD, secret
from compactor.settings.jdbc_url import url_of

PASSWORD = "COMPACTOR_METASTORE_PASSWORD"
PASSWORD_FILE = "COMPACTOR_METASTORE_PASSWORD_FILE"
_ALIAS = "javax.jdo.option.ConnectionPassword"
_LOCAL = ("localjceks://file/", "jceks://file/")


def metastore_url(
    url: str | None, *, password_file: str | None, site: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """Returns the URL with its password; None if no database is configured.

    Args:
        url: as given by flag, environment or ``compactor.toml``; None takes ``javax.jdo.option.ConnectionURL``.
        password_file: of ``compactor.toml``; the environment's takes precedence.
        site: the properties of ``hive-site.xml`` and ``metastore-site.xml`` as found.

    Raises:
        BadSetting: a file cannot be read, or the JDBC URL is of an unknown kind of database.
        NotSupported: the credential store cannot be read from here.
    """
    if url is None:
        jdbc = site.get("javax.jdo.option.ConnectionURL")
        if jdbc is None:
            return None
        url = url_of(jdbc, site.get("javax.jdo.option.ConnectionUserName"))
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        return url  # whoever opens it says what is wrong with it
    if parts.username is None or parts.password is not None:
        return url
    password = _password(environment.get(PASSWORD_FILE) or password_file, site, environment)
    return url if password is None else parts.set(password=password).render_as_string(hide_password=False)


def _password(file: str | None, site: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    if PASSWORD in environment:
        return environment[PASSWORD]
    if file is not None:
        return _read(Path(file), "password_file").decode("utf-8").rstrip("\r\n")
    for provider in site.get("hadoop.security.credential.provider.path", "").split(","):
        found = _stored(provider.strip(), site, environment)
        if found is not None:
            return found
    return site.get(_ALIAS)


def _stored(provider: str, site: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    if not provider:
        return None
    local = next((provider.removeprefix(prefix) for prefix in _LOCAL if provider.startswith(prefix)), None)
    if local is None:
        raise NotSupported(
            f"hadoop.security.credential.provider.path: {provider} cannot be read here, only stores in files "
            f"(localjceks://file/…); copy it to one, or set {PASSWORD_FILE}"
        )
    path = Path("/", local)
    return secret(_read(path, "credential store"), _ALIAS, _store_password(site, environment), str(path))


def _store_password(site: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Finds the store's password in the order of Hadoop's ``AbstractJavaKeyStoreProvider``."""
    file = site.get("hadoop.security.credstore.java-keystore-provider.password-file")
    if "HADOOP_CREDSTORE_PASSWORD" in environment:
        return environment["HADOOP_CREDSTORE_PASSWORD"]
    if file is not None:
        return _read(Path(file), "password of the credential store").decode("utf-8").strip()
    return DEFAULT_PASSWORD


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadSetting(f"{what} {os.fspath(path)}: cannot be read: {error.strerror}") from error
