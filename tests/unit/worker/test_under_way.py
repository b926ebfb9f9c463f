from __future__ import annotations

from compactor.state.runs import Progress
from compactor.worker.under_way import UnderWay


def test_units_and_bytes_are_counted_as_they_are_told() -> None:
    clock = [10.0]
    work = UnderWay(lambda: clock[0])
    tell = work.begin(7, [100, 300])
    clock[0] = 12.5
    tell(0, 1.0)
    tell(1, 0.5)
    done = Progress(entry_id=7, units=2, units_done=1, bytes=400, bytes_done=250, spent_ms=2500)
    assert work.changed() == [done]
    assert work.changed() == []
    tell(1, 0.0)  # it starts again
    (again,) = work.changed()
    assert (again.units_done, again.bytes_done) == (1, 100)


def test_slices_come_before_the_units_of_the_plan() -> None:
    work = UnderWay(lambda: 0.0)
    tell = work.begin(7, [10, 10], later=[1000, 1000])
    tell(0, 1.0)
    (first,) = work.changed()
    assert (first.units, first.units_done, first.bytes, first.bytes_done) == (4, 1, 2020, 10)
    tell(1, 1.0)
    after = work.begin(7, [600])  # the slices' output is smaller than what they read
    after(0, 0.5)
    (second,) = work.changed()
    assert (second.units, second.units_done, second.bytes, second.bytes_done) == (3, 2, 620, 320)


def test_an_entry_that_has_ended_is_not_told_of() -> None:
    work = UnderWay()
    tell = work.begin(7, [1])
    work.end(7)
    tell(0, 1.0)
    assert work.changed() == []
