"""The value of the parameter COLUMN_STATS_ACCURATE."""

from __future__ import annotations

import json
from dataclasses import dataclass

_BASIC, _COLUMNS, _TRUE = "BASIC_STATS", "COLUMN_STATS", "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The flags: ``basic`` of ``numRows`` and its like, ``columns`` of the columns by their names in lower case."""

    basic: bool = False
    columns: frozenset[str] = frozenset()

    def __str__(self) -> str:
        flags: dict[str, object] = {_BASIC: _TRUE} if self.basic else {}
        if self.columns:
            flags[_COLUMNS] = dict.fromkeys(sorted(self.columns), _TRUE)
        return json.dumps(flags, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str | None) -> Accuracy:
    """Returns the flags in a parameter's value; whatever is not Hive's form is no flag."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return Accuracy()
    if not isinstance(found, dict):
        return Accuracy()
    columns = found.get(_COLUMNS)
    named = columns.items() if isinstance(columns, dict) else ()
    return Accuracy(
        basic=_is_true(found.get(_BASIC)), columns=frozenset(name.lower() for name, value in named if _is_true(value))
    )


def _is_true(value: object) -> bool:
    return str(value).lower() == _TRUE
