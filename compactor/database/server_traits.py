"""Traits of a database server: its zone, other primaries, a pooler in front of it.

They concern more than one transaction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy import Connection

from compactor.database.engine import Database
from compactor.database.servers import is_pooled

#: Variables and the value that each has with one primary.
_SINGLE_PRIMARY = {"auto_increment_increment": "1", "group_replication_single_primary_mode": "ON", "wsrep_on": "OFF"}
_VARIABLES = ("version", "time_zone", "system_time_zone", *_SINGLE_PRIMARY)
_MONTHS = ", ".join(
    f"TIMESTAMPDIFF(MINUTE, '2026-{month:02d}-15', CONVERT_TZ('2026-{month:02d}-15', '+00:00', @@GLOBAL.time_zone))"
    for month in range(1, 13)
)
_RIGHT_IN_AUTUMN = (11, 7)  #: the first MariaDB that tells two hours of one name apart


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTraits:
    """Traits of the server of one database; of PostgreSQL and SQLite only those that they can have."""

    zone: str | None = None  #: the server's zone if it is not UTC, on servers that confuse equal hours in autumn
    primaries: str | None = None  #: variable and value that show a server of which there may be several primaries
    has_pooler: bool = False  #: true if a pooler such as PgBouncer stands between us and PostgreSQL
    prepares: bool = False  #: true if the driver prepares statements, which a pooler may not keep apart


def server_traits(database: Database) -> ServerTraits:
    """Returns the traits of the server of ``database``.

    Raises:
        DatabaseUnavailable: the database cannot be reached.
    """
    with database.read() as conn:
        if database.kind == "mysql":
            return _mysql_traits(conn)
        if database.kind == "postgresql":
            driver = conn.connection.driver_connection
            assert driver is not None
            return ServerTraits(has_pooler=is_pooled(driver), prepares=driver.prepare_threshold is not None)
    return ServerTraits()


def _mysql_traits(conn: Connection) -> ServerTraits:
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = conn.exec_driver_sql(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})").all()
    variables = {str(name): str(value) for name, value in rows}
    offsets = set(conn.exec_driver_sql(f"SELECT {_MONTHS}").one())
    zone = variables["time_zone"]
    several = [
        f"{name} is {variables[name]}"
        for name, single in _SINGLE_PRIMARY.items()
        if variables.get(name, single) != single
    ]
    return ServerTraits(
        zone=None if offsets == {0} or _is_right_in_autumn(variables["version"]) else _zone_name(zone, variables),
        primaries=", ".join(several) or None,
    )


def _is_right_in_autumn(version: str) -> bool:
    numbers = re.match(r"([0-9]+)\.([0-9]+)", version)
    return (
        "mariadb" in version.lower() and numbers is not None and tuple(map(int, numbers.groups())) >= _RIGHT_IN_AUTUMN
    )


def _zone_name(zone: str, variables: dict[str, str]) -> str:
    return f"{zone} ({variables['system_time_zone']})" if zone == "SYSTEM" else zone
