"""A compaction changes no answer of any reader: its rows, and the rows that it finds with any predicate."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from compactor.acid.names import Layout
from compactor.base.errors import NotLossless, NotSupported, Refused
from tests.judges import PYARROW, PYORC, JavaJudge, Judge, Unreadable, orc_1_5, orc_2_3, trino_476
from tests.judges.examples import WRITERS, ZONES, Example, examples, is_java, writers_of
from tests.judges.judged_table import JudgedTable, as_shown
from tests.judges.values import with_early_seconds, without_julian_days
from tests.support.sizes import sized

_MEMORY = "/dev/shm"
#: ``JUDGED_EXAMPLES=20000 WHOLE=1 python -m pytest tests/judges`` is the long form.
_EXAMPLES = int(os.environ.get("JUDGED_EXAMPLES", sized(short=20, whole=1500)))
_PHASES = (Phase.generate, Phase.shrink)
_READERS = ThreadPoolExecutor()  #: most judges are programs of their own

Answers = list[dict[int, str]]


def _read(table: JudgedTable, judges: list[Judge]) -> dict[str, Answers]:
    """Returns the answers of each judge that can read the table, by its name; they read at the same time."""

    def read(judge: Judge) -> Answers | None:
        try:
            return table.answers(judge)
        except Unreadable:
            return None

    return {
        judge.name: answers
        for judge, answers in zip(judges, _READERS.map(read, judges), strict=True)
        if answers is not None
    }


def _check_written(table: JudgedTable, judge: Judge, rows: Mapping[int, str]) -> None:
    """Checks that a judge shows the rows that were written, as far as it can show them."""
    assert rows.keys() == table.written.keys(), judge.name
    if _shows_all(judge, table.example):
        assert rows == {number: as_shown(judge, row) for number, row in table.written.items()}, judge.name


def _shows_all(judge: Judge, example: Example) -> bool:
    """Tells whether a judge shows every value as its writer had it."""
    if "struct" in example.row_type[7:] and any(file.writer == "pyarrow" for file in example.files):
        return False  # it shifts structs after one that is NULL
    if isinstance(judge, JavaJudge):
        if example.is_old and not all(is_java(file.writer) for file in example.files):
            return False  # C++ writers name no calendar, which Java takes for the Julian one
        return judge.utc  # times that its zone's clocks passed over are not what was written
    if example.is_old and any(is_java(file.writer) and not file.options["proleptic"] for file in example.files):
        return False  # others show all days in the Gregorian calendar
    if any(file.options["zone"] != "UTC" for file in example.files):
        return False  # others have tzdata's rules
    if judge is PYORC:
        return WRITERS["pyorc"] in writers_of(example.columns)  # it has no tags of unions, and a key only once
    if "uniontype" in example.row_type:
        return False  # whose values Trino shows as NULL
    return not (judge is trino_476() and example.is_early_for_trino)


def _check_kept(table: JudgedTable, judge: Judge, before: Answers, after: Answers) -> None:
    """Checks that a judge shows the same rows, or those that were written, and finds all that it found before."""
    rows, *hits = before
    rows_after, *hits_after = after
    assert rows_after.keys() == rows.keys(), judge.name
    for number, text in rows_after.items():
        assert text == rows[number] or text in _shown_in_utc(judge, table.written[number]), judge.name
    for predicate, found, found_after in zip(table.example.predicates, hits, hits_after, strict=True):
        if judge is PYORC and predicate.has_early_fraction:
            continue
        lost = {number for number in found.keys() - found_after.keys() if rows[number] == rows_after[number]}
        assert not lost, f"{judge.name} no longer finds {[rows[number] for number in lost][:3]} with {predicate}"
        assert found_after.items() <= rows_after.items(), f"{judge.name} with {predicate}"


def _shown_in_utc(judge: Judge, written: str) -> set[str]:
    """Returns how a judge that does not know Java's rules may show a row once its times are in UTC."""
    if isinstance(judge, JavaJudge):
        return set()
    texts = {written, without_julian_days(written)}
    return texts | set(map(with_early_seconds, texts)) if judge is trino_476() else texts


def _check(example: Example, zone: str, **of_site: Any) -> None:
    judges: list[Judge] = [orc_1_5(), orc_1_5().in_zone(zone), orc_2_3().in_zone(zone, utc=True), trino_476(), PYORC]
    if "uniontype" not in example.row_type:
        judges.append(PYARROW)  # a struct that is NULL around a union ends its process
    with TemporaryDirectory(dir=_MEMORY) as folder:
        table = JudgedTable(example=example, root=Path(folder) / "t", **of_site)
        table.root.mkdir()
        for each in example.rounds:
            table.write(each)
            before = _read(table, judges)
            able = [judge for judge in judges if judge.name in before]
            for judge in able:
                _check_written(table, judge, before[judge.name][0])
            for judge in judges:
                if judge not in able:
                    event(f"{judge.name} cannot read an input")
            try:
                table.compact(each.compaction)
            except (NotSupported, NotLossless, Refused) as refusal:
                event(f"refused: {str(refusal)[-60:]}")
                continue
            event(f"{each.compaction} done")
            if (
                table.layout is Layout.PLAIN
                and each.compaction == "major"
                and "local time zone" not in example.row_type
            ):
                # readers of that metastore's tables have ORC 1.5, whatever codec the inputs had
                assert table.answers(orc_1_5())[0].keys() == table.written.keys()
            for judge, after in zip(able, _READERS.map(table.answers, able), strict=True):
                _check_kept(table, judge, before[judge.name], after)


_settings = settings(max_examples=_EXAMPLES, phases=_PHASES, report_multiple_bugs=False)
_of_site = {
    "zone": st.sampled_from(ZONES),
    "layout": st.sampled_from((Layout.VISIBILITY, Layout.PLAIN)),
    "small": st.sampled_from((0, 1 << 20)),
    "full_verify": st.booleans(),
    "as_large": st.booleans(),
}


@_settings
@given(example=examples(acid=True), **_of_site)
def test_no_answer_changes_with_a_compaction_of_a_full_acid_table(example: Example, zone: str, **of_site: Any) -> None:
    _check(example, zone, **of_site)


@settings(_settings, max_examples=_EXAMPLES // 2)
@given(example=examples(acid=False), **_of_site)
def test_no_answer_changes_with_a_compaction_of_an_insert_only_table(
    example: Example, zone: str, **of_site: Any
) -> None:
    _check(example, zone, **of_site)
