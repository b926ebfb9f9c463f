"""What a check of the doctor found."""

from __future__ import annotations

import enum
from dataclasses import dataclass

_FEW = 5  #: names in one finding


class Level(enum.Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what it looked at, what it found, what it wanted and what to do."""

    level: Level
    subject: str
    found: str
    wanted: str = ""
    fix: str = ""

    def to_json(self) -> dict[str, object]:
        return {
            "level": self.level.value,
            "subject": self.subject,
            "found": self.found,
            "wanted": self.wanted,
            "fix": self.fix,
        }


def fine(subject: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(level=Level.OK, subject=subject, found=found)


def few(items: list[str]) -> str:
    """The first of ``items``, and how many more there are."""
    more = f" and {len(items) - _FEW} more" if len(items) > _FEW else ""
    return "; ".join(items[:_FEW]) + more
