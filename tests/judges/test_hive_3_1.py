"""ORC Java 1.5 reads what newer writers put into a table, once a site of Hive 3.1 has compacted it (PROTOCOL 2.7, 2.8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.names import Layout
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import NOTHING_OPEN, TxnId, WriteId
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import PlanContext, plan
from compactor.rewrite.plan.unit import Shape, UnitResult
from compactor.storage.local import LocalStorage
from tests.judges import Predicate, judges, orc_1_5, orc_2_3
from tests.support.acid_files import FIRST_FILE
from tests.support.folders import staging_of
from tests.support.units import run_units

_ROW = "struct<id:bigint,s:struct<t:string>,v:varchar(3000)>"
_ACID = f"struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{_ROW}>"
#: Texts that the writer cuts, in the second row group; those of the first are short.
_TEXTS = ["k" * 2000, "k" * 2000 + "z", "\U0010ffff" * 600]


def _rows(number: int) -> list[tuple[object, ...]]:
    texts = [*(f"m{place}" for place in range(1000)), *_TEXTS, *["k" * 1500] * 27, *[None] * 10]
    return [(place + number, None if place % 50 == 7 else (text,), text) for place, text in enumerate(texts)]


def _compact(root: Path, shape: Shape, layout: Layout, *, acid: bool) -> list[UnitResult]:
    write_ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(9))
    found = acid_directory(
        LocalStorage().listing(str(root)), write_ids, ValidTxnList(high_watermark=TxnId(NOTHING_OPEN))
    )
    context = PlanContext(
        location=str(root),
        txn=TxnId(7),
        write_ids=write_ids,
        row_type=_ROW,
        file_format=None if acid else FileFormat.ORC,
        small_stripe_bytes=0,
        layout=layout,
    )
    work = plan(found, shape, context)
    staging_of(root)
    return run_units([replace(unit, full_verify=True) for unit in work.units])


@pytest.mark.parametrize("acid", [True, False], ids=["full ACID", "insert-only"])
def test_copied_stripes_lose_no_long_text(tmp_path: Path, acid: bool) -> None:
    root, written = tmp_path / "t", []
    for number in (1, 2):
        path = root / f"delta_{number:07}_{number:07}_0000" / ("bucket_00000" if acid else "000000_0")
        path.parent.mkdir(parents=True)
        rows = _rows(number)
        written += rows
        if acid:
            rows = [(0, number, FIRST_FILE, place, number, row) for place, row in enumerate(rows)]
        orc_2_3().write(path, _ACID if acid else _ROW, rows, row_index_stride=1000)
    predicates = [Predicate(column, "=", (text,)) for column in ("s.t", "v") for text in [*_TEXTS, "m2"]]
    predicates += [Predicate("v", "<", ("k" * 1025,), negated=True), Predicate("v", "is null")]
    found = [sum(predicate.matches(row, _ROW) for row in written) for predicate in predicates]
    for layout in (Layout.PLAIN, Layout.VISIBILITY):
        (result,) = _compact(root, Shape.MAJOR, layout, acid=acid)
        (output,) = result.outputs
        assert result.figures.stripes_copied == 2
        for judge in judges() if layout is Layout.PLAIN else [orc_2_3()]:
            rows, *answers = judge.answers(Path(output.path), [None, *predicates])
            assert [row[5] if acid else row for row in rows] == written
            assert list(map(len, answers)) == found, judge.name


def test_files_without_rows_can_be_opened(tmp_path: Path) -> None:
    for number in (1, 2):
        path = tmp_path / "t" / f"delta_{number:07}_{number:07}_0000" / "000000_0"
        path.parent.mkdir(parents=True)
        orc_2_3().write(path, _ROW, [], compress="ZSTD")
    ((output,),) = [result.outputs for result in _compact(tmp_path / "t", Shape.MAJOR, Layout.PLAIN, acid=False)]
    assert orc_1_5().rows(Path(output.path)) == []
