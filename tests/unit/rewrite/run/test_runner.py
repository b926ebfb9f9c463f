from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.errors import BadFile, LostClaim, UnforeseenKeys
from compactor.rewrite.full_acid.split import Section
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.run import progress
from compactor.rewrite.run.execute import Made, Work, attempt
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.runner import (
    PARCEL_BYTES,
    PARCEL_UNITS,
    InProcessRunner,
    Job,
    Tally,
    attempt_parcels,
    begin_here,
    keep_busy,
)
from compactor.rows.inputs import Input
from tests.support.acid_files import FIRST_FILE, dense, write_file
from tests.support.divided import WHOLE, content, large_unit
from tests.support.patience import PATIENCE, until
from tests.support.units import execute, run_units, small_unit
from tests.support.watching import names_in


@pytest.fixture
def units(tmp_path: Path) -> list[Unit]:
    one = small_unit(tmp_path)
    return [replace(one, number=number) for number in range(4)]


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_the_units(units: list[Unit], threads: int) -> None:
    asked = []
    results = run_units(units, InProcessRunner(threads), lambda: asked.append(1))
    assert [r.number for r in results] == [0, 1, 2, 3]
    assert len(asked) == 4


def test_who_is_told_to_stop_begins_no_further_unit(units: list[Unit]) -> None:
    """PROTOCOL 3.2: yields at the next unit."""
    answers = iter([None, LostClaim("not ours any more")])

    def check() -> None:
        answer = next(answers)
        if answer is not None:
            raise answer

    with pytest.raises(LostClaim):
        run_units(units, check=check)
    assert len(names_in(Path(units[0].staging) / "attempts")) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_the_error_of_a_unit_is_raised(units: list[Unit], threads: int) -> None:
    broken = replace(units[2], inserts=(Input(path="d/gone", length=1),))
    with pytest.raises(BadFile, match="gone"):
        run_units([units[0], broken], InProcessRunner(threads))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_unit_that_is_divided_is_done_in_parts_before_the_next_begins(
    units: list[Unit], threads: int, tmp_path: Path
) -> None:
    write_file(tmp_path / "e" / "bucket_00000", dense(2, 3))
    write_file(tmp_path / "x" / "bucket_00000", [(1, FIRST_FILE, 1), (2, FIRST_FILE, 1)], current=[3, 3], operation=2)
    large = replace(
        units[0],
        inserts=tuple(Input(path=f"{name}/bucket_00000", length=1) for name in "de"),
        deletes=(Input(path="x/bucket_00000", length=1),),
        split_bytes=1,
        small_stripe_bytes=0,
    )
    begun: list[int] = []
    first, second = run_units([large, units[1]], InProcessRunner(threads), lambda: begun.append(1))
    assert (first.figures.rows_out, first.figures.stripes_encoded, second.number) == (4, 2, 1)
    assert len(begun) == 5  # what must be done, two sections, their assembly; and the other unit
    with pytest.raises(BadFile, match="gone"):
        run_units([replace(large, inserts=(*large.inserts, Input(path="f/gone", length=1)))], InProcessRunner(threads))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_unit_whose_section_meets_other_keys_starts_anew_once(tmp_path: Path, threads: int) -> None:
    """Sections of the first try that are waiting do not begin, and what those that run bring is not taken."""
    unit = replace(large_unit(tmp_path), full_verify=False)
    wanted = execute(replace(unit, split_bytes=WHOLE))
    for write_id in (1, 8):
        keys = dense(write_id, 50 + write_id)
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", [*keys[1:], keys[0]])
    begun: list[int] = []
    other = small_unit(tmp_path / "other")
    first, second = run_units([unit, other], InProcessRunner(threads), lambda: begun.append(1))
    assert content(first.outputs[0])[0] == content(wanted.outputs[0])[0]
    assert (first.figures.rows_out, second.number) == (470, 0)
    if threads == 1:
        assert len(begun) == 4  # its first section, which is the largest, then whole; and the other unit


