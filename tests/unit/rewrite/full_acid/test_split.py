"""A unit that is split makes the same file as one that is not: rows, keys, metadata and figures."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, UnforeseenKeys
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.rewrite.full_acid import split
from compactor.rewrite.full_acid.split import EncodeTask, SplitUnit
from compactor.rewrite.plan.unit import Shape, Unit, UnitResult
from compactor.rewrite.run.execute import perform_task
from compactor.storage.capabilities import TakenRange
from compactor.storage.local import LocalStorage
from tests.support.acid_files import FIRST_FILE, Key, dense, write_file, write_lying
from tests.support.split_units import WHOLE, content, done, large_unit, split_of, stripes, travelled
from tests.support.units import execute


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return large_unit(tmp_path)


def test_every_stripe_for_itself_makes_the_same_file(unit: Unit) -> None:
    parted = done(unit)
    whole = execute(replace(unit, split_bytes=WHOLE))
    assert len(split_of(unit).encode_tasks) == 6
    (left,), (right,) = parted.outputs, whole.outputs
    rows, metadata, stripes, types = content(left)
    assert rows == content(right)[0]
    assert types == content(right)[3]
    assert metadata["hive.acid.stats"] == content(right)[1]["hive.acid.stats"]
    assert len(metadata["hive.acid.key.index"].split(b";")) == len(stripes) + 1
    assert (left.rows, left.length) == (right.rows, Path(left.path).stat().st_size)
    same = replace(parted.figures, bytes_out=0)
    assert same == replace(whole.figures, bytes_out=0)
    assert (same.stripes_copied, same.stripes_encoded) == (3, 6)


def test_an_encode_task_gathers_runs_up_to_its_bytes(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each stripe would cost more than its work if one stripe in ten is hit by a delete event."""
    monkeypatch.setattr(split, "EVEN_TASKS", 1)
    sizes = [sum(len(run) for run in task.runs) for task in split_of(unit).encode_tasks]
    longest = max(c.length for c in stripes(unit))
    fewer = split_of(replace(unit, split_bytes=3 * longest)).encode_tasks
    assert sizes == [1] * 6
    assert (len(fewer), [run for s in fewer for run in s.runs if len(run) == 2] != []) == (2, True)
    whole = execute(replace(unit, split_bytes=WHOLE)).outputs[0]
    assert content(done(replace(unit, split_bytes=3 * longest)).outputs[0])[0] == content(whole)[0]


def test_a_minor_keeps_its_delete_events_once(unit: Unit) -> None:
    """PROTOCOL 1.5: events below the range stay, those within it are applied; the first task writes the former."""
    minor = replace(unit, shape=Shape.MINOR, inserts=unit.inserts[3:])
    parted, whole = done(minor), execute(replace(minor, split_bytes=WHOLE))
    assert [o.kind for o in parted.outputs] == [o.kind for o in whole.outputs]
    assert [content(o)[0] for o in parted.outputs] == [content(o)[0] for o in whole.outputs]
    assert parted.figures.events_out == whole.figures.events_out == 3
    assert replace(parted.figures, bytes_out=0) == replace(whole.figures, bytes_out=0)


def test_small_neighbours_share_an_encode_task(unit: Unit) -> None:
    small = replace(unit, small_stripe_bytes=1 << 20, split_bytes=500)
    assert content(done(small).outputs[0])[0] == content(execute(replace(small, split_bytes=WHOLE)).outputs[0])[0]


class Far(LocalStorage):
    """A store whose files no codec opens: they are read by ranges and uploaded."""

    def local_path(self, path: str) -> str | None:
        return None

    def descriptor(self, path: str) -> int | None:
        return None

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(local, path)


