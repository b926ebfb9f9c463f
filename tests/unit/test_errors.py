"""The tree of errors."""

from __future__ import annotations

import inspect

import pytest

from compactor import errors
from compactor.compaction.states import IllegalTransition

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]


@pytest.mark.parametrize("error", [*ALL, IllegalTransition])
def test_one_tree(error: type[Exception]) -> None:
    """Who catches CompactorError catches all that is raised on purpose."""
    assert issubclass(error, errors.CompactorError)


@pytest.mark.parametrize("error", ALL)
def test_each_says_what_it_means(error: type[Exception]) -> None:
    assert (error.__doc__ or "").endswith(".")


def test_what_is_not_there_is_refused() -> None:
    assert issubclass(errors.NotFound, errors.Refused)
