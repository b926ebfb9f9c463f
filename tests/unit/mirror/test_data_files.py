"""Data files, read by PyIceberg."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.orc as po
import pyorc
import pytest
from pyorc.converters import ORCConverter

from compactor.base.errors import BadSetting, NotSupported, SnapshotExpired
from compactor.mirror.data_files import write_data_file
from compactor.mirror.visible_rows import KeyRun
from compactor.storage.local import LocalStorage
from tests.support.detached import FIRST_FILE, SmallTable


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(root=tmp_path / "t", row_type="struct<id:int,name:string>")


def test_a_whole_file_is_copied(small: SmallTable) -> None:
    rows = [(n, f"name {n}") for n in range(1000)]
    small.write(rows, write_id=7, first=20)
    detached = small.detach()
    assert detached is not None
    assert (detached.rows, detached.encoded, detached.is_whole) == (1000, 0, True)
    assert detached.keys == (KeyRun(1000, 7, FIRST_FILE, 20),)
    assert small.read([detached]) == rows
    assert Path(detached.path).stat().st_size == detached.length


def test_position_deletes_remove_rows(small: SmallTable) -> None:
    small.write([(n, "x") for n in range(10)])
    assert small.read([small.detach()], deleted=[0, 3, 9]) == [(n, "x") for n in (1, 2, 4, 5, 6, 7, 8)]


def test_rows_of_aborted_writes_are_left_out(small: SmallTable) -> None:
    """A compaction of Hive may leave them in a file of several write IDs."""
    small.aborted = frozenset({2})
    keys = [(write_id, FIRST_FILE, row) for write_id in (1, 2, 3) for row in range(3)]
    small.write_keyed(keys, [(n, None) for n in range(9)])
    detached = small.detach()
    assert detached is not None
    assert (detached.rows, detached.encoded, detached.is_whole) == (6, 1, False)
    assert detached.keys == (KeyRun(3, 1, FIRST_FILE, 0), KeyRun(3, 3, FIRST_FILE, 0))
    assert small.read([detached]) == [(n, None) for n in (0, 1, 2, 6, 7, 8)]


def test_a_file_of_aborted_rows_gets_no_data_file(small: SmallTable) -> None:
    small.aborted = frozenset({5})
    small.write([(1, "a")], write_id=5)
    assert small.detach() is None
    assert list((small.root / "data").iterdir()) == []


def test_only_later_rows_are_written(small: SmallTable) -> None:
    plan = small.plan
    earlier = plan.write_ids
    assert earlier is not None
    small.write_keyed([(1, FIRST_FILE, 0), (2, FIRST_FILE, 0)], [(1, "old"), (2, "new")])
    known = replace(earlier, high_watermark=type(earlier.high_watermark)(1))
    small.options = {"write_ids": earlier.since(known)}
    assert small.read([small.detach()]) == [(2, "new")]


def test_keys_without_order_are_not_kept(small: SmallTable) -> None:
    small.write_keyed([(1, FIRST_FILE, 2 * n) for n in range(1001)], [(n, "") for n in range(1001)])
    detached = small.detach()
    assert detached is not None
    assert detached.keys is None
    assert detached.encoded == 0


def test_original_files_continue_each_others_row_numbers(small: SmallTable) -> None:
    folder = small.root / "delta_0000001_0000001_0000"
    small.write_keyed([(0, 0, 0)] * 3, [(n, "a") for n in range(3)], raw=True)
    (folder / "000000_0").rename(folder / "000000_0_copy_1")
    small.inputs.clear()
    small.root = folder.parent
    with open(folder / "000000_0", "wb") as file, pyorc.Writer(file, "struct<id:int,name:string>") as writer:
        writer.write((7, "first"))
    small.add(folder / "000000_0", raw=True)
    small.inputs.append(small.inputs[0]._replace(path=f"{folder.name}/000000_0_copy_1", length=_length(folder)))
    detached = small.detach()
    assert detached is not None
    assert detached.keys == (KeyRun(3, 1, FIRST_FILE, 1),)
    assert small.read([small.detach(small.inputs[0]), detached]) == [(7, "first"), (0, "a"), (1, "a"), (2, "a")]


def _length(folder: Path) -> int:
    return (folder / "000000_0_copy_1").stat().st_size


def test_older_files_lack_newer_columns(small: SmallTable) -> None:
    small.write([(1,), (2,)], row_type="struct<_col0:int>")
    detached = small.detach()
    assert detached is not None
    assert detached.encoded == 0
    assert small.read([detached]) == [(1, None), (2, None)]


@pytest.mark.parametrize(
    ("old", "new", "value", "shown", "encoded"),
    [
        ("int", "bigint", 5, 5, 0),
        ("tinyint", "smallint", -5, -5, 1),
        ("tinyint", "bigint", -5, -5, 1),
        ("smallint", "bigint", -5, -5, 0),
        ("varchar(5)", "string", "abc", "abc", 0),
        ("decimal(5,2)", "decimal(10,2)", Decimal("1.25"), Decimal("1.25"), 0),
        ("float", "double", 1.5, 1.5, 1),
        ("int", "string", 5, "5", 1),
        ("int", "decimal(12,2)", 5, Decimal("5.00"), 1),
        ("array<smallint>", "array<bigint>", [1, None], [1, None], 0),
        ("struct<x:int>", "struct<x:int,y:string>", (1,), {"x": 1, "y": None}, 0),
    ],
)
def test_widened_columns(tmp_path: Path, old: str, new: str, value: Any, shown: Any, encoded: int) -> None:
    small = SmallTable(root=tmp_path / "t", row_type=f"struct<a:{new}>")
    small.write([(value,), (None,)], row_type=f"struct<a:{old}>")
    detached = small.detach()
    assert detached is not None
    assert (small.read([detached]), detached.encoded) == ([(shown,), (None,)], encoded)


def test_a_narrowed_column_is_refused(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<a:int>")
    small.write([(2**40,)], row_type="struct<a:bigint>")
    with pytest.raises(NotSupported, match=r"column a is bigint there and int in d\.t"):
        small.detach()


@pytest.mark.parametrize("kind", ["uniontype<int,string>", "array<uniontype<int,string>>", "struct<u:uniontype<int>>"])
def test_unions_are_refused(small: SmallTable, kind: str) -> None:
    small.write([(1, "x")])
    schema = small.schema
    plan = replace(small.plan, row_type=f"struct<id:int,name:{kind}>")
    with pytest.raises(NotSupported, match=r"column name is .*uniontype.*cannot be mirrored"):
        write_data_file(
            plan, small.task, small.inputs[0], schema=schema, target=str(small.root / "x"), storage=LocalStorage()
        )
    assert not (small.root / "x").exists()


def test_blanks_at_the_end_of_a_char_go(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<a:char(4),b:array<char(3)>,c:varchar(4)>")
    small.write([("ab  ", ["x  ", None], "v "), (" c  ", [], "w"), (None, None, None)])
    detached = small.detach()
    assert detached is not None
    assert small.read([detached]) == [("ab", ["x", None], "v "), (" c", [], "w"), (None, None, None)]
    assert detached.figures.lower_bounds[1] == b" c"
    assert detached.figures.upper_bounds[1] == b"ab"


def test_early_days_of_the_julian_calendar_are_converted(tmp_path: Path) -> None:
    """1582-10-04 of Hive's files is ten days before 1582-10-15 by its number, and one day by its name."""
    small = SmallTable(root=tmp_path / "t", row_type="struct<d:date>")
    julian = date(1582, 10, 14)  # the number that Hive stores for 1582-10-04
    small.write([(julian,), (date(2024, 2, 29),)])
    small.count_in_julian_days()
    detached = small.detach()
    assert detached is not None
    assert small.read([detached]) == [(date(1582, 10, 4),), (date(2024, 2, 29),)]
    assert 1 not in detached.figures.lower_bounds
    small.options = {"is_gregorian": True}  # as Hive 3.1 counts
    detached = small.detach()
    assert detached is not None
    assert small.read([detached]) == [(julian,), (date(2024, 2, 29),)]
    assert 1 not in detached.figures.lower_bounds  # ORC Java would lose rows by them


