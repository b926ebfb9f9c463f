"""A compaction changes no answer of any reader: its rows, and the rows that it finds with any predicate."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from compactor.acid.directory import acid_directory
from compactor.acid.names import DeltaKind
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.errors import NotLossless, NotSupported, Refused
from compactor.ids import NOTHING_OPEN, TxnId, WriteId
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import PlanContext, plan
from compactor.rewrite.plan.unit import Shape
from compactor.storage.local import LocalStorage
from tests.judges import Judge, Predicate, Unreadable, judges, orc_1_5, orc_2_3
from tests.judges.examples import WRITERS, ZONES, Example, examples
from tests.support.acid_files import FIRST_FILE
from tests.support.folders import staging_of
from tests.support.sizes import sized
from tests.support.units import run_units

_ACID = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{}>"
_MEMORY = "/dev/shm"
#: ``JUDGED_EXAMPLES=20000 WHOLE=1 python -m pytest tests/judges`` is the long form.
_EXAMPLES = int(os.environ.get("JUDGED_EXAMPLES", sized(short=30, whole=1500)))
_PHASES = (Phase.generate, Phase.shrink)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The files of a table as a reader sees them: rows, and delete events that take rows away."""

    inserts: Sequence[Path]
    deletes: Sequence[Path] = ()
    written: Sequence[str] | None = None  #: the rows, as texts in order; None where the writer itself changes some

    def answers(self, judge: Judge, predicates: Sequence[Predicate | None]) -> list[list[str]]:
        """Returns the rows that a judge finds for each predicate, as texts in order."""
        gone = {row[1:4] for path in self.deletes for row in judge.rows(path)}
        found: list[list[str]] = [[] for _ in predicates]
        for path in self.inserts:
            answers = judge.answers(path, predicates)
            texts = {id(row): repr(row) for answer in answers for row in answer if row[1:4] not in gone}
            for rows, answer in zip(found, answers, strict=True):
                rows += [texts[id(row)] for row in answer if id(row) in texts]
        return list(map(sorted, found))


def _write(example: Example, root: Path, *, acid: bool, base: bool) -> Table:
    """Writes a table of one file a directory."""
    inserts, written = [], []
    for number, file in enumerate(example.files, start=1):
        name = f"base_{number:07}" if base and number == 1 else f"delta_{number:07}_{number:07}_0000"
        path = root / name / ("bucket_00000" if acid else "000000_0")
        path.parent.mkdir()
        rows = list(file.rows)
        if acid:
            rows = [(0, number, FIRST_FILE, place, number, row) for place, row in enumerate(rows)]
        schema = _ACID.format(example.row_type) if acid else example.row_type
        WRITERS[file.writer].write(path, schema, rows, **file.options)
        inserts.append(path)
        written += [
            repr(row) for place, row in enumerate(rows) if not (acid and (number - 1, place) in example.deleted)
        ]
    # pyarrow shifts structs after one that is NULL
    is_kept = "struct" not in example.row_type or all(file.writer != "pyarrow" for file in example.files)
    table = Table(inserts=inserts, written=sorted(written) if is_kept else None)
    if not (acid and example.deleted):
        return table
    last = len(example.files) + 1
    path = root / f"delete_delta_{last:07}_{last:07}_0000" / "bucket_00000"
    path.parent.mkdir()
    events = [(2, number + 1, FIRST_FILE, place, last, None) for number, place in sorted(example.deleted)]
    orc_1_5().write(path, _ACID.format(example.row_type), events)
    return replace(table, deletes=[path])


def _compact(table: Table, example: Example, root: Path, shape: Shape, *, acid: bool, small: int) -> Table:
    """Compacts a table as a worker does and returns the table that readers then see.

    Raises:
        NotSupported, NotLossless: the compaction is refused.
    """
    write_ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(9))
    directory = acid_directory(
        LocalStorage().listing(str(root)), write_ids, ValidTxnList(high_watermark=TxnId(NOTHING_OPEN))
    )
    context = PlanContext(
        location=str(root),
        txn=TxnId(7),
        write_ids=write_ids,
        row_type=example.row_type,
        file_format=None if acid else FileFormat.ORC,
        small_stripe_bytes=small,
    )
    work = plan(directory, shape, context)
    staging_of(root)
    outputs = [output for result in run_units(work.units) for output in result.outputs]
    kept = [path for path in table.inserts if path.parent.name.startswith("base") and shape is Shape.MINOR]
    return Table(
        inserts=[*kept, *(Path(output.path) for output in outputs if output.kind is DeltaKind.INSERT)],
        deletes=[Path(output.path) for output in outputs if output.kind is DeltaKind.DELETE],
    )


def _lost(answer: Sequence[str], all_rows: Sequence[str]) -> Counter[str]:
    return Counter(all_rows) - Counter(answer)


def _check_judge(judge: Judge, before: Table, after: Table, predicates: Sequence[Predicate]) -> None:
    """Checks that a judge finds the same rows, and loses none by a predicate that it found before."""
    try:
        rows, *answers = before.answers(judge, [None, *predicates])
    except Unreadable:
        event(f"{judge.name} cannot read an input")
        return
    if before.written is not None:
        assert rows == before.written, judge.name
    rows_after, *answers_after = after.answers(judge, [None, *predicates])
    assert rows_after == rows, judge.name
    for predicate, answer, answer_after in zip(predicates, answers, answers_after, strict=True):
        lost = _lost(answer_after, rows) - _lost(answer, rows)
        assert not lost, f"{judge.name} no longer finds {list(lost)[:3]} with {predicate}"
        assert not Counter(answer_after) - Counter(rows), f"{judge.name} with {predicate}"


def _check(example: Example, zone: str, shape: Shape, *, acid: bool, base: bool, small: int) -> None:
    with TemporaryDirectory(dir=_MEMORY) as folder:
        root = Path(folder) / "t"
        root.mkdir()
        before = _write(example, root, acid=acid, base=base)
        try:
            after = _compact(before, example, root, shape, acid=acid, small=small)
        except (NotSupported, NotLossless, Refused) as refusal:
            event(f"refused: {str(refusal)[-60:]}")
            return
        event("compacted")
        local = orc_1_5().in_zone(zone)
        for judge in (orc_1_5(), orc_2_3().in_zone(zone, utc=True), *judges()[2:]):
            _check_judge(judge, before, after, example.predicates)
        # times that the zone's clocks passed over are not what was written
        _check_judge(local, replace(before, written=None), after, example.predicates)


@settings(max_examples=_EXAMPLES, phases=_PHASES, report_multiple_bugs=False)
@given(
    example=examples(),
    zone=st.sampled_from(ZONES),
    shape=st.sampled_from(Shape),
    base=st.booleans(),
    small=st.sampled_from((0, 1 << 20)),
)
def test_no_answer_changes_with_a_compaction_of_a_full_acid_table(
    example: Example, zone: str, shape: Shape, base: bool, small: int
) -> None:
    _check(example, zone, shape, acid=True, base=base, small=small)


@settings(max_examples=_EXAMPLES // 2, phases=_PHASES, report_multiple_bugs=False)
@given(
    example=examples(),
    zone=st.sampled_from(ZONES),
    shape=st.sampled_from(Shape),
    base=st.booleans(),
    small=st.sampled_from((0, 1 << 20)),
)
def test_no_answer_changes_with_a_compaction_of_an_insert_only_table(
    example: Example, zone: str, shape: Shape, base: bool, small: int
) -> None:
    _check(example, zone, shape, acid=False, base=base, small=small)
