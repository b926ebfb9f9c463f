from __future__ import annotations

import time

import pytest

from compactor.base.errors import CommitUnknown, DatabaseUnavailable, TryAgain
from compactor.database.retry import BODY_ATTEMPTS, BODY_PAUSE_SECONDS, retried


class Body:
    """Fails with each of ``errors`` in turn, then returns what it got."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    @retried
    def run(self, value: int, *, more: int = 0) -> int:
        """As documented."""
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return value + more


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_what_works_runs_once(slept: list[float]) -> None:
    body = Body()
    assert (body.run(1, more=2), body.calls, slept) == (3, 1, [])
    assert (body.run.__name__, Body.run.__doc__) == ("run", "As documented.")


def test_what_was_rolled_back_is_done_again_after_longer_and_longer_pauses(slept: list[float]) -> None:
    body = Body(TryAgain("deadlock"), TryAgain("deadlock"), TryAgain("deadlock"))
    assert (body.run(1), body.calls) == (1, 4)
    assert slept == [BODY_PAUSE_SECONDS, BODY_PAUSE_SECONDS * 2, BODY_PAUSE_SECONDS * 3]


def test_the_last_attempts_error_is_the_callers(slept: list[float]) -> None:
    body = Body(*(TryAgain(f"attempt {number}") for number in range(1, 100)))
    with pytest.raises(TryAgain, match=f"attempt {BODY_ATTEMPTS}$"):
        body.run(1)
    assert (body.calls, len(slept)) == (BODY_ATTEMPTS, BODY_ATTEMPTS - 1)


@pytest.mark.parametrize("error", [CommitUnknown("lost"), DatabaseUnavailable("away"), ValueError("bug")])
def test_nothing_else_is_done_again(error: Exception) -> None:
    """A commit whose answer was lost may have happened: only the database knows."""
    body = Body(error)
    with pytest.raises(type(error), match=str(error)):
        body.run(1)
    assert body.calls == 1
