"""The tree of errors."""

from __future__ import annotations

import inspect

import pytest

from compactor.base import errors
from compactor.compaction.states import IllegalTransition

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]


def test_one_tree() -> None:
    """A handler of CompactorError catches all that is raised on purpose."""
    assert [error for error in (*ALL, IllegalTransition) if not issubclass(error, errors.CompactorError)] == []


def test_each_says_what_it_means() -> None:
    assert [error for error in ALL if not inspect.cleandoc(error.__doc__ or "").endswith(".")] == []


def test_what_is_not_there_is_refused() -> None:
    assert issubclass(errors.NotFound, errors.Refused)


def test_an_error_of_the_tree_stays_what_it_is() -> None:
    with pytest.raises(errors.BadFile, match=r"^truncated$"), errors.failing_alone("d.t"):
        raise errors.BadFile("truncated")


@pytest.mark.parametrize("raised", [RecursionError("too deep"), MemoryError(), OSError(40, "loop"), KeyError("x")])
def test_any_other_is_named_and_one_of_the_tree(raised: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL 10: the trace is in the log."""
    said = rf"^d\.t: {type(raised).__name__}: .*please report"
    with pytest.raises(errors.Unforeseen, match=said) as found, errors.failing_alone("d.t"):
        raise raised
    assert found.value.__cause__ is raised
    assert "Traceback" in caplog.text


def test_who_stops_the_process_is_not_held_up() -> None:
    with pytest.raises(KeyboardInterrupt), errors.failing_alone("d.t"):
        raise KeyboardInterrupt


def test_a_message_can_be_stored_whatever_is_in_a_name() -> None:
    text = str(errors.StorageError("d/f\udcff: gone"))
    assert text.encode() == b"d/f\\udcff: gone"
