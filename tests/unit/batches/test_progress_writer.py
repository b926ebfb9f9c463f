from __future__ import annotations

import pytest

from compactor.base.errors import DatabaseUnavailable
from compactor.batches.progress_writer import ProgressWriter
from compactor.site.site import Site, own_state
from compactor.state.runs import Runs
from compactor.worker.under_way import UnderWay
from tests.support.patience import until

OFTEN = 0.02


def test_progress_is_stored_while_there_is_some_and_goes_with_its_block(deployment: Site) -> None:
    rows, work = own_state(deployment).runs, UnderWay()
    with ProgressWriter(deployment, work, OFTEN):
        tell = work.begin(7, [100, 300])
        until("its units are known", lambda: 7 in rows.progress(deployment.name, [7]))
        tell(0, 1.0)
        until("one of them is done", lambda: rows.progress(deployment.name, [7])[7].bytes_done == 100)
    assert rows.progress(deployment.name, [7]) == {}


def test_short_work_writes_nothing(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("nothing was to be written")

    for name in ("record_progress", "forget_progress"):
        monkeypatch.setattr(Runs, name, fail)
    with ProgressWriter(deployment, UnderWay(), 60):
        pass


def test_a_database_that_does_not_answer_stops_nothing(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, work = own_state(deployment).runs, UnderWay()
    put, errors = Runs.record_progress, iter([DatabaseUnavailable("it restarts")])

    def flaky(*arguments: object) -> None:
        for error in errors:
            raise error
        put(*arguments)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Runs, "record_progress", flaky)
    with ProgressWriter(deployment, work, OFTEN):
        tell = work.begin(7, [100])
        until("the error is met", lambda: next(errors, None) is None)
        tell(0, 0.5)
        until("the next round writes", lambda: 7 in rows.progress(deployment.name, [7]))
