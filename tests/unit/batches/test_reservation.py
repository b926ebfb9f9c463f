from __future__ import annotations

import pytest

from compactor.base.errors import DatabaseUnavailable
from compactor.batches.reservation import Reservation
from compactor.site.site import Site, own_state
from tests.support.patience import until

MINE = "compactor-driver-h-1-x"


@pytest.fixture
def batch(deployment: Site) -> int:
    batches = own_state(deployment).batches
    number = batches.plan(deployment.name, None, None, [1], {}, reserved_ms=200)
    assert batches.register(number, MINE, 200)
    return number


def test_a_working_driver_keeps_its_batch(deployment: Site, batch: int) -> None:
    batches = own_state(deployment).batches
    first = batches.get(batch).reserved_until
    with Reservation(batches, batch, MINE, 200) as reservation:
        until("it is reserved for longer", lambda: batches.get(batch).reserved_until > first)
        assert reservation.is_held


def test_a_driver_notices_that_its_batch_is_taken_away(deployment: Site, batch: int) -> None:
    batches = own_state(deployment).batches
    with Reservation(batches, batch, MINE, 200) as reservation:
        batches.finish(batch)
        until("the driver notices", lambda: not reservation.is_held)


def test_an_unreachable_database_takes_no_batch_away(
    deployment: Site, batch: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batches = own_state(deployment).batches
    extend, answers = batches.extend, iter([DatabaseUnavailable("it restarts")])

    def flaky(*arguments: object) -> bool:
        for error in answers:
            raise error
        return extend(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(batches, "extend", flaky)
    first = batches.get(batch).reserved_until
    with Reservation(batches, batch, MINE, 200) as reservation:
        until("it is reserved for longer", lambda: batches.get(batch).reserved_until > first)
        assert reservation.is_held
    assert "it restarts" in caplog.text
