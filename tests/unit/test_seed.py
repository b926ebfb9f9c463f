"""All that docs/internals/seed.md names is there, each row has a test or says why not, and its figures are the rows'."""

from __future__ import annotations

import re
from collections import Counter

import click
import pytest

from compactor.cli.program import program
from compactor.settings.catalogue import find
from tests.support.sizes import WHOLE_FOLDERS
from tests.unit.test_documents import ROOT, _is_there, _rows

#: What precedes the first heading, and the text below each one; a heading has one table at most.
PARTS = re.split(r"^##+ .*\n", (ROOT / "docs/internals/seed.md").read_text("utf-8"), flags=re.MULTILINE)
#: A statement, its home, and what shows it.
ROWS = [row for part in PARTS[1:] for row in _rows(part)]
DONE = "done"
WHY_NOT = {"a query engine's": r"a query engine's", "superseded": r"superseded: by .+", "missing": r"missing: .+"}
_TEST = r"`[^`]+::test_\w+`"
_SETTING = r"(?:hive|metastore|compactor)\.[\w.]*\w"


def _named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def _kinds(shown: str) -> list[str]:
    """Every kind of row that the last cell fits."""
    kinds = [kind for kind, pattern in WHY_NOT.items() if re.fullmatch(pattern, shown)]
    return [*kinds, *([DONE] if re.fullmatch(rf"{_TEST}(?:, {_TEST})*", shown) else [])]


def _is_command(line: str) -> bool:
    command: click.Command | None = program
    for word in line.split()[1:]:
        if command is not None and word.startswith("--"):
            if not any(word in parameter.opts for parameter in command.params):
                return False
        elif isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word)
        else:
            return False
    return command is not None


def test_each_row_has_either_tests_or_a_reason() -> None:
    assert len(ROWS) > 120
    assert [row for row in ROWS if len(row) != 3] == []
    assert [words for words, _, shown in ROWS if len(_kinds(shown)) != 1] == []
    assert [words for words, home, shown in ROWS if _kinds(shown) == [DONE] and home == "–"] == []


def test_no_statement_has_two_rows_in_one_place() -> None:
    assert [words for part in PARTS for words, n in Counter(row[0] for row in _rows(part)).items() if n > 1] == []


def test_every_test_is_there_and_one_of_a_row_in_make_test() -> None:
    for words, _, shown in ROWS:
        tests = _named(shown) if _kinds(shown) == [DONE] else []
        assert [test for test in tests if not _is_there("tests", test)] == [], words
        assert not tests or [test for test in tests if not f"tests/{test}".startswith(WHOLE_FOLDERS)], words


def test_every_home_is_there() -> None:
    homes = [name for _, home, _ in ROWS for name in _named(home) if ".py" in name]
    assert len(homes) > 120
    assert [home for home in homes if not _is_there("compactor", home)] == []


@pytest.mark.parametrize(
    ("pattern", "is_known"), [(_SETTING, find), (r"compactor .+", _is_command)], ids=["settings", "commands"]
)
def test_every_setting_and_command_is_known(pattern: str, is_known: object) -> None:
    named = {name for row in ROWS for cell in row for name in _named(cell) if re.fullmatch(pattern, name)}
    assert len(named) > 15
    assert callable(is_known)
    assert sorted(name for name in named if not is_known(name)) == []


def test_the_figures_are_those_of_the_rows() -> None:
    kinds = [DONE, *WHY_NOT]
    assert f"| {' | '.join(kinds)} |" in PARTS[0]
    counted = Counter(kind for _, _, shown in ROWS for kind in _kinds(shown))
    assert _rows(PARTS[0]) == [[str(counted[kind]) for kind in kinds]]
