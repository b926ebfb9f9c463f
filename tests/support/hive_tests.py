"""The table that maps each test of Hive to the test of ours that shows the same behaviour, and the page made from it.

``python -m tests.support.hive_tests`` writes docs/internals/hive-tests.md from tests/conformance/hive_tests.toml.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests/conformance/hive_tests.toml"
PAGE = ROOT / "docs/internals/hive-tests.md"
_REASON = "-"  #: prefix of a value that is not a test of ours but a key of ``reasons``


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One test of Hive. ``covered_by`` is ``path::function`` below ``tests/``, or None where ``reason`` says why there is
    none.
    """

    group: str
    test: str
    covered_by: str | None = None
    reason: str | None = None


def lines() -> list[Line]:
    """Returns the table; a missing reason is a KeyError."""
    data = tomllib.loads(TABLE.read_text("utf-8"))
    reasons: dict[str, str] = data.pop("reasons")
    found = []
    for group, tests in data.items():
        for test, value in tests.items():
            if value.startswith(_REASON):
                found.append(Line(group=group, test=test, reason=reasons[value.removeprefix(_REASON)]))
            else:
                found.append(Line(group=group, test=test, covered_by=value))
    return found


def unused_reasons() -> set[str]:
    data = tomllib.loads(TABLE.read_text("utf-8"))
    reasons: dict[str, str] = data.pop("reasons")
    used = {value.removeprefix(_REASON) for tests in data.values() for value in tests.values() if value[0] == _REASON}
    return set(reasons) - used


@cache
def functions(path: str) -> frozenset[str]:
    """Returns the test functions of a file below ``tests/``; none if there is no such file."""
    file = ROOT / "tests" / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def exists(covered_by: str) -> bool:
    path, _, function = covered_by.partition("::")
    return function in functions(path)


def page() -> str:
    """Renders the page."""
    everything = lines()
    covered = sum(line.covered_by is not None for line in everything)
    parts = [
        "# Hive's tests and ours",
        "",
        "Hive's tests of its transaction store, its locks and its snapshots, by class and name, and which test of ours",
        f"shows the same behaviour. {covered} of {len(everything)} are covered; the others don't apply here, for the",
        "reason given beside them. Rendered by `python -m tests.support.hive_tests`.",
    ]
    for group in dict.fromkeys(line.group for line in everything):
        parts += ["", f"## {group}", "", "| Hive's test | here |", "|---|---|"]
        parts += [f"| {line.test} | {_here(line)} |" for line in everything if line.group == group]
    return "\n".join(parts) + "\n"


def _here(line: Line) -> str:
    return f"`{line.covered_by}`" if line.covered_by is not None else f"– {line.reason}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
