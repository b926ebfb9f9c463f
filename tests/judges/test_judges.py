"""The judges themselves: what one wrote, every other reads, and a predicate that is pushed down does pass over rows."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import pyorc
import pytest

from tests.judges import (
    PYARROW,
    PYORC,
    JavaJudge,
    Predicate,
    PyorcJudge,
    Row,
    TrinoJudge,
    Unreadable,
    judges,
    orc_1_5,
    orc_2_3,
    shown,
    trino_476,
)
from tests.support.acid_files import FIRST_FILE, dense, write_lying

SCHEMA = (
    "struct<b:boolean,t:tinyint,s:smallint,i:int,l:bigint,f:float,d:double,w:string,v:varchar(5),c:char(4),x:binary,"
    "m:decimal(10,2),h:decimal(38,18),y:date,z:timestamp,a:array<int>,"
    "n:struct<p:int,q:array<struct<r:timestamp,o:map<string,double>>>>>"
)
NONE: Row = (None,) * 17
ROWS: list[Row] = [
    (
        *(True, -128, -32768, 2**31 - 1, -(2**63), 0.5, math.nan, "漢字 é", "ab", "x", b"\x00\xff"),
        *(Decimal("1.5"), Decimal("1E-18"), "1752-02-28", "1900-01-01 00:00:00.123456789", (1, None)),
        (1, (("2020-03-29 02:30:00.000000001", (("k", -0.0), ("l", None))), None, (None, ()))),
    ),
    NONE,
    (
        *(False, 127, 32767, -(2**31), 2**63 - 1, -0.0, 0.1, "", "", "", b""),
        *(Decimal("-99999999.99"), Decimal("9" * 20 + "." + "9" * 18), "9999-12-31", "1969-12-31 23:59:58.999999999"),
        *((), (None, None)),
    ),
]
MAP = "struct<m:map<int,string>>"
TWICE: list[Row] = [(((1, "one"), (1, "two")),), (None,), ((),)]


def writers() -> list[JavaJudge | PyorcJudge]:
    return [orc_1_5(), orc_2_3(), PYORC]


@pytest.mark.parametrize("number", range(3), ids=["ORC Java 1.5", "ORC Java 2.3", "pyorc"])
@pytest.mark.parametrize("compress", ["NONE", "ZLIB", "SNAPPY", "LZ4"])
def test_every_judge_reads_what_each_of_them_wrote(number: int, compress: str, tmp_path: Path) -> None:
    path = tmp_path / "file.orc"
    writers()[number].write(path, SCHEMA, ROWS, compress=compress, bloom_filter_columns=["w"], metadata={"by": b"\xff"})
    for judge in judges():
        assert shown(judge.rows(path)) == shown(ROWS), judge.name
        assert judge.schema(path) == SCHEMA


@pytest.mark.parametrize("number", range(3), ids=["ORC Java 1.5", "ORC Java 2.3", "pyorc"])
def test_the_filters_of_a_full_acid_file_are_those_of_its_row(number: int, tmp_path: Path) -> None:
    path = tmp_path / "file.orc"
    schema = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
    rows: list[Row] = [(0, 1, 1 << 29, 0, 1, (1, "x", 2))]
    writers()[number].write(path, f"{schema}row:struct<k:int,w:string,l:int>>", rows, bloom_filter_columns=["k", "w"])
    with path.open("rb") as file:
        assert pyorc.Reader(file).read_stripe(0).bloom_filter_columns == (7, 8)


def test_a_map_keeps_a_key_that_it_has_twice(tmp_path: Path) -> None:
    for writer in (orc_1_5(), orc_2_3()):
        writer.write(tmp_path / "file.orc", MAP, TWICE)
        for judge in (orc_1_5(), orc_2_3(), PYARROW):
            assert judge.rows(tmp_path / "file.orc") == TWICE


@pytest.mark.parametrize("zone", ["Europe/Paris", "Asia/Singapore", "America/New_York", "GMT+08:00"])
def test_the_wall_clock_of_any_zone_is_read_in_every_zone(zone: str, tmp_path: Path) -> None:
    times = ["1899-12-31 23:00:00.000000001", "1942-06-01 12:00:00.000000000", "2021-07-01 23:59:59.999999999"]
    rows = [(time,) for time in times]
    for writer in (orc_1_5(), orc_2_3()):
        writer.in_zone(zone).write(tmp_path / "file.orc", "struct<z:timestamp>", rows)
        for judge in (orc_1_5(), orc_2_3()):
            for read in (judge, judge.in_zone(zone), judge.in_zone("America/Los_Angeles")):
                assert read.rows(tmp_path / "file.orc") == rows, read.name


def test_instants_and_old_dates(tmp_path: Path) -> None:
    schema, rows = "struct<i:timestamp with local time zone,y:date>", [("2021-07-01 12:00:00.000000001Z", "1500-02-28")]
    for proleptic in (False, True):
        orc_2_3().in_zone("Asia/Tokyo").write(tmp_path / "file.orc", schema, rows, proleptic=proleptic)
        assert orc_2_3().rows(tmp_path / "file.orc") == rows
    assert PYORC.rows(tmp_path / "file.orc") == PYARROW.rows(tmp_path / "file.orc") == rows
    with pytest.raises(Unreadable, match=r"ORC 1\.5\.13"):
        orc_1_5().rows(tmp_path / "file.orc")


def test_dates_are_looked_up_in_the_zone_of_each_request(tmp_path: Path) -> None:
    """ORC 1.5 keeps the zone in which a thread first compared a date."""
    path, rows = tmp_path / "file.orc", [("2024-02-29",)] * 2
    PYORC.write(path, "struct<y:date>", rows, bloom_filter_columns=["y"])
    for zone in ("America/New_York", "UTC", "Asia/Singapore"):
        for judge in (orc_1_5().in_zone(zone), orc_2_3().in_zone(zone)):
            assert judge.rows_matching(path, Predicate("y", "=", ("2024-02-29",))) == rows, judge.name


def test_old_times_are_the_same_in_every_stripe(tmp_path: Path) -> None:
    """ORC's writer changes the calendar of a batch, which stays so when the batch is used again."""
    schema, time = "struct<t:timestamp,l:array<timestamp>>", "1000-02-28 12:00:00.000000000"
    rows: list[Row] = [(time, (time, None))] * 4
    for writer in (orc_1_5(), orc_2_3(), orc_1_5().in_zone("Europe/Paris"), orc_2_3().in_zone("Europe/Paris")):
        for proleptic in (False, True):
            writer.write(tmp_path / "file.orc", schema, rows, stripe_rows=2, proleptic=proleptic)
            for judge in (orc_1_5(), orc_2_3()):
                assert judge.rows(tmp_path / "file.orc") == rows, (writer.name, judge.name, proleptic)


