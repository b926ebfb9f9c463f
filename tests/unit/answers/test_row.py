from __future__ import annotations

from dataclasses import dataclass

from compactor.answers.row import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Row):
    left: int
    right: str | None


def test_fields_are_columns() -> None:
    assert Pair.columns() == ("left", "right")
    assert Pair(left=1, right=None).to_json() == {"left": 1, "right": None}
