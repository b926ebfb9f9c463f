"""Readers of tables that a site of Hive 3.1 has compacted, above all ORC Java 1.5 (PROTOCOL 2.2, 2.7, 2.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.names import Layout
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import NOTHING_OPEN, TxnId, WriteId
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import PlanContext, plan
from compactor.rewrite.plan.unit import Shape, UnitResult
from compactor.storage.local import LocalStorage
from compactor.tables.writing.statement_files import WaitingRows, write_inserts
from compactor.tables.writing.writer_messages import TravellingColumn, TravellingShape
from tests.judges import PYORC, Predicate, judges, orc_1_5, orc_2_3, trino_476
from tests.support.acid_files import FIRST_FILE
from tests.support.folders import staging_of
from tests.support.mixtures import File
from tests.support.units import run_units

_ROW = "struct<id:bigint,s:struct<t:string>,v:varchar(3000)>"
_KEYS = "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint"
_ACID = f"struct<{_KEYS},row:{_ROW}>"
#: Texts that the writer cuts, in the second row group; those of the first are short.
_TEXTS = ["k" * 2000, "k" * 2000 + "z", "\U0010ffff" * 600]


def _rows(number: int) -> list[tuple[object, ...]]:
    texts = [*(f"m{place}" for place in range(1000)), *_TEXTS, *["k" * 1500] * 27, *[None] * 10]
    return [(place + number, None if place % 50 == 7 else (text,), text) for place, text in enumerate(texts)]


def _compact(
    root: Path, shape: Shape, layout: Layout, *, acid: bool, row_type: str = _ROW, small_stripe_bytes: int = 0
) -> list[UnitResult]:
    write_ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(9))
    found = acid_directory(
        LocalStorage().listing(str(root)), write_ids, ValidTxnList(high_watermark=TxnId(NOTHING_OPEN))
    )
    context = PlanContext(
        location=str(root),
        txn=TxnId(7),
        write_ids=write_ids,
        row_type=row_type,
        file_format=None if acid else FileFormat.ORC,
        small_stripe_bytes=small_stripe_bytes,
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


#: Days, and how a reader shows their numbers that takes them for days of the Julian calendar.
_DAYS = {
    "0001-01-01": "0001-01-03",
    "1000-02-28": "1000-02-23",
    "1582-10-04": "1582-09-24",
    "1582-10-10": "1582-09-30",
    "1582-10-15": "1582-10-15",
    "2024-02-29": "2024-02-29",
}
_DATED = "struct<day:date,at:timestamp>"


def _dated(days: Sequence[str]) -> list[tuple[str, str]]:
    return [(day, f"{day} 12:00:00.000000000") for day in days]


@pytest.mark.parametrize("small_stripe_bytes", [0, 1 << 20], ids=["copied", "re-encoded"])
@pytest.mark.parametrize("shape", [Shape.MINOR, Shape.MAJOR])
def test_old_days_of_hive_and_of_programs_stay_beside_each_other(
    tmp_path: Path, shape: Shape, small_stripe_bytes: int
) -> None:
    """PROTOCOL 2.2: every reader shows one day for both, before and after, whatever it takes the calendar for."""
    of_hive, of_program = (tmp_path / "t" / f"delta_{number:07}_{number:07}_0000" for number in (1, 2))
    of_hive.mkdir(parents=True)
    of_program.mkdir()
    # Hive 3.1.3 gives ORC the numbers of Gregorian days; ORC Java itself takes texts for Julian days. ORC 1.5.8, which is
    # Hive's, names no calendar.
    file = File(row="day:date,at:timestamp", values=_dated([*_DAYS.values()]), by_java={}, tail={"calendar": 0})
    (of_hive / "bucket_00000").write_bytes(file.content(1))
    acid = f"struct<{_KEYS},row:{_DATED}>"
    columns = (TravellingColumn(name="day", type="date"), TravellingColumn(name="at", type="timestamp"))
    table = TravellingShape(
        name="d.t",
        columns=columns,
        partition_keys=(),
        buckets=-1,
        bucket_columns=(),
        parameters={"orc.compress": "ZLIB"},
        row_type=_DATED,
    )
    waiting = WaitingRows()
    days = np.array([*_DAYS], dtype="datetime64[D]")
    at = pa.array(days.astype("datetime64[s]") + np.timedelta64(12, "h"))
    waiting.add(pa.table({"day": days, "at": at}), str(tmp_path))
    write_inserts(str(of_program), table, waiting, write_id=WriteId(2), statement_id=0, number=0, is_gregorian=True)
    (result,) = _compact(
        tmp_path / "t", shape, Layout.PLAIN, acid=True, row_type=_DATED, small_stripe_bytes=small_stripe_bytes
    )
    (output,) = result.outputs
    assert result.figures.stripes_copied == (0 if small_stripe_bytes else 2)
    for judge in (orc_1_5(), orc_2_3(), trino_476(), PYORC):
        shown = [*(_DAYS.values() if judge in (orc_1_5(), orc_2_3()) else _DAYS)]
        predicates = [Predicate("day", operator, (day,)) for day in shown for operator in ("=", "<")]
        before, beside, after = (
            judge.answers(path, [None, *predicates])
            for path in (of_hive / "bucket_00000", of_program / "bucket_00000", Path(output.path))
        )
        assert [row[5] for row in before[0]] == [row[5] for row in beside[0]] == _dated(shown), judge.name
        # ORC Java 1.5 loses old days of a stripe of its own until the stripe is re-encoded
        matching = [first + second for first, second in zip(before[1:], beside[1:], strict=True)]
        if small_stripe_bytes:
            matching = [[row for row in after[0] if predicate.matches(row, acid)] for predicate in predicates]
        assert after == [before[0] + beside[0], *matching], judge.name