def test_parts_travel_through_the_tables_own_store(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode tasks run anywhere: their files are not on the machine that assembles them."""
    wanted = content(execute(replace(unit, split_bytes=WHOLE)).outputs[0])[0]
    monkeypatch.setattr("compactor.rewrite.run.execute.open_stores", lambda options: Far())
    (output,) = done(unit).outputs
    assert content(output)[0] == wanted
    assert len(list(Path(unit.staging, "attempts").glob("*/part0"))) == 6


def test_a_unit_that_only_copies_is_never_split(unit: Unit) -> None:
    result = perform_task(replace(unit, inserts=(unit.inserts[3], unit.inserts[4]), deletes=()))
    assert isinstance(result, UnitResult)
    assert result.figures.stripes_copied == 2


def test_an_encode_task_carries_its_own_stripes_only(unit: Unit) -> None:
    """A value that goes to an executor stays small, however many files the unit reads."""
    for task in split_of(unit).encode_tasks:
        assert isinstance(task, EncodeTask)
        assert (task.unit.inserts, task.unit.deletes, task.like.stripe_statistics) == ((), (), ())
        (run,) = task.runs
        assert [len(chosen.keep or ()) for chosen in run] == [run[0].rows]


def test_few_encode_tasks_are_made_smaller(unit: Unit) -> None:
    """Three tasks would keep the second of two cores waiting: each gets a quarter of the limit of one task."""
    longest = max(c.length for c in stripes(unit))
    tasks = split_of(replace(unit, split_bytes=4 * longest)).encode_tasks
    assert [sum(len(run) for run in task.runs) for task in tasks] == [2, 1, 1, 1, 1]


@pytest.mark.parametrize(("times", "tasks"), [(1, 4), (2, 2), (3, 2), (4, 0)])
def test_a_quarter_of_the_bytes_of_a_task_is_not_split(unit: Unit, times: int, tasks: int) -> None:
    """With more bytes, another core helps where one would work alone."""
    encoded = 0
    for chosen in (chosen for task in split_of(unit).encode_tasks for run in task.runs for chosen in run):
        with LocalSource(chosen.file.path) as source:
            encoded += read_tail(source).stripes[chosen.stripe].length
    made = perform_task(replace(unit, split_bytes=times * encoded))
    assert (len(made.encode_tasks) if isinstance(made, SplitUnit) else 0) == tasks


def test_encode_tasks_are_of_equal_size(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks wait for the last one to end: a remainder would keep one core busy and the others waiting."""
    monkeypatch.setattr(split, "EVEN_TASKS", 1)
    total = sum(chosen.rows for task in split_of(unit).encode_tasks for run in task.runs for chosen in run)
    longest = max(c.length for c in stripes(unit))
    tasks = split_of(replace(unit, split_bytes=4 * longest)).encode_tasks
    assert [sum(len(run) for run in task.runs) for task in tasks] == [3, 3]
    assert sum(chosen.rows for task in tasks for run in task.runs for chosen in run) == total


def test_stripes_chosen_by_statistics_make_the_same_file(unit: Unit) -> None:
    """PROTOCOL 2.1: known statistics show which rows go as surely as the keys do."""
    unseen = replace(unit, full_verify=False)
    chosen = [chosen for task in split_of(unseen).encode_tasks for run in task.runs for chosen in run]
    assert sum(one.is_unseen for one in chosen) == 5
    assert not any(c.is_unseen for task in split_of(unit).encode_tasks for run in task.runs for c in run)
    assert content(done(unseen).outputs[0]) == content(done(unit).outputs[0])


@pytest.mark.parametrize("split_bytes", [1, WHOLE])
def test_keys_out_of_order_make_the_unit_start_again(unit: Unit, split_bytes: int) -> None:
    """PROTOCOL 2.3: statistics do not show that these keys are out of order; decoding them does."""
    keys = dense(1, 51)
    write_file(Path(unit.location) / "d1" / "bucket_00000", [*keys[1:], keys[0]])
    asked = replace(unit, full_verify=False, split_bytes=split_bytes)
    (output,) = execute(asked).outputs
    assert output.rows == 470
    assert content(output) == content(execute(replace(asked, full_verify=True)).outputs[0])
    rows = content(output)[0]
    in_order = [(row["originalTransaction"], row["bucket"], row["rowId"]) for row in rows]
    assert in_order == sorted(set(in_order))


def test_an_encode_task_reports_that_its_unit_must_start_again(unit: Unit) -> None:
    keys = dense(1, 51)
    write_file(Path(unit.location) / "d1" / "bucket_00000", [*keys[1:], keys[0]])
    tasks = [travelled(task) for task in split_of(replace(unit, full_verify=False)).encode_tasks]
    with pytest.raises(UnforeseenKeys, match=r"d1/bucket_00000, stripe 0: its rowId differs .* must be read first"):
        _ = [perform_task(task) for task in tasks]


@pytest.mark.parametrize("split_bytes", [1, WHOLE])
@pytest.mark.parametrize(
    "keys", [dense(1, 51, first=1), dense(2, 51), [*dense(1, 50), (1, FIRST_FILE, 49)]], ids=["row", "write", "twice"]
)
def test_keys_that_contradict_their_statistics_are_refused(unit: Unit, split_bytes: int, keys: list[Key]) -> None:
    """PROTOCOL 2.1: reading all keys distinguishes damage from another order."""
    write_lying(Path(unit.location) / "d1" / "bucket_00000", keys, dense(1, 51))
    with pytest.raises(BadFile, match=r"d1/bucket_00000, stripe 0: .* its statistics say .* is damaged") as raised:
        execute(replace(unit, full_verify=False, split_bytes=split_bytes))
    assert not isinstance(raised.value, UnforeseenKeys)
