"""Converts the JDBC URL of a ``hive-site.xml`` to the URL that reaches the same database from Python."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from compactor.errors import BadSetting

_SCHEMES = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
#: Parameters that libpq knows by the same name; all others concern the Java driver only.
_SHARED = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey"})


def url_of(jdbc: str, user: str | None) -> str:
    """Converts ``jdbc:postgresql://h:5432/hive``; the result has the user but no password.

    Raises:
        BadSetting: not a JDBC URL of PostgreSQL, MySQL or MariaDB; the message contains none of its parameters.
    """
    kind, _, rest = jdbc.strip().removeprefix("jdbc:").partition(":")
    if not jdbc.strip().startswith("jdbc:") or kind not in _SCHEMES or not rest.startswith("//"):
        shown = jdbc.strip().partition("?")[0].partition(";")[0]
        raise BadSetting(
            f"javax.jdo.option.ConnectionURL is {shown!r}; wanted: jdbc:postgresql://…, jdbc:mysql://… or jdbc:mariadb://…, "
            "or url in compactor.toml"
        )
    parts = urlsplit(rest)
    parameters = dict(parse_qsl(parts.query))
    name = user or parameters.get("user")
    kept = {key: value for key, value in parameters.items() if key in _SHARED and kind == "postgresql"}
    who = f"{quote(name, safe='')}@" if name else ""
    return f"{_SCHEMES[kind]}://{who}{parts.netloc}{parts.path}" + (f"?{urlencode(kept)}" if kept else "")