def test_only_stripes_with_early_days_are_encoded(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<d:date,s:string>")
    texts = [hashlib.sha512(str(n).encode()).hexdigest() for n in range(5000)]
    rows = [*((date(2024, 1, 1), text) for text in texts), (date(1500, 1, 10), "x")]
    small.write(rows, stripe_size=65_536, row_index_stride=1000, compression_block_size=65_536)
    small.count_in_julian_days()
    detached = small.detach()
    assert detached is not None
    assert len(detached.figures.split_offsets) > 2
    assert detached.encoded == 1
    assert small.read([detached]) == [*rows[:-1], (date(1500, 1, 1), "x")]


def test_timestamps_finer_than_a_microsecond_are_refused_or_cut(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<n:int,t:timestamp>")
    _write_times(small, [(10, 123_456_000), (20, 123_456_789), (-20, 1)])
    with pytest.raises(NotSupported, match=r"column t holds 1970-01-01 00:00:20\.123456789 .* microseconds"):
        small.detach()
    detached = small.detach(timestamps="us")
    assert detached is not None
    assert (detached.cut, detached.encoded) == (2, 1)
    assert small.read([detached]) == [
        (0, datetime(1970, 1, 1, 0, 0, 10, 123_456)),
        (1, datetime(1970, 1, 1, 0, 0, 20, 123_456)),
        (2, datetime(1969, 12, 31, 23, 59, 40)),
    ]


def _write_times(small: SmallTable, times: list[tuple[int, int]], zone: str = "UTC") -> None:
    class Raw(ORCConverter):  # type: ignore[misc]  # pyorc has no types
        @staticmethod
        def from_orc(*values: Any) -> Any:
            return values

        @staticmethod
        def to_orc(value: Any, timezone: Any) -> Any:
            return value

    small.write(
        [(n, time) for n, time in enumerate(times)],
        converters={pyorc.TypeKind.TIMESTAMP: Raw},
        timezone=ZoneInfo(zone),
    )


@pytest.mark.parametrize("seconds", [-(10**10), 10**10])
def test_timestamps_that_pyiceberg_cannot_read_are_refused(tmp_path: Path, seconds: int) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<n:int,t:timestamp>")
    _write_times(small, [(0, 0), (seconds, 0)])
    with pytest.raises(NotSupported, match=r"column t holds (1653|2286).*--without-pyiceberg"):
        small.detach()
    assert list((small.root / "data").iterdir()) == []


def test_far_timestamps_are_written_for_other_readers(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<n:int,t:timestamp>")
    _write_times(small, [(0, 0), (-(10**10), 5_000_000), (10**10, 0)])
    detached = small.detach(for_pyiceberg=False)
    assert detached is not None
    assert detached.encoded == 0
    with open(detached.path, "rb") as file:
        assert [row[1].replace(tzinfo=None) for row in pyorc.Reader(file)] == [
            datetime(1970, 1, 1),
            datetime(1653, 2, 10, 6, 13, 20, 5000),
            datetime(2286, 11, 20, 17, 46, 40),
        ]


@pytest.mark.parametrize(
    ("kind", "full", "none"),
    [
        ("array<struct<x:int>>", [(1,)], None),
        ("map<int,struct<x:int>>", {1: (1,)}, None),
        ("struct<y:array<struct<x:int>>>", ([(1,)],), (None,)),
    ],
)
def test_null_lists_of_structs_are_refused(tmp_path: Path, kind: str, full: Any, none: Any) -> None:
    """PyIceberg 0.12 shows empty ones."""
    small = SmallTable(root=tmp_path / "t", row_type=f"struct<a:{kind}>")
    small.write([(full,), (full,)])
    assert small.detach() is not None
    small.write([(full,), (none,)])
    with pytest.raises(
        NotSupported, match=r"column a has a NULL .* PyIceberg shows an empty one; .*--without-pyiceberg"
    ):
        small.detach()
    assert small.detach(for_pyiceberg=False) is not None


def test_fractions_before_1970_that_trino_shows_otherwise_are_refused(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<n:int,t:timestamp>")
    _write_times(small, [(-100, 0), (-100, 1_000_000), (100, 5000), (-1000, 999_000)])
    with pytest.raises(NotSupported, match=r"column t holds 1969-12-31 23:43:20\.000999000 .* Trino shows"):
        small.detach()


def test_times_of_another_zone_are_encoded_in_utc(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<n:int,t:timestamp>")
    small.write([(0, datetime(2024, 7, 1, 12)), (1, None)], timezone=ZoneInfo("Europe/Berlin"))
    expected = small.read([small.detach()])
    stored = po.ORCFile(small.root / small.inputs[0].path).read().column("row").to_pylist()
    assert expected == [(row["n"], row["t"]) for row in stored]


def test_null_rows_have_null_columns(small: SmallTable) -> None:
    small.write([(1, "a"), None, (2, None)])
    detached = small.detach()
    assert detached is not None
    assert (small.read([detached]), detached.encoded) == ([(1, "a"), (None, None), (2, None)], 1)


def test_a_replaced_file_is_not_read(small: SmallTable) -> None:
    small.write([(1, "a")])
    (small.root / small.inputs[0].path).unlink()
    with pytest.raises(SnapshotExpired, match="the snapshot of transaction 1 is lost"):
        small.detach()


def test_the_option_for_timestamps_is_checked(small: SmallTable) -> None:
    small.write([(1, "a")])
    with pytest.raises(BadSetting, match="timestamps='ns': expected 'refuse' or 'us'"):
        small.detach(timestamps="ns")


def test_what_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    """The last second before 1970 in another zone: ORC stores a fraction of it as one after 1970."""
    small = SmallTable(root=tmp_path / "t", row_type="struct<n:int,t:timestamp>")
    _write_times(small, [(-3601, 500_000_000)], zone="Europe/Berlin")
    with pytest.raises(NotSupported, match=r"d\.t: cannot be mirrored: .*1969-12-31 23:59:59"):
        small.detach()
