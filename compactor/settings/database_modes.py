"""The modes that a site's own file gives to single databases, without a change in Hive.

A database without its own mode has that of its metastore. Properties of databases and tables can still only tighten it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from compactor.settings.catalogue import lookup

KEY = "compactor.mode"


def mode_of_database(modes: Mapping[str, str], database: str) -> str | None:
    """Returns the mode for ``database``: by its name, otherwise the tightest of the matching patterns; or None.

    Args:
        modes: by name or pattern (``*``, ``?``, ``[...]``), in lower case, as Hive stores names.
    """
    name = database.lower()
    if name in modes:
        return modes[name]
    matching = [mode for pattern, mode in modes.items() if fnmatchcase(name, pattern)]
    return min(matching, key=_rank, default=None)


def without_match(modes: Mapping[str, str], databases: Iterable[str]) -> list[str]:
    """Returns the names and patterns of ``modes`` that match no database, sorted."""
    names = [database.lower() for database in databases]
    return sorted(word for word in modes if word not in names and not any(fnmatchcase(name, word) for name in names))


def loosest(modes: Iterable[str]) -> str:
    """Returns the mode that allows the most."""
    return max(modes, key=_rank)


def _rank(mode: str) -> int:
    return lookup(KEY).choices.index(mode)
