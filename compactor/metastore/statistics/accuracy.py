"""The value of the parameter COLUMN_STATS_ACCURATE."""

from __future__ import annotations

import json
from dataclasses import dataclass

_BASIC, _COLUMNS, _TRUE = "BASIC_STATS", "COLUMN_STATS", "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The flags: ``basic`` for ``numRows`` and the like, ``columns`` with lower-case names of columns."""

    basic: bool = False
    columns: frozenset[str] = frozenset()

    def __str__(self) -> str:
        flags: dict[str, object] = {_BASIC: _TRUE} if self.basic else {}
        if self.columns:
            flags[_COLUMNS] = dict.fromkeys(sorted(self.columns), _TRUE)
        return json.dumps(flags, separators=(",", ":"), ensure_ascii=False)


def parse_accuracy(text: str | None) -> Accuracy:
    """Parses the value of the parameter; a value that is not in Hive's form has no flags."""
    try:
        flags = json.loads(text or "{}")
    except ValueError:
        return Accuracy()
    if not isinstance(flags, dict):
        return Accuracy()
    columns = flags.get(_COLUMNS)
    named = columns.items() if isinstance(columns, dict) else ()
    return Accuracy(
        basic=_is_true(flags.get(_BASIC)), columns=frozenset(name.lower() for name, value in named if _is_true(value))
    )


def _is_true(value: object) -> bool:
    return str(value).lower() == _TRUE
