"""Every mixture in ``docs/stripes.md``: copied, re-encoded or refused as the document says, with no row changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.orc as po
import pyorc
import pytest

from compactor.base.errors import CompactorError, NotLossless, NotSupported
from compactor.base.ids import WriteId
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.messages import Message
from compactor.rewrite.plan.unit import FileNumberInputs, Rebalance
from compactor.rows.inputs import Input
from tests.judges import PYARROW, orc_1_5, orc_2_3
from tests.support.mixtures import DELETER, File, make_unit, rows_of, snapshot, stripe_lengths, tail_of
from tests.support.units import execute

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "stripes.md"
COPY, ENCODE, DROP, REFUSE = "copy", "re-encode", "drop", "refuse"
BIG = 400  #: times that a file's rows are repeated where it shall have most bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """``fates`` has one for each file, or is ``REFUSE`` alone, with ``because`` as what the error says.

    ``types`` are those of the output's row, ``rows`` what an independent reader finds (the files' own rows).
    """

    row: str  #: the first cell of the document's row
    files: Sequence[File]
    fates: Sequence[str]
    table: str = "a:int,b:string"
    types: str | None = None
    rows: Sequence[tuple[Any, ...]] | None = None
    tail: dict[str, Any] | None = None
    because: str = ""
    small: int = 0
    raw: bool = False
    is_shown: bool = True  #: whether our own reader shows the rows


def _days(*days: date) -> list[tuple[Any, ...]]:
    return [(day,) for day in days]


def _no_statistics(footer: Message) -> None:
    footer.ClearField("statistics")


def _encrypted(footer: Message) -> None:
    footer.encryption = b"\x0a\x02\x0a\x00"


def _lzo(script: Message) -> None:
    script.compression = int(Compression.LZO)


ZSTD = pyorc.CompressionKind.ZSTD
IN_BERLIN = {"timezone": "Europe/Berlin", "compression": pyorc.CompressionKind.NONE}
OLD, NEW = date(1500, 1, 1), date(2024, 2, 29)
DATED = "d:date"
TIMES = [((-62135596800, 0),), ((1_700_000_000, 123_456_789),), (None,)]
MOMENTS = [(datetime(2024, 7, 1, 12, 0, tzinfo=UTC),), (datetime(1960, 1, 1, 0, 0, 1, tzinfo=UTC),)]
JUST_BEFORE_1970 = [((-1 - 3600, 500_000_000),)]
LATE, EARLY = "2024-07-01 12:00:00.000000000", "1960-01-01 00:00:00.500000000"
MAPS, TWICE = "t:timestamp,m:map<string,int>", [(LATE, (("k", 1), ("k", 2)))]  #: values of the judges
UNIONS = "u:uniontype<int,string>"


def _pair(row: str, *, fates: Sequence[str] = (COPY, ENCODE), first: Any = None, **second: Any) -> Mixture:
    """Writes a large normal file, or one with ``first``, and a small one that differs."""
    return Mixture(row=row, files=[File(times=BIG, **(first or {})), File(**second)], fates=fates)


def _evolved(
    row: str, old: str, new: str, values: Sequence[Any], shown: Sequence[Any], *, table: str | None = None
) -> Mixture:
    """Writes a column of type ``old`` in the first file and ``new`` in the second."""
    wanted = f"c:{new}" if table is None else f"c:{table}"
    files = [File(row=f"c:{old}", values=[(v,) for v in values], times=BIG), File(row=f"c:{new}", values=[(None,)])]
    rows = [(v,) for v in shown] * BIG + [(None,)]
    return Mixture(row=row, files=files, fates=(ENCODE, COPY), table=wanted, types=f"c:{new}", rows=rows)


def _unlike(row: str, old: str, new: str, value: Any, *, table: str | None = None) -> Mixture:
    """Writes one column with two types that readers show differently."""
    files = [File(row=f"c:{old}", values=[(value,)]), File(row=f"c:{new}", values=[(None,)])]
    because = r"column c.*: .*delta_1_1.* holds .*delta_2_2.* holds .*INSERT OVERWRITE"
    return Mixture(row=row, files=files, fates=[REFUSE], table=f"c:{table or new}", because=because)


FILES = [
    Mixture(row="nothing differs", files=[File(times=BIG), File()], fates=[COPY, COPY]),
    _pair("names in another case", fates=[COPY, COPY], lower_case=True),
    _pair("compression codec", options={"compression": ZSTD}),
    Mixture(row="LZO or Brotli", files=[File(), File(script=_lzo)], fates=[REFUSE], because="LZO"),
    Mixture(
        row="compression block size",
        files=[File(times=BIG), File(options={"compression_block_size": 262144})],
        fates=[COPY, COPY],
        tail={"compression_block_size": 262144},
    ),
    Mixture(
        row="writer version, ORC-135 or later",
        files=[File(tail={"writer": 0, "writer_version": 9}, times=BIG), File(tail={"writer": 4}), File()],
        fates=[COPY, COPY, COPY],
        tail={"writer": 0, "writer_version": 6},
    ),
    _pair("writer version below ORC-135", tail={"writer": 0, "writer_version": 5}),
    _pair("writer version below ORC-135", fates=(ENCODE, COPY), first={"tail": {"writer_version": 4}}),
    _pair("row-index stride", options={"row_index_stride": 1000}),
    _pair("no row index (stride 0)", options={"row_index_stride": 0}),
    Mixture(
        row="no row index (stride 0)",
        files=[File(options={"row_index_stride": 0}, times=BIG)],
        fates=[ENCODE],
        tail={"row_index_stride": 10_000},
    ),
    _pair("file version 0.11", by_arrow={"file_version": "0.11"}),
    _pair("file version 0.11", fates=(ENCODE, COPY), first={"by_arrow": {"file_version": "0.11"}}),
    Mixture(
        row="file version 0.11 in all",
        files=[File(by_arrow={"file_version": "0.11"}, times=BIG), File(by_arrow={"file_version": "0.11"})],
        fates=[COPY, COPY],
        tail={"file_version": (0, 11)},
    ),
    _pair("bloom filters on other columns", fates=(COPY, COPY), options={"bloom_filter_columns": [7, 8]}),
    _pair("no statistics of stripes", tail={"stripe_statistics": None}),
    _pair("no statistics of the file", fates=(COPY, COPY), footer=_no_statistics),
    Mixture(
        row="column encryption or masks",
        files=[File(times=BIG), File(footer=_encrypted)],
        fates=[REFUSE],
        because="encrypted columns",
    ),
    Mixture(row="original files", files=[File(is_raw=True), File(times=BIG)], fates=[ENCODE, COPY]),
    _pair("some rows deleted", deleted=(1,)),
    _pair("all rows deleted", fates=(COPY, DROP), deleted=(0, 1, 2)),
    Mixture(
        row="calendar, no column with days",
        files=[File(tail={"calendar": 1}, times=BIG), File(tail={"calendar": 2})],
        fates=[COPY, COPY],
    ),
    Mixture(
        row="calendar, no day before 1582-10-15",
        files=[
            File(row=DATED, values=_days(NEW), tail={"calendar": 1}, times=BIG),
            File(row=DATED, values=_days(NEW, date(1582, 10, 16)), tail={"calendar": 2}),
            File(row=DATED, values=_days(NEW)),
        ],
        fates=[COPY, ENCODE, ENCODE],
        table=DATED,
        tail={"calendar": 1},
    ),
    Mixture(
        row="calendar, days before 1582-10-15 in one",
        files=[
            File(row=DATED, values=_days(NEW), tail={"calendar": 1}, times=BIG),
            File(row=DATED, values=_days(OLD), tail={"calendar": 2}),
        ],
        fates=[ENCODE, COPY],
        table=DATED,
        tail={"calendar": 2},
    ),
    Mixture(
        row="calendar, days before 1582-10-15 in both",
        files=[
            File(row=DATED, values=_days(OLD), tail={"calendar": 1}, times=BIG),
            File(row=DATED, values=_days(OLD), tail={"calendar": 2}),
        ],
        fates=[REFUSE],
        table=DATED,
        because="calendar is .*, and it may hold days before 1582-10-15",
    ),
    Mixture(
        row="one time zone of all writers",
        files=[
            File(row="t:timestamp", values=MOMENTS, times=BIG, options={"timezone": "Europe/Berlin"}),
            File(row="t:timestamp", values=MOMENTS, options={"timezone": "Europe/Berlin"}),
        ],
        fates=[COPY, COPY],
        table="t:timestamp",
    ),
    Mixture(
        row="time zones of writers, times since 1970",
        files=[
            File(row="t:timestamp", values=MOMENTS[:1], times=BIG, options={"timezone": "Europe/Berlin"}),
            File(row="t:timestamp", values=MOMENTS[:1]),
            File(row="t:timestamp", values=MOMENTS[:1], options={"timezone": "Asia/Tokyo"}),
        ],
        fates=[COPY, ENCODE, ENCODE],
        table="t:timestamp",
    ),
    Mixture(
        row="time zones of writers, times that one may not have had",
        files=[
            File(row="t:timestamp", values=MOMENTS, times=BIG, options={"timezone": "Europe/Berlin"}),
            File(row="t:timestamp", values=MOMENTS),
        ],
        fates=[ENCODE, COPY],
        table="t:timestamp",
    ),
    Mixture(
        row="one time zone of all writers, some rows deleted",
        files=[
            File(row="t:timestamp", values=MOMENTS, times=BIG, options={"timezone": "Europe/Berlin"}),
            File(row="t:timestamp", values=MOMENTS, options={"timezone": "Europe/Berlin"}, deleted=(0,)),
        ],
        fates=[COPY, ENCODE],
        table="t:timestamp",
    ),
    Mixture(
        row="no time zone of any writer",
        files=[
            File(row="t:timestamp", values=MOMENTS, names_zone=False, options=IN_BERLIN),
            File(row="t:timestamp", values=MOMENTS, names_zone=False, options=IN_BERLIN),
        ],
        fates=[COPY, COPY],
        table="t:timestamp",
        is_shown=False,
    ),
    Mixture(
        row="no time zone of a writer",
        files=[
            File(row="t:timestamp", values=MOMENTS, times=BIG, options={"compression": pyorc.CompressionKind.NONE}),
            File(row="t:timestamp", values=MOMENTS, names_zone=False, options=IN_BERLIN),
        ],
        fates=[REFUSE],
        table="t:timestamp",
        because="delta_2_2.* set compactor.orc.default.timezone",
    ),
    Mixture(
        row="no time zone of any writer, some rows deleted",
        files=[File(row="t:timestamp", values=MOMENTS, names_zone=False, options=IN_BERLIN, deleted=(0,))],
        fates=[REFUSE],
        table="t:timestamp",
        because="without their writer's time zone.* set compactor.orc.default.timezone",
    ),
    Mixture(
        row="timestamps beyond 64 bits of nanoseconds",
        files=[File(row="t:timestamp", values=TIMES, raw_timestamps=True, deleted=(2,))],
        fates=[ENCODE],
        table="t:timestamp",
        raw=True,
    ),
    Mixture(
        row="timestamps that Arrow cannot write, and a key twice in a map",
        files=[File(row=MAPS, values=[*TWICE, (EARLY, ()), (LATE, ())], by_java={}, deleted=(2,))],
        fates=[REFUSE],
        table=MAPS,
        because="delta_1_1.* 1 of 2 entries of maps have a key that occurs twice",
    ),
    Mixture(
        row="tiny stripes",
        files=[File(), File(), File(times=BIG)],
        fates=[ENCODE, ENCODE, COPY],
        small=400,
    ),
    Mixture(
        row="tiny stripes of one time zone",
        files=[
            File(row="t:timestamp", values=JUST_BEFORE_1970, raw_timestamps=True, options={"timezone": "Europe/Berlin"}),
            File(row="t:timestamp", values=MOMENTS, options={"timezone": "Europe/Berlin"}),
        ],
        fates=[ENCODE, ENCODE],
        table="t:timestamp",
        small=1 << 20,
    ),
    Mixture(
        row="time zones of writers, a time that UTC cannot have",
        files=[
            File(row="t:timestamp", values=JUST_BEFORE_1970, raw_timestamps=True, options={"timezone": "Europe/Berlin"}),
            File(row="t:timestamp", values=MOMENTS),
        ],
        fates=[REFUSE],
        table="t:timestamp",
        because="1969-12-31 23:59:59 with a fraction",
    ),
    Mixture(
        row="tiny stripes without a time zone of the writer",
        files=[
            File(row="t:timestamp", values=MOMENTS, names_zone=False, options=IN_BERLIN),
            File(row="t:timestamp", values=MOMENTS, names_zone=False, options=IN_BERLIN),
        ],
        fates=[COPY, COPY],
        table="t:timestamp",
        small=1 << 20,
        is_shown=False,
    ),
    Mixture(row="unions", files=[File(row=UNIONS, values=[(1,)]), File(row=UNIONS, values=[("x",)])], fates=[COPY, COPY],
            table=UNIONS, small=1 << 20),
    Mixture(row="unions, some rows deleted", files=[File(row=UNIONS, values=[(1,), ("x",)], deleted=(0,))],
            fates=[REFUSE], table=UNIONS, because="uniontype"),
]  # fmt: skip

TYPES = [
    Mixture(
        row="all files older than the table",
        files=[File(row="a:int", values=[(1,)], times=BIG), File(row="a:int", values=[(2,)])],
        fates=[COPY, COPY],
        table="a:bigint,b:string",
        types="a:int",
    ),
    Mixture(
        row="columns added at the end",
        files=[File(row="a:int", values=[(1,)], times=BIG), File(values=[(2, "x")])],
        fates=[ENCODE, COPY],
        types="a:int,b:string",
        rows=[(1, None)] * BIG + [(2, "x")],
    ),
    Mixture(
        row="columns added to a struct inside",
        files=[
            File(row="s:array<struct<x:int>>", values=[([(1,), None],), (None,)], times=BIG),
            File(row="s:array<struct<x:int,y:string>>", values=[([(2, "y")],)]),
        ],
        fates=[ENCODE, COPY],
        table="s:array<struct<x:int,y:string>>",
        rows=[([(1, None), None],), (None,)] * BIG + [([(2, "y")],)],
    ),
    Mixture(
        row="columns renamed",
        files=[File(row="old:int,b:string", times=BIG), File(row="_col0:int,_col1:string")],
        fates=[COPY, COPY],
        types="a:int,b:string",
    ),
    Mixture(
        row="columns dropped at the end",
        files=[File(times=BIG), File(row="a:int", values=[(1,)])],
        fates=[COPY, ENCODE],
        table="a:int",
        types="a:int,b:string",
        rows=[*File(times=BIG).rows, (1, None)],
    ),
    Mixture(
        row="columns dropped and added again",
        files=[File(row="a:int,b:string", values=[(1, "old")], times=BIG), File(row="a:int", values=[(2,)]),
               File(row="a:int,c:string", values=[(3, "new")])],
        fates=[COPY, ENCODE, COPY],
        table="a:int,c:string",
        types="a:int,c:string",
        rows=[(1, "old")] * BIG + [(2, None), (3, "new")],
    ),
    _evolved("integers widened", "tinyint", "smallint", [1, -128, None], [1, -128, None], table="int"),
    _evolved("integers widened", "int", "bigint", [1, -(2**31), None], [1, -(2**31), None]),
    Mixture(
        row="integers narrowed",
        files=[File(row="c:bigint", values=[(1 << 40,)], times=BIG), File(row="c:int", values=[(7,)])],
        fates=[COPY, ENCODE],
        table="c:int",
        types="c:bigint",
    ),
    _evolved("float to double", "float", "double", [0.5, None], [0.5, None]),
    _evolved("int and smaller to double, smallint and smaller to float", "int", "double", [2**31 - 1], [2.0**31 - 1]),
    _evolved("int and smaller to double, smallint and smaller to float", "smallint", "float", [-32768], [-32768.0]),
    _evolved("integers to decimal with room for all", "int", "decimal(12,2)", [-(2**31)], [Decimal("-2147483648.00")]),
    _evolved("integers to string, or varchar with room for all", "bigint", "string", [-(2**63), 0], [str(-(2**63)), "0"]),
    _evolved("integers to string, or varchar with room for all", "smallint", "varchar(6)", [-32768], ["-32768"]),
    _evolved("decimal with more digits", "decimal(5,2)", "decimal(9,4)", [Decimal("1.25")], [Decimal("1.2500")]),
    _evolved("decimal with more digits", "decimal(5,2)", "decimal(9,2)", [Decimal("1.25")], [Decimal("1.25")]),
    _evolved("varchar longer, or to string", "varchar(3)", "varchar(20)", ["äöü"], ["äöü"]),
    _evolved("varchar longer, or to string", "varchar(3)", "string", ["abc"], ["abc"], table="varchar(3)"),
    Mixture(
        row="string to varchar",
        files=[File(row="c:string", values=[("longer than three",)], times=BIG), File(row="c:varchar(3)", values=[("x",)])],
        fates=[COPY, ENCODE],
        table="c:varchar(3)",
        types="c:string",
    ),
    _evolved("char longer", "char(3)", "char(5)", ["ab "], ["ab   "]),
    _evolved("the same inside lists and maps", "map<string,array<int>>", "map<string,array<bigint>>",
             [{"k": [1, None]}], [{"k": [1, None]}]),
    _unlike("dates, timestamps or booleans to text", "date", "string", NEW),
    _unlike("dates, timestamps or booleans to text", "timestamp", "string", MOMENTS[0][0]),
    _unlike("dates, timestamps or booleans to text", "boolean", "string", True),
    _unlike("floating point or decimals to text", "float", "string", 0.5),
    _unlike("floating point or decimals to text", "decimal(5,2)", "string", Decimal("1.10")),
    _unlike("dates to timestamps", "date", "timestamp", NEW),
    _unlike("bigint to floating point, int to float", "bigint", "double", 1),
    _unlike("bigint to floating point, int to float", "int", "float", 1),
    _unlike("decimals to floating point, or the other way", "decimal(5,2)", "double", Decimal("1.10")),
    _unlike("decimals to floating point, or the other way", "float", "decimal(5,2)", 0.5),
    _unlike("char to varchar or string", "char(3)", "string", "a"),
    _unlike("text to numbers", "string", "int", "1"),
    _unlike("text to numbers", "varchar(9)", "double", "1"),
    _unlike("text to numbers", "string", "decimal(5,2)", "1"),
    _unlike("two widenings under a table of a third type", "float", "double", 0.5, table="string"),
    _unlike("fields of a struct inside renamed or reordered", "struct<x:int>", "struct<y:int>", (1,)),
    _unlike("alternatives added to a union", "uniontype<int>", "uniontype<int,string>", 1),
]  # fmt: skip
MIXTURES = [*FILES, *TYPES]


def test_a_key_twice_in_a_map_stays(tmp_path: Path) -> None:
    """PROTOCOL 4: Arrow keeps both entries, in their order."""
    files = [
        File(row=MAPS, values=[*TWICE, (LATE, ())], by_java={}, deleted=(1,)),
        File(row=MAPS, values=TWICE, by_java={}),
    ]
    result = execute(make_unit(tmp_path, files, MAPS))
    assert result.figures.stripes_encoded > 0
    for judge in (orc_1_5(), orc_2_3(), PYARROW):
        assert [row[-1] for row in judge.rows(Path(result.outputs[0].path))] == TWICE * 2, judge.name


def _wanted(root: Path, mixture: Mixture, inputs: Sequence[Input]) -> list[tuple[Any, ...]]:
    """Returns the mixture's rows, or those that an independent reader finds in the inputs."""
    if mixture.rows is not None:
        return list(mixture.rows)
    found: list[tuple[Any, ...]] = []
    for file, source in zip(mixture.files, inputs, strict=True):
        rows = file.rows if file.is_raw else rows_of(str(root / source.path), raw=mixture.raw)
        found += [row for place, row in enumerate(rows) if place not in file.deleted]
    return found


