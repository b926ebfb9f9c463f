from __future__ import annotations

import pyarrow as pa
import pytest

from compactor.base.errors import NotFound
from demo import flights
from demo.flights import Change, ChangeKind, correct, plan_changes, select_affected, split_by_day

DAYS = [(month, day) for month in (1, 2) for day in range(1, 29)]


def test_a_load_a_day_then_late_corrections_of_each_month() -> None:
    changes = plan_changes(DAYS)
    committed = [change for change in changes if change.commits]
    assert [(c.month, c.day) for c in committed[: len(DAYS)]] == DAYS
    assert {c.kind for c in committed[: len(DAYS)]} == {ChangeKind.LOAD}
    assert sorted((c.month, c.kind.name) for c in committed[len(DAYS) :]) == [
        (1, "CANCEL"),
        (1, "CORRECT"),
        (2, "CANCEL"),
        (2, "CORRECT"),
    ]


def test_three_transactions_abort_before_the_last_write_of_their_month() -> None:
    """An aborted directory behind everything else would stay until the abort threshold; these go with the compaction."""
    changes = plan_changes(DAYS)
    aborted = [at for at, change in enumerate(changes) if not change.commits]
    assert len(aborted) == 3
    for at in aborted:
        assert any(c.commits and c.month == changes[at].month for c in changes[at + 1 :])


def sample() -> pa.Table:
    rows = {
        "month": [2, 1, 1, 1],
        "day": [1, 20, 15, 20],
        "dep_time": [600, 700, None, 800],
        "arr_delay": [5, -3, None, -9],
        "carrier": ["UA", "UA", "AA", "B6"],
    }
    types = {"month": pa.int32(), "day": pa.int32(), "dep_time": pa.int32(), "arr_delay": pa.int32()}
    columns = {name: pa.array(values, types.get(name)) for name, values in rows.items()}
    for name, kind in flights.COLUMNS.items():
        columns.setdefault(name, pa.nulls(4, pa.int32() if kind == "int" else pa.string()))
    return pa.table(columns)


def test_days_come_in_the_order_of_the_calendar_without_the_partition_key() -> None:
    days = list(split_by_day(sample()))
    assert [(month, day, rows.num_rows) for month, day, rows in days] == [(1, 15, 1), (1, 20, 2), (2, 1, 1)]
    assert days[0][2].column_names == list(flights.COLUMNS)
    assert [month for month, _, _ in split_by_day(sample(), months=1)] == [1, 1]


def test_a_cancellation_is_about_flights_that_never_left() -> None:
    found = select_affected(Change(kind=ChangeKind.CANCEL, month=1, day=15), sample())
    assert found.to_pylist() == [False, False, True, False]


def test_a_correction_is_about_early_arrivals_of_one_carrier() -> None:
    change = Change(kind=ChangeKind.CORRECT, month=1, day=20)
    mask = select_affected(change, sample())
    assert mask.to_pylist() == [False, True, False, False]
    after = correct(sample().filter(mask))
    assert after["arr_delay"].to_pylist() == [0]
    assert after.schema == sample().schema


def test_the_real_data_is_all_there() -> None:
    assert flights.read_flights().num_rows == flights.ROWS


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "PACKAGE", "nycflights_that_is_not_there")
    with pytest.raises(NotFound, match="make setup"):
        flights.find_data_file()
