from __future__ import annotations

import pytest

from compactor.database import retry
from compactor.errors import CommitUnknown, DatabaseUnavailable, TryAgain


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(retry.time, "sleep", pauses.append)
    return pauses


def failing(times: int, error: Exception, calls: list[int]) -> str:
    calls.append(1)
    if len(calls) <= times:
        raise error
    return "done"


def test_what_was_rolled_back_is_repeated_with_growing_pauses(slept: list[float]) -> None:
    calls: list[int] = []
    assert retry.retried(failing)(3, TryAgain("x"), calls) == "done"
    assert len(calls) == 4
    assert slept == sorted(slept)
    assert len(set(slept)) == 3


def test_not_for_ever(slept: list[float]) -> None:
    calls: list[int] = []
    with pytest.raises(TryAgain):
        retry.retried(failing)(99, TryAgain("x"), calls)
    assert len(calls) == retry.BODY_ATTEMPTS == len(slept) + 1


@pytest.mark.parametrize("error", [CommitUnknown("x"), DatabaseUnavailable("x"), ValueError("x")])
def test_nothing_else_is_repeated(error: Exception) -> None:
    """PROTOCOL 5: an unknown commit may have happened."""
    calls: list[int] = []
    with pytest.raises(type(error)):
        retry.retried(failing)(1, error, calls)
    assert len(calls) == 1
