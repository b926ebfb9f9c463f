from __future__ import annotations

import pytest

from compactor.base import errors
from compactor.rewrite.run.failure import Failure, to_error


@pytest.mark.parametrize("kind", ["BadFile", "NotLossless", "VerificationFailed", "StorageError"])
def test_an_executors_error_is_rebuilt(kind: str) -> None:
    with pytest.raises(getattr(errors, kind), match=r"^it is broken$"):
        raise to_error(Failure(kind=kind, message="it is broken"))


def test_a_conflict_keeps_its_winner() -> None:
    found = to_error(Failure.from_error(errors.WriteConflict("it is lost", 7)))
    assert isinstance(found, errors.WriteConflict)
    assert (str(found), found.winner) == ("it is lost", 7)


def test_a_kind_of_another_release_is_still_an_error_of_ours() -> None:
    with pytest.raises(errors.CompactorError, match=r"^it is broken$"):
        raise to_error(Failure(kind="NoSuchError", message="it is broken"))


@pytest.mark.parametrize("kind", ["log", "contextmanager", "annotations", "failing_alone", "Iterator", "__name__"])
def test_a_kind_that_is_no_error_is_not_called(kind: str) -> None:
    assert type(to_error(Failure(kind=kind, message="it is broken"))) is errors.CompactorError