@pytest.mark.parametrize("mixture", MIXTURES, ids=[f"{m.row}-{n}" for n, m in enumerate(MIXTURES)])
def test_mixture(tmp_path: Path, mixture: Mixture) -> None:
    """PROTOCOL 2.2: some stripes share a file, the others are re-encoded or refused."""
    unit = make_unit(tmp_path, mixture.files, mixture.table, small_stripe_bytes=mixture.small)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*0") if path.is_file()}
    if mixture.fates == [REFUSE]:
        with pytest.raises(CompactorError, match=f"(?s){mixture.because}"):
            execute(unit)
        assert {path: path.read_bytes() for path in before} == before
        return
    result = execute(unit)
    (output,) = result.outputs
    figures = result.figures
    count = mixture.fates.count
    assert (figures.stripes_copied, figures.stripes_encoded, figures.stripes_dropped) == (
        count(COPY),
        count(ENCODE),
        count(DROP),
    )
    copied = [s for s, fate in zip(unit.inserts, mixture.fates, strict=True) if fate == COPY]
    assert figures.bytes_copied == sum(sum(stripe_lengths(tmp_path, source)) for source in copied)
    assert {path: path.read_bytes() for path in before} == before
    tail = tail_of(Path(output.path))
    types = mixture.types or mixture.table
    assert schema_text(tail.types.row) == f"struct<{types}>"
    for name, value in (mixture.tail or {}).items():
        assert getattr(tail, name) == value, name
    assert rows_of(output.path, raw=mixture.raw) == _wanted(tmp_path, mixture, unit.inserts)
    if "union" not in mixture.row and mixture.is_shown:
        after = tmp_path / "_after" / f"base_{DELETER:07d}"
        after.mkdir(parents=True)
        shutil.copy(output.path, after / "bucket_00000")
        shown = snapshot(tmp_path, mixture.table)
        assert len(shown) == output.rows
        assert snapshot(after.parent, mixture.table) == shown
    if "union" not in mixture.row and not mixture.raw:
        assert po.ORCFile(output.path).read().num_rows == output.rows


