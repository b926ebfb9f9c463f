"""Converts the JDBC URL of a ``hive-site.xml`` to the URL that reaches the same database from Python.

Every option of the URL is converted, is known not to matter, or is refused by name. An option that was dropped silently
could be the one that keeps the connection encrypted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import parse_qsl, quote, unquote, urlencode

from compactor.base.errors import BadSetting
from compactor.settings.jdbc_options import JdbcOptions, mysql_options, postgres_options

_SCHEMES = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_OPTIONS: Mapping[str, Callable[[JdbcOptions], dict[str, str]]] = MappingProxyType(
    {"postgresql": postgres_options, "mysql": mysql_options, "mariadb": mysql_options}
)
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_EXPECTED = "expected: jdbc:postgresql://…, jdbc:mysql://… or jdbc:mariadb://…, or url in compactor.toml"


def convert_url(jdbc: str, user: str | None) -> str:
    """Converts ``jdbc:postgresql://h:5432/hive``; the result has a password only if the JDBC URL has one.

    Raises:
        BadSetting: not a JDBC URL of PostgreSQL, MySQL or MariaDB, or an option cannot be carried over. The message does
            not contain the values of options.
    """
    kind, _, rest = jdbc.strip().removeprefix("jdbc:").partition(":")
    if not jdbc.strip().startswith("jdbc:") or kind not in _SCHEMES or not rest.startswith("//"):
        raise BadSetting(f"javax.jdo.option.ConnectionURL is for {_describe_kind(jdbc)}; {_EXPECTED}")
    place, _, query = rest.partition("?")
    hosts, slash, database = place[2:].partition("/")
    if not all(_HOST.fullmatch(host) for host in hosts.split(",")) or not slash or "?" in unquote(database):
        raise BadSetting(
            f"javax.jdo.option.ConnectionURL: the host of the {kind} URL cannot be read; expected a name or address, with "
            "or without a port, and a database"
        )
    options = JdbcOptions.from_pairs(kind, parse_qsl(query, keep_blank_values=True))
    who, password = options.take("user"), options.take("password")
    taken = _OPTIONS[kind](options)
    options.must_be_done()
    several = hosts.split(",") if "," in hosts else []
    if several and kind != "postgresql":
        raise BadSetting(
            "javax.jdo.option.ConnectionURL: names several hosts, and Compactor connects to one; set url in compactor.toml"
        )
    login = ":".join(quote(text, safe="") for text in (user or who, password) if text) if user or who else ""
    parameters = [*(("host", host if ":" in host else f"{host}:5432") for host in several), *taken.items()]
    prefix = f"{login}@" if login else ""
    where = "" if several else hosts
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"{_SCHEMES[kind]}://{prefix}{where}/{unquote(database)}{query}"


def _describe_kind(jdbc: str) -> str:
    """Returns the part of another URL that is safe to show: Oracle's has user and password before the host."""
    match = re.match(r"\s*jdbc:([a-z0-9]+(?::thin|:oci)?)(?=:)", jdbc)
    return f"'jdbc:{match[1]}:…'" if match else "something else"