def test_a_unit_that_has_read_all_keys_does_not_start_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 2.3: it would never end, if something else said of its keys what they are not."""
    monkeypatch.setattr(Unit, "looks_always", False)
    unit = replace(large_unit(tmp_path), full_verify=False)
    keys = dense(1, 51)
    write_file(tmp_path / "d1" / "bucket_00000", [*keys[1:], keys[0]])
    (answer,) = InProcessRunner().run([Job(units=[unit], check=lambda: None)])
    assert isinstance(answer, UnforeseenKeys)


def test_an_entry_that_fails_leaves_the_others_alone(units: list[Unit]) -> None:
    def lost() -> None:
        raise LostClaim("not ours any more")

    broken = replace(units[1], inserts=(Input(path="d/gone", length=1),))
    wanted = [Job(units=[units[0]], check=lambda: None), Job(units=[broken, units[2]], check=lambda: None)]
    wanted += [Job(units=[units[3]], check=lost), Job(units=[units[3]], check=lambda: None)]
    first, second, third, fourth = InProcessRunner().run(wanted)
    assert isinstance(second, BadFile)
    assert isinstance(third, LostClaim)
    assert [[r.number for r in a] for a in (first, fourth) if isinstance(a, list)] == [[0], [3]]
    assert len(names_in(Path(units[0].staging) / "attempts")) == 3  # the second of the broken entry never began


@pytest.mark.parametrize(
    ("count", "size", "width", "wanted"),
    [
        (5, 1, 2, [1] * 5),
        (64, 1, 2, [16] * 4),
        (200, 1, 2, [PARCEL_UNITS] * 6 + [8]),
        (16, PARCEL_BYTES // 3, 2, [3, 3, 3, 3, 3, 1]),
        (3, PARCEL_BYTES * 2, 1, [1] * 3),
    ],
)
def test_parcels_are_small_and_enough_for_all_executors(
    units: list[Unit], count: int, size: int, width: int, wanted: list[int]
) -> None:
    sized = replace(units[0], inserts=(Input(path="d/bucket_00000", length=size),))
    tally = Tally([Job(units=[sized], check=lambda: None) for _ in range(count)], width)
    assert [len(parcel) for parcel in tally.take(count)] == wanted


def tally_of(units: list[Unit]) -> Tally:
    return Tally([Job(units=units, check=lambda: None)], width=4)


def test_who_is_done_gets_the_next_parcel_while_others_work(units: list[Unit]) -> None:
    """The first unit ends after all others."""
    others_done, places = threading.Event(), []

    def one(parcels: list[list[Work]]) -> list[Made | Failure]:
        ((work,),) = parcels
        assert isinstance(work, Unit)
        if work.number == 0:
            assert others_done.wait(PATIENCE)
        places.append(work.number)
        if len(places) == 3:
            others_done.set()
        return attempt_parcels(parcels)

    with ThreadPoolExecutor(2) as pool:
        assert keep_busy(tally_of(units), 2, lambda parcels: pool.submit(one, parcels)) == []
    assert places == [1, 2, 3, 0]


def test_long_work_says_how_far_it_is(
    units: list[Unit], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    caplog.set_level("INFO", progress.__name__)

    def one(parcels: list[list[Work]]) -> list[Made | Failure]:
        ((work,),) = parcels
        assert isinstance(work, Unit)
        if work.number == 3:
            until("two lines beside the last unit", lambda: sum(" 3 of 4 " in line for line in caplog.messages) > 1)
        return attempt_parcels(parcels)

    with ThreadPoolExecutor(1) as pool:
        assert keep_busy(tally_of(units), 1, lambda parcels: pool.submit(one, parcels)) == []
    assert f"{units[0].location}: 3 of 4 tasks done, 1 under way, after 0 s" in caplog.messages


def test_parcels_of_which_nothing_came_are_told(units: list[Unit]) -> None:
    def begin(parcels: list[list[Work]]) -> Future[list[Made | Failure]]:
        ((work,),) = parcels
        if isinstance(work, Unit) and work.number == 2:
            lost: Future[list[Made | Failure]] = Future()
            lost.set_exception(EOFError())
            return lost
        return begin_here(parcels)

    tally = tally_of(units)
    (task,) = keep_busy(tally, 2, begin, lost=EOFError)
    assert task.place == 2
    tally.put(task, attempt(task.work))
    (answer,) = tally.answers()
    assert isinstance(answer, list)
    with pytest.raises(EOFError):
        keep_busy(tally_of(units), 2, begin)


def test_what_is_large_is_handed_out_by_itself_and_the_largest_first(units: list[Unit], tmp_path: Path) -> None:
    """So that no core idles beside one that has begun the largest last."""
    large = large_unit(tmp_path)
    tally = tally_of([units[0], large, units[1]])
    assert [[task.place for task in parcel] for parcel in tally.take(9)] == [[0]]
    ((task,),) = tally.take(9)
    tally.put(task, attempt(task.work))
    rows = []
    while isinstance((parcels := tally.take(9, large=2))[0][0].work, Section):
        assert len(parcels) <= 2
        rows += [task.work.rows for (task,) in parcels if isinstance(task.work, Section)]
    assert rows == sorted(rows, reverse=True)
    assert len(set(rows)) > 1
    assert [[task.place for task in parcel] for parcel in parcels] == [[2]]
