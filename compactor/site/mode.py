"""The mode: how much Compactor may do. The tightest of metastore, database and table wins."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from compactor.base.errors import Refused
from compactor.settings.precedence import Settings, with_table


class Mode(enum.IntEnum):
    """A limit on what Compactor may do. Each mode includes the smaller ones."""

    OBSERVE = 0  #: decisions are recorded in our own state only; Hive's tables and files are not changed
    REQUEST = 1  #: requests are enqueued; Hive's workers compact
    COMPACT = 2  #: our workers compact; Hive's cleaner cleans
    CLEAN = 3  #: everything


def mode_of(settings: Settings) -> Mode:
    """Returns the tightest ``compactor.mode`` of the metastore, the database and the table."""
    return Mode[settings.mode.upper()]


def loosest_mode(settings: Settings) -> Mode:
    """Returns the loosest mode of any database: the most that a pass over all of them may do."""
    return Mode[settings.loosest_mode.upper()]


def modes_of_databases(settings: Settings, databases: Mapping[str, Mapping[str, str]]) -> dict[str, Mode]:
    """Returns the mode of each database in ``databases``, which maps names to parameters."""
    return {
        name: mode_of(with_table(settings.of_database(name), {}, parameters)) for name, parameters in databases.items()
    }


def must_write(settings: Settings, what: str) -> None:
    """Raises if the mode does not allow people to request changes.

    Raises:
        Refused: the mode is observe; ``what`` names the thing that would be changed.
    """
    if not may(settings, Mode.REQUEST):
        raise Refused(f"{what}: compactor.mode is observe ({settings.source('compactor.mode')}); set request or more")


def may(settings: Settings, mode: Mode) -> bool:
    """Returns true if ``settings`` allow ``mode``.

    The site's settings decide about things outside of databases.
    """
    return mode_of(settings) >= mode


def may_somewhere(settings: Settings, mode: Mode) -> bool:
    """Returns true if the settings of a site allow ``mode`` for some database."""
    return loosest_mode(settings) >= mode
