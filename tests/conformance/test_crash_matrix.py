"""Every kind of work survives a crash at every step, or a reason says why it is not tried; the page is rendered from it."""

from __future__ import annotations

from pathlib import Path

from compactor.base.steps import CommandStep, MirrorStep, StoreStep, WriteStep
from tests.crash.test_steps import ALWAYS
from tests.support.crash_matrix import COMMANDS, MIRRORED, PAGE, TAKEN_OVER, WRITES, kinds, missing, page
from tests.support.hive_tests import exists


def test_no_step_of_any_kind_is_without_a_test_or_a_reason() -> None:
    assert missing() == []


def test_no_cell_has_both_a_reason_and_a_test() -> None:
    for kind in kinds():
        assert not kind.killed & kind.reasons.keys(), kind.title


def test_minor_and_major_are_killed_everywhere() -> None:
    whole = {kind.title for kind in kinds() if kind.killed == set(ALWAYS)}
    assert whole == {"minor", "major"}


def test_the_tests_that_are_named_exist() -> None:
    assert [kind.test for kind in kinds() if not exists(kind.test)] == []


def test_every_step_of_a_command_has_its_test() -> None:
    assert set(COMMANDS) == set(CommandStep)
    assert [test for test in COMMANDS.values() if not exists(test)] == []


def test_every_step_of_a_writer_has_its_tests() -> None:
    assert set(WRITES) == set(WriteStep)
    assert [test for tests in WRITES.values() for test in tests if not exists(test)] == []


def test_every_step_of_taking_over_has_its_tests() -> None:
    assert set(TAKEN_OVER) == set(StoreStep)
    assert [test for tests in TAKEN_OVER.values() for test in tests if not exists(test)] == []


def test_every_step_of_a_mirror_has_its_tests() -> None:
    assert set(MIRRORED) == set(MirrorStep)
    assert [test for tests in MIRRORED.values() for test in tests if not exists(test)] == []


def test_every_test_that_kills_has_its_column() -> None:
    """A new kind of work without a column is noticed by its test."""
    tests = Path(__file__).parents[1]
    killing = {
        f"{file.relative_to(tests)}::{line.removeprefix('def ').partition('(')[0]}"
        for file in (*tests.glob("crash/test_*.py"), *tests.glob("storage/test_*.py"))
        for line in file.read_text("utf-8").splitlines()
        if line.startswith("def test_a_crash_")
    }
    assert killing == {kind.test for kind in kinds()}


def test_the_page_is_what_is_rendered_now() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.support.crash_matrix`"
