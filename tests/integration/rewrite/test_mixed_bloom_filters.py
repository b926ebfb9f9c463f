"""Stripes with and without bloom filters in one output: every reader finds the rows that it found before (PROTOCOL 2.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from compactor.base.ids import WriteId
from compactor.orc import assembler
from compactor.orc.assembler import Assembler
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.stripe_footer import BLOOM_UTF8, filter_streams, read_stripe_footer
from compactor.orc.format.tail import FilterStream, read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import LocalSink, LocalSource
from compactor.rewrite.insert_only import orc as insert_only_orc
from compactor.rewrite.plan.unit import FileNumberInputs, Rebalance
from compactor.rows.acid_file import open_files
from compactor.rows.inputs import Input
from tests.judges import PYORC, Predicate, Row, orc_1_5, orc_2_3, shown, trino_476
from tests.judges.values import decimal_value
from tests.support.acid_files import FIRST_FILE
from tests.support.mixtures import DELETER, make_unit
from tests.support.targets import target
from tests.support.units import execute

TYPES = {
    "i": "int",
    "t": "tinyint",
    "b": "boolean",
    "z": "timestamp",
    "d": "double",
    "f": "float",
    "c": "char(4)",
    "w": "string",
    "m": "decimal(10,2)",
    "y": "date",
    "s": "struct<x:bigint,u:varchar(9)>",
    "e": "double",
}
ROW = ",".join(f"{name}:{kind}" for name, kind in TYPES.items())
PLAIN = f"struct<{ROW}>"
ACID = schema_text(acid_types(parse_hive_type(PLAIN)))
ID = 7  #: number of the column in an ACID file
GROUP = 1000


def _row(number: int) -> Row:
    return (
        *(number, number % 100, number % 2 == 0, f"2020-01-01 00:{number % 60:02}:00.001000000", number / 4),
        *(number / 2, f"c{number % 1000}"[:4], f"w{number:05}", decimal_value(Decimal(number).scaleb(-2))),
        *(f"{1990 + number % 30}-02-03", (number << 33, f"u{number}")),
        # equal to others by another hash; readers of a filter with them would lose rows
        math.nan if number % 5 == 0 else -0.0 if number % 5 == 1 else 0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Rows ``first..last``, of which every ``step``-th one is there, written with bloom filters on ``columns``."""

    first: int
    last: int
    step: int = 1
    columns: Sequence[str] = ()
    writer: str = "java"
    deleted: tuple[int, ...] = ()
    is_raw: bool = False

    @property
    def rows(self) -> list[Row]:
        return [_row(number) for number in range(self.first, self.last, self.step)]

    def write(self, path: Path, write_id: int) -> None:
        schema = PLAIN if self.is_raw else ACID
        rows: list[Row] = [
            row if self.is_raw else (0, write_id, FIRST_FILE, place, write_id, row)
            for place, row in enumerate(self.rows)
        ]
        if self.writer == "cpp":
            PYORC.write(path, schema, rows, row_index_stride=GROUP, bloom_filter_columns=self.columns)
            return
        version = {"orc.bloom.filter.write.version": "original"} if self.writer == "original" else {}
        orc_1_5().write(path, schema, rows, row_index_stride=GROUP, bloom_filter_columns=self.columns, settings=version)

    def content(self, write_id: int) -> bytes:
        with TemporaryDirectory() as folder:
            self.write(path := Path(folder, "file"), write_id)
            return path.read_bytes()


BASE, ALL = File(first=0, last=2200, step=2), tuple(TYPES)
DELTA = File(first=1001, last=1021, step=2)
MIXTURES = {
    "filters, then none": [replace(BASE, columns=ALL), DELTA],
    "none, then filters": [BASE, replace(DELTA, columns=ALL)],
    "other columns": [replace(BASE, columns=["i", "w"]), replace(DELTA, columns=["s", "y"]), replace(DELTA, first=31)],
    "C++ behind Java": [replace(BASE, columns=ALL), replace(DELTA, writer="cpp", columns=["i", "w"])],
    "Java behind C++": [replace(BASE, writer="cpp", columns=["i", "z"]), replace(DELTA, columns=ALL)],
    "filters of both kinds": [replace(BASE, columns=ALL, writer="original"), DELTA],
    "rows deleted behind filters": [replace(BASE, columns=ALL), replace(DELTA, deleted=(3,))],
    "rows deleted before filters": [replace(BASE, deleted=(7,)), replace(DELTA, columns=ALL)],
    "less than a row group": [replace(DELTA, columns=["i", "e"]), replace(DELTA, first=41, last=61)],
    "an original file": [replace(DELTA, columns=ALL, is_raw=True), replace(BASE, columns=["i"])],
}


def _streams(path: Path) -> list[frozenset[FilterStream]]:
    """Returns the filters of each stripe."""
    with LocalSource(path) as source:
        tail = read_tail(source)
        return [filter_streams(read_stripe_footer(source, tail, number)) for number in range(len(tail.stripes))]


