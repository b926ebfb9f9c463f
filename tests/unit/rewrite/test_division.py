"""A divided unit makes what the whole one makes: the same rows, keys, metadata and figures."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.errors import BadFile
from compactor.ids import WriteId
from compactor.orc.source import LocalSource
from compactor.orc.tail import Stripe, read_tail
from compactor.rewrite.division import Division, Section
from compactor.rewrite.execute import execute, perform
from compactor.rewrite.unit import Output, Shape, Unit, UnitResult
from compactor.rows.inputs import Input
from tests.support.acid_files import FIRST_FILE, ROW_TYPE, dense, write_file

WHOLE = 1 << 30  #: more than there is


def inputs(folder: Path, names: Sequence[str]) -> tuple[Input, ...]:
    return tuple(
        Input(path=n, length=(folder / n).stat().st_size, raw="/" not in n, group=n.partition("/")[0]) for n in names
    )


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    """An original file, a base of six stripes, two deltas; deleted rows in all but two of the stripes."""
    po.write_table(pa.table({"a": pa.array(range(40), pa.int32())}), str(tmp_path / "000000_0"))
    rows = ["000000_0"]
    for write_id in range(1, 9):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 50 + write_id))
        rows.append(f"d{write_id}/bucket_00000")
    gone = [(write_id, FIRST_FILE, 7 * write_id) for write_id in (0, 1, 2, 5, 6, 8)]
    write_file(tmp_path / "x" / "bucket_00000", gone, current=[9] * len(gone), operation=2)
    return Unit(
        location=str(tmp_path),
        staging=str(tmp_path / "_compactor_v7"),
        number=0,
        shape=Shape.MAJOR,
        inserts=inputs(tmp_path, rows),
        deletes=inputs(tmp_path, ["x/bucket_00000"]),
        write_ids=ValidWriteIdList(table="d.t", high_watermark=WriteId(9)),
        first_write_id=WriteId(3),
        row_type=ROW_TYPE,
        small_stripe_bytes=0,
        split_bytes=1,
        full_verify=True,
    )


def travelled(value: Any) -> Any:
    """``value`` as an executor, or the driver, gets it."""
    return pickle.loads(pickle.dumps(value))


def divided(unit: Unit) -> Division:
    found = travelled(perform(unit))
    assert isinstance(found, Division)
    return found


def done(unit: Unit) -> UnitResult:
    division = divided(unit)
    sections = [travelled(perform(travelled(section))) for section in division.sections]
    result = travelled(perform(travelled(division.whole(sections))))
    assert isinstance(result, UnitResult)
    return result


def content(output: Output) -> tuple[list[Any], dict[str, bytes], list[int], object]:
    with LocalSource(output.path) as source:
        tail = read_tail(source)
        rows = po.ORCFile(output.path).read().to_pylist()
        return rows, dict(tail.user_metadata), [s.rows for s in tail.stripes], tail.types


def stripes(unit: Unit) -> list[Stripe]:
    found: list[Stripe] = []
    for source in unit.inserts:
        with LocalSource(f"{unit.location}/{source.path}") as opened:
            found += read_tail(opened).stripes
    return found


def test_every_stripe_for_itself_makes_the_same_file(unit: Unit) -> None:
    parted = done(unit)
    whole = execute(replace(unit, split_bytes=WHOLE))
    assert len(divided(unit).sections) == 6
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


def test_a_section_gathers_runs_up_to_its_bytes(unit: Unit) -> None:
    """Where one stripe in ten meets a delete event, a task for each would cost more than it does."""
    sizes = [sum(len(run) for run in section.runs) for section in divided(unit).sections]
    longest = max(c.length for c in stripes(unit))
    fewer = divided(replace(unit, split_bytes=3 * longest)).sections
    assert sizes == [1] * 6
    assert (len(fewer), [run for s in fewer for run in s.runs if len(run) == 2] != []) == (2, True)
    whole = execute(replace(unit, split_bytes=WHOLE)).outputs[0]
    assert content(done(replace(unit, split_bytes=3 * longest)).outputs[0])[0] == content(whole)[0]


def test_a_minor_keeps_its_delete_events_once(unit: Unit) -> None:
    """PROTOCOL 1.5: events below the range stay, those within are applied; the first task writes them."""
    minor = replace(unit, shape=Shape.MINOR, inserts=unit.inserts[3:])
    parted, whole = done(minor), execute(replace(minor, split_bytes=WHOLE))
    assert [o.kind for o in parted.outputs] == [o.kind for o in whole.outputs]
    assert [content(o)[0] for o in parted.outputs] == [content(o)[0] for o in whole.outputs]
    assert parted.figures.events_out == whole.figures.events_out == 3
    assert replace(parted.figures, bytes_out=0) == replace(whole.figures, bytes_out=0)


def test_small_neighbours_go_through_one_section(unit: Unit) -> None:
    small = replace(unit, small_stripe_bytes=1 << 20, split_bytes=500)
    assert content(done(small).outputs[0])[0] == content(execute(replace(small, split_bytes=WHOLE)).outputs[0])[0]


def test_what_is_only_copied_is_never_divided(unit: Unit) -> None:
    result = perform(replace(unit, inserts=(unit.inserts[3], unit.inserts[4]), deletes=()))
    assert isinstance(result, UnitResult)
    assert result.figures.stripes_copied == 2


def test_a_section_carries_its_own_stripes_only(unit: Unit) -> None:
    """A value that goes to an executor stays small, however many files the unit reads."""
    for section in divided(unit).sections:
        assert isinstance(section, Section)
        assert (section.unit.inserts, section.unit.deletes, section.like.stripe_statistics) == ((), (), ())
        (run,) = section.runs
        assert [len(chosen.keep or ()) for chosen in run] == [run[0].rows]


def test_an_input_that_is_gone_meanwhile_is_named(unit: Unit, tmp_path: Path) -> None:
    section = divided(unit).sections[-1]
    (tmp_path / "d8" / "bucket_00000").unlink()
    with pytest.raises(BadFile, match="d8/bucket_00000: it is gone"):
        perform(section)


def test_a_part_that_shrank_meanwhile_is_refused(unit: Unit) -> None:
    """PROTOCOL 4: nothing that is not what was written gets a name."""
    division = divided(unit)
    sections = [perform(section) for section in division.sections]
    whole = division.whole(sections)
    part = whole.sections[0].runs[0][0]
    assert isinstance(part, Output)
    Path(part.path).write_bytes(Path(part.path).read_bytes()[:-1])
    with pytest.raises(Exception, match=f"{part.length} were written"):
        perform(whole)
