"""How much Compactor may do, the tightest of metastore, database and table wins."""

from __future__ import annotations

import enum

from compactor.errors import Refused
from compactor.settings.precedence import Settings


class Mode(enum.IntEnum):
    """Each mode allows what the smaller ones allow, and more."""

    OBSERVE = 0  #: decisions are recorded in our own state only; nothing of Hive's is written
    REQUEST = 1  #: requests are enqueued; Hive's workers compact
    COMPACT = 2  #: our workers compact; Hive's cleaner cleans
    CLEAN = 3  #: everything


def mode_of(settings: Settings) -> Mode:
    """The tightest mode that the metastore, the database and the table name in ``compactor.mode``."""
    return Mode[settings.mode.upper()]


def must_write(settings: Settings, what: str) -> None:
    """Nothing, where somebody may ask for something to be done.

    Raises:
        Refused: mode observe; ``what`` is the thing that is to be left alone.
    """
    if not may(settings, Mode.REQUEST):
        raise Refused(f"{what}: compactor.mode is observe ({settings.source('compactor.mode')}); set request or more")


def may(settings: Settings, wanted: Mode) -> bool:
    """Whether ``settings`` allow what ``wanted`` stands for."""
    return mode_of(settings) >= wanted