@pytest.mark.parametrize("mixture", MIXTURES, ids=[f"{m.row}-{n}" for n, m in enumerate(MIXTURES)])
def test_mixture_rebalanced(tmp_path: Path, mixture: Mixture) -> None:
    """PROTOCOL 1.6, 4: every stripe is decoded; the same rows in two files, or a refusal of what only copying keeps."""
    unit = make_unit(tmp_path, mixture.files, mixture.table)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*0") if path.is_file()}
    part = FileNumberInputs(number=0, inserts=unit.inserts, deletes=unit.deletes)
    rebalanced = replace(unit, rebalance=Rebalance(parts=(part,), files=2, write_id=WriteId(DELETER)))
    try:
        result = execute(rebalanced)
    except (NotLossless, NotSupported):
        assert mixture.fates == [REFUSE] or COPY in mixture.fates
        return
    finally:
        assert {path: path.read_bytes() for path in before} == before
    assert mixture.fates != [REFUSE]
    rows = [row for output in result.outputs for row in rows_of(output.path, raw=mixture.raw)]
    wanted = _wanted(tmp_path, mixture, unit.inserts)
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
    if not any(file.is_raw for file in mixture.files):
        assert rows == wanted


def _documented() -> dict[str, str]:
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|[^|]*\|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    return {row: outcome for row, outcome in rows if row != "mixture" and set(row) != {"-"}}


def test_every_row_of_the_document_has_a_test_and_every_test_a_row() -> None:
    tested: dict[str, set[str]] = {}
    for mixture in MIXTURES:
        tested.setdefault(mixture.row, set()).update(mixture.fates)
    documented = {row: set(outcome.split(", ")) for row, outcome in _documented().items()}
    assert documented == tested