@pytest.mark.parametrize("number", range(4), ids=["ORC Java 1.5", "ORC Java 2.3", "pyorc", "Trino"])
@pytest.mark.parametrize("acid", [False, True], ids=["a plain file", "a full ACID file"])
def test_a_predicate_finds_its_rows_in_row_groups_and_stripes(number: int, acid: bool, tmp_path: Path) -> None:
    path, judged = tmp_path / "file.orc", [*writers(), trino_476()][number]
    inner = "struct<k:int,w:string,y:date,z:timestamp,m:decimal(10,2),f:double,b:boolean,c:char(6)>"
    values: list[Row] = [
        (
            k,
            f"w{k:05}",
            f"{2000 + k % 7}-01-01",
            f"2020-01-01 00:{k % 60:02}:00.000000000",
            Decimal(k),
            k / 2,
            k > 9,
            "c",
        )
        for k in range(5000)
    ]
    values[2500] = (None,) * 8
    schema, rows = inner, values
    if acid:
        schema = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
        schema += f"row:{inner}>"
        rows = [(0, 1, 536870912, place, 1, value) for place, value in enumerate(values)]
    orc_1_5().write(path, schema, rows, stripe_rows=3000, row_index_stride=1000, bloom_filter_columns=["k", "w"])
    predicates = [
        Predicate("k", "=", (4321,)),
        Predicate("k", "in", (7, 2999, 3000, 9999)),
        Predicate("w", "=", ("w03000",)),
        Predicate("w", "between", ("w00001", "w00010"), negated=True),
        Predicate("y", "<=", ("2000-06-01",)),
        Predicate("z", "<", ("2020-01-01 00:01:00.000000000",)),
        Predicate("m", "<", (Decimal(2),)),
        Predicate("f", "<=", (0.5,), negated=True),
        Predicate("b", "=", (False,)),
        Predicate("c", "=", ("c",)),
        Predicate("k", "is null"),
        Predicate("k", "is null", negated=True),
    ]
    for predicate, answer in zip(predicates, judged.answers(path, predicates), strict=True):
        assert answer == [row for row in rows if predicate.matches(row, schema)], predicate
        assert answer


