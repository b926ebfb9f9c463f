from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.errors import BadFile, VerificationFailed
from compactor.rewrite.plan.unit import Output, Unit
from compactor.rewrite.run.execute import perform
from tests.support.divided import divided, large_unit


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return large_unit(tmp_path)


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
    with pytest.raises(VerificationFailed, match=f"{part.length} were written"):
        perform(whole)


def test_an_assembly_that_lacks_rows_is_refused(unit: Unit) -> None:
    """PROTOCOL 4: verified as a whole unit is."""
    division = divided(unit)
    whole = division.whole([perform(section) for section in division.sections])
    with pytest.raises(VerificationFailed, match="rows in"):
        perform(replace(whole, copies=((),) * len(whole.copies)))
