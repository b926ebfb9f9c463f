from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, VerificationFailed
from compactor.rewrite.plan.unit import Output, Unit
from compactor.rewrite.run.execute import perform_task
from tests.support.split_units import large_unit, split_of


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return large_unit(tmp_path)


def test_an_input_that_vanished_is_named(unit: Unit, tmp_path: Path) -> None:
    task = split_of(unit).encode_tasks[-1]
    (tmp_path / "d8" / "bucket_00000").unlink()
    with pytest.raises(BadFile, match="d8/bucket_00000: it is gone"):
        perform_task(task)


def test_a_part_that_shrank_is_refused(unit: Unit) -> None:
    """PROTOCOL 4: a file gets a name only if it is as it was written."""
    split = split_of(unit)
    encoded = [perform_task(task) for task in split.encode_tasks]
    last = split.last_task(encoded)
    part = last.encoded[0].runs[0][0]
    assert isinstance(part, Output)
    Path(part.path).write_bytes(Path(part.path).read_bytes()[:-1])
    with pytest.raises(VerificationFailed, match=f"{part.length} were written"):
        perform_task(last)


def test_an_assemble_task_that_lacks_rows_is_refused(unit: Unit) -> None:
    """PROTOCOL 4: it is verified like a unit that is not split."""
    split = split_of(unit)
    last = split.last_task([perform_task(task) for task in split.encode_tasks])
    with pytest.raises(VerificationFailed, match="rows in"):
        perform_task(replace(last, copies=((),) * len(last.copies)))
