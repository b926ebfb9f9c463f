"""The result of one of the doctor's checks."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from compactor.base import printable

_FEW = 5  #: names that one finding lists


class Level(enum.Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check: its subject, what was found, what was expected and what to do."""

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


def ok(subject: str, found: str) -> Finding:
    """Returns a finding that requires no action."""
    return Finding(level=Level.OK, subject=subject, found=found)


def first_few(items: list[str]) -> str:
    """Returns the first of ``items`` as text, and how many more there are."""
    return printable.first_few(items, _FEW, "; ")