def test_what_is_pushed_down_is_looked_up_in_the_statistics(tmp_path: Path) -> None:
    """The first value of these rows becomes both bounds in ORC 1.5, whose reader then loses all others."""
    path, predicate = tmp_path / "file.orc", Predicate("d", "=", (1.0,))
    orc_1_5().write(path, "struct<d:double>", [(math.nan,), (1.0,)])
    assert orc_1_5().rows_matching(path, predicate) == []
    for judge in (orc_2_3(), trino_476(), PYORC, PYARROW):
        assert judge.rows_matching(path, predicate) == [(1.0,)]


def test_trino_believes_the_statistics_of_a_file(tmp_path: Path) -> None:
    """The file says that its values are those of other rows."""
    path = write_lying(tmp_path / "file.orc", dense(1, 3), [(1, FIRST_FILE, row) for row in (100, 101, 102)])
    assert [row[-1] for row in trino_476().rows(path)] == [(0,), (1,), (2,)]
    assert trino_476().rows_matching(path, Predicate("a", "=", (1,))) == []


def test_trino_shows_old_fractions_a_second_earlier(tmp_path: Path) -> None:
    """Those below a millisecond, in the time before 1970; all other judges show what was written."""
    path, rows = tmp_path / "file.orc", [("1960-01-01 00:00:00.000000001",), ("1960-01-01 00:00:00.001000000",)]
    orc_1_5().write(path, "struct<z:timestamp>", rows)
    for judge in judges():
        first = "1959-12-31 23:59:59.000000001" if isinstance(judge, TrinoJudge) else rows[0][0]
        assert judge.rows(path) == [(first,), rows[1]], judge.name


def test_java_shows_zeros_of_both_signs_as_one(tmp_path: Path) -> None:
    """It takes a batch of them for one repeated value."""
    for writer in writers():
        writer.write(tmp_path / "file.orc", "struct<d:double,f:float>", [(0.0, -0.0), (-0.0, 0.0)])
        for judge in judges():
            rows = [(0.0, -0.0), (0.0, -0.0)] if isinstance(judge, JavaJudge) else [(0.0, -0.0), (-0.0, 0.0)]
            assert shown(judge.rows(tmp_path / "file.orc")) == shown(rows), judge.name


def test_trino_shows_no_value_of_a_union(tmp_path: Path) -> None:
    """It shows the tags alone, and fails where a union is NULL."""
    path, rows = tmp_path / "file.orc", [((0, 1),), ((1, "a"),)]
    orc_1_5().write(path, "struct<u:uniontype<int,string>>", rows)
    assert orc_1_5().rows(path) == orc_2_3().rows(path) == PYARROW.rows(path) == rows
    assert trino_476().rows(path) == [((0, None),), ((1, None),)]
    orc_1_5().write(path, "struct<u:uniontype<int,string>>", [*rows, (None,)])
    with pytest.raises(Unreadable, match="UnionColumnReader"):
        trino_476().rows(path)


@pytest.mark.parametrize("number", range(3), ids=["ORC Java 1.5", "ORC Java 2.3", "pyorc"])
def test_fractions_below_a_millisecond_are_not_found_by_each(number: int, tmp_path: Path) -> None:
    path, schema = tmp_path / "file.orc", "struct<z:timestamp>"
    late, early = "2020-01-01 00:00:00.123456789", "1960-01-01 00:00:00.123456789"
    losers = {late: [orc_1_5()], early: [orc_1_5(), PYORC]}
    for time, losing in losers.items():
        writers()[number].write(path, schema, [(time,)])
        answers = {judge.name: judge.rows_matching(path, Predicate("z", "=", (time,))) for judge in judges()}
        assert [name for name, rows in answers.items() if not rows] == [judge.name for judge in losing]


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file.orc"
    path.write_bytes(b"ORC and nothing else")
    for judge in judges():
        with pytest.raises(Unreadable, match=r"^(ORC 1\.5\.13|ORC 2\.3\.1|pyorc .*|pyarrow .*): "):
            judge.rows(path)