def _predicates(rows: Sequence[Row]) -> list[Predicate]:
    """Returns predicates on the values of a row in the middle and of the last one."""
    names = list(TYPES)
    return [
        Predicate(name, "=", (row[names.index(name)],)) for row in (rows[len(rows) // 2], rows[-1]) for name in "izwmd"
    ]


def _check(path: Path, rows: Sequence[Row], schema: str) -> None:
    streams = _streams(path)
    assert len(set(streams)) == 1, "mixed"
    inner = [row[-1] if schema == ACID else row for row in rows]
    predicates = _predicates(inner)
    wanted = [[row[0] for row in inner if predicate.matches(row, PLAIN)] for predicate in predicates]
    for judge in (orc_1_5(), orc_2_3(), trino_476(), PYORC):
        everything, *answers = judge.answers(path, [None, *predicates])
        assert shown(everything) == shown(rows), judge.name
        for predicate, ids, found in zip(predicates, wanted, answers, strict=True):
            assert [(row[-1] if schema == ACID else row)[0] for row in found] == ids, (judge.name, predicate)


def _kept(files: Sequence[File]) -> list[Row]:
    return [
        (0, write_id, FIRST_FILE, place, write_id, row)
        for number, file in enumerate(files, start=1)
        for write_id in [0 if file.is_raw else number]
        for place, row in enumerate(file.rows)
        if place not in file.deleted
    ]


@pytest.mark.parametrize("small", [0, pytest.param(1 << 20, marks=pytest.mark.whole)], ids=["copied", "joined"])
@pytest.mark.parametrize("files", MIXTURES.values(), ids=MIXTURES)
def test_every_stripe_has_the_filters_that_any_had(files: Sequence[File], small: int, tmp_path: Path) -> None:
    unit = make_unit(tmp_path, files, ROW, small_stripe_bytes=small)
    result = execute(replace(unit, full_verify=True))
    path = Path(result.outputs[0].path)
    _check(path, _kept(files), ACID)
    [columns] = {frozenset(stream.column for stream in own) for own in _streams(path)}
    assert ID in columns


def test_a_reader_of_orc_1_5_loses_rows_of_mixed_stripes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the rule is: as soon as ORC 1.5 finds such rows, it could go."""
    files = [replace(BASE, columns=ALL), DELTA]
    unit = make_unit(tmp_path, files, ROW)
    with (
        LocalSink(tmp_path / "mixed") as sink,
        open_files(str(tmp_path), unit.inserts, 0) as opened,
    ):
        monkeypatch.setattr(assembler, "filter_streams", lambda _: frozenset())
        mixed = Assembler(sink, like=opened[0].tail)
        for file in opened:
            mixed.append_file(file.source, file.tail)
        mixed.close({})
    predicate = Predicate("i", "=", (1001,))
    assert orc_1_5().rows_matching(tmp_path / "mixed", predicate) == []
    for judge in (orc_2_3(), trino_476()):
        assert [row[-1][0] for row in judge.rows_matching(tmp_path / "mixed", predicate)] == [1001]


def test_rows_that_are_sorted_again_or_rebalanced_keep_filters(tmp_path: Path) -> None:
    files = [replace(BASE, columns=["i", "e"]), replace(DELTA, columns=["w"])]
    unit = make_unit(tmp_path, files, ROW)
    part = FileNumberInputs(number=0, inserts=unit.inserts, deletes=unit.deletes)
    rebalanced = execute(replace(unit, rebalance=Rebalance(parts=(part,), files=1, write_id=WriteId(DELETER))))
    backwards = execute(replace(unit, inserts=unit.inserts[::-1]))
    for result in (rebalanced, backwards):
        [streams] = _streams(Path(result.outputs[0].path))
        assert {stream.column for stream in streams} == {ID, ID + list(TYPES).index("w")}
    _check(Path(backwards.outputs[0].path), _kept(files), ACID)


@pytest.mark.parametrize("small", [1, 1 << 20], ids=["copied", "joined"])
def test_files_of_insert_only_tables_keep_filters(tmp_path: Path, small: int) -> None:
    files = [replace(BASE, columns=ALL, is_raw=True), replace(DELTA, is_raw=True, columns=["w"])]
    for number, file in enumerate(files):
        file.write(tmp_path / f"in{number}", 1)
    inputs = [Input(path=f"in{number}", length=1, raw=True) for number in range(len(files))]
    with open_files(str(tmp_path), inputs, 0) as opened:
        [made] = insert_only_orc.write(opened, target(tmp_path), small_stripe_bytes=small, full=True)
    _check(Path(made.path), [row for file in files for row in file.rows], PLAIN)
    assert {stream.kind for stream in _streams(Path(made.path))[0]} == {BLOOM_UTF8}
