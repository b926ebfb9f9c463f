"""Times of writers in other zones: no reader's answer changes when their stripes are encoded again (PROTOCOL 2.6)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compactor.base.errors import BadSetting, NotLossless
from compactor.base.ids import WriteId
from compactor.cli.context import CliContext
from compactor.cli.dump import dump
from compactor.compaction.order_by import OrderBy
from compactor.orc.assembler import Assembler
from compactor.orc.format.java_zones import default_zone
from compactor.orc.format.stripe_footer import read_stripe_footer, zone_named
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import TypeKind
from compactor.orc.io.source import LocalSink, LocalSource
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.unit import FileNumberInputs, Rebalance, Shape, Unit
from tests.judges import PYORC, JavaJudge, Predicate, Row, orc_1_5, orc_2_3
from tests.judges.values import time_nanos
from tests.support.mixtures import snapshot, without_zone
from tests.support.sizes import sized
from tests.support.units import acid_unit, execute

FIRST_BUCKET = 536870912
INNER = "struct<k:int,z:timestamp,a:array<timestamp>>"
SCHEMA = (
    f"struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{INNER}>"
)
TIMES = [
    "1582-10-15 00:00:00.000000000",
    "1883-11-18 12:03:58.000000000",
    "1899-12-31 23:59:59.999999999",
    "1900-01-01 00:00:00.000000000",
    "1900-01-01 06:55:25.123456789",
    "1911-03-10 23:55:00.000000000",
    "1945-08-14 12:00:00.500000000",
    "1969-12-31 15:59:59.999999999",
    "1969-12-31 23:59:58.500000000",
    "1969-12-31 23:59:59.000999999",
    "1970-01-01 00:00:00.000000001",
    "1970-01-01 00:00:00.500000000",
    "1970-01-01 07:59:59.999000000",
    "1986-07-01 12:00:00.000000000",
    "2015-01-01 00:00:00.000000000",
    "2015-07-01 00:00:00.000000000",
    "2021-03-14 03:30:00.000000000",
    "2021-10-31 02:30:00.000000000",
    "2021-11-07 01:30:00.123000000",
    "2036-07-01 00:00:00.999999999",
    "2262-04-11 23:47:16.000000000",
    "9999-12-31 23:59:59.000000000",
]
#: Of each kind: with summer times, none, far from UTC, half hours, names that only Java knows, and one that nobody knows.
ZONES = sized(
    short=["Europe/Paris", "Asia/Singapore", "America/New_York", "GMT+08:00", "JST"],
    whole=[
        *("Europe/Paris", "Europe/Dublin", "Europe/Moscow", "Europe/Amsterdam", "Africa/Casablanca", "Africa/Monrovia"),
        *("Asia/Singapore", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Shanghai", "America/New_York", "America/St_Johns"),
        *(
            "America/Caracas",
            "Pacific/Apia",
            "Pacific/Kiritimati",
            "Australia/Lord_Howe",
            "Antarctica/Troll",
            "Etc/GMT+12",
        ),
        *("GMT+08:00", "GMT-03:30", "JST", "CST", "EST", "SystemV/PST8", "SystemV/EST5EDT", "No/Such_Zone", "UTC"),
    ],
)


def make_rows(times: Sequence[str], write_id: int, first: int = 0) -> list[Row]:
    return [
        (0, write_id, FIRST_BUCKET, number, write_id, (100 * write_id + number, time, (time, None)))
        for number, time in enumerate(times, first)
    ]


def write(folder: Path, writer: JavaJudge, write_id: int, times: Sequence[str] = TIMES, **options: Any) -> str:
    """Writes a delta and returns the path of its file in ``folder``."""
    name = f"delta_{write_id}_{write_id}_0000/bucket_00000"
    (folder / name).parent.mkdir(parents=True)
    writer.write(folder / name, SCHEMA, make_rows(times, write_id), **options)
    return name


def major(folder: Path, names: Sequence[str], **more: Any) -> Unit:
    """Returns a major compaction of these files, in which small stripes are encoded together."""
    return replace(acid_unit(folder, Shape.MAJOR, rows=names, small=1 << 20), row_type=INNER, **more)


def zones_in(path: Path) -> list[str]:
    with LocalSource(path) as source:
        tail = read_tail(source)
        return [zone_named(read_stripe_footer(source, tail, number)) for number in range(len(tail.stripes))]


def readers(zone: str) -> list[JavaJudge]:
    """Hive 3.1 and 4, and Spark in two zones."""
    return [orc_1_5(), orc_2_3(), orc_1_5().in_zone(zone), orc_2_3().in_zone("America/Los_Angeles")]


@pytest.mark.parametrize("compress", ["ZLIB", "SNAPPY"])
@pytest.mark.parametrize("zone", ZONES)
def test_rows_and_predicates_are_the_same_before_and_after(zone: str, compress: str, tmp_path: Path) -> None:
    """PROTOCOL 2.6."""
    writer = (orc_1_5() if compress == "ZLIB" else orc_2_3()).in_zone(zone)
    names = [write(tmp_path, writer, number, compress=compress, bloom_filter_columns=["*"]) for number in (1, 2)]
    output = Path(execute(major(tmp_path, names)).outputs[0].path)
    assert zones_in(output) == ["GMT" if zone == "UTC" else zones_in(tmp_path / names[0])[0]]
    predicates = [
        Predicate("z", operator, (time,)) for time in TIMES[:: sized(short=3, whole=1)] for operator in ("=", "<=")
    ]
    for reader in readers(zone):
        before = [row for name in names for row in reader.rows(tmp_path / name)]
        after, *found = reader.answers(output, [None, *predicates])
        assert after == before, reader.name
        for predicate, answer in zip(predicates, found, strict=True):
            assert answer == [row for row in before if predicate.matches(row, SCHEMA)], (reader.name, predicate)


@pytest.mark.parametrize("zone", [zone for zone in ZONES if zone not in ("Africa/Casablanca", "SystemV/EST5EDT")])
def test_our_reader_shows_what_java_shows(zone: str, tmp_path: Path) -> None:
    """PROTOCOL 2.6. Casablanca's rules for the next years change with each release of the database of zones."""
    name = write(tmp_path, orc_1_5().in_zone(zone), 1)
    shown = [
        (k, *_parts(z)) for _, _, _, k, z, _ in snapshot(tmp_path, INNER.removeprefix("struct<").removesuffix(">"))
    ]
    assert shown == [(row[5][0], *_nanos(row[5][1])) for row in orc_1_5().rows(tmp_path / name)]


def _parts(value: Any) -> tuple[int, int]:
    return value["seconds"], value["nanos"]


def _nanos(text: str) -> tuple[int, int]:
    return divmod(time_nanos(text), 10**9)


PARIS, SINGAPORE = "Europe/Paris", "Asia/Singapore"


SUMMER = ["2021-06-01 00:00:00.000000000", "2021-07-01 12:00:00.123456789", "2021-10-31 02:30:00.000000000"]
SPRING = ["2021-03-28 02:30:00.000000000", *SUMMER]  # with a time that Paris skipped
OLD = ["1969-06-01 00:00:00.000000000", *SUMMER]


@pytest.mark.parametrize(
    ("zones", "times", "wanted", "copied"),
    [
        ((PARIS, PARIS, "UTC"), SUMMER, PARIS, 2),
        (("UTC", PARIS, PARIS), SUMMER, PARIS, 2),
        ((PARIS, SINGAPORE, SINGAPORE, PARIS, PARIS), SUMMER, PARIS, 3),
        ((SINGAPORE, "UTC", SINGAPORE, "UTC", SINGAPORE), SPRING, SINGAPORE, 3),
        (("UTC", PARIS, "UTC"), SPRING, "UTC", 2),
        ((PARIS, "UTC", PARIS), SPRING, "UTC", 1),
        ((PARIS, "UTC", PARIS), OLD, "UTC", 1),
        ((PARIS, "UTC", "Etc/UTC"), OLD, "UTC", 2),
        ((PARIS, SINGAPORE), SPRING, SINGAPORE, 1),
        ((PARIS, PARIS, SINGAPORE), SPRING, "GMT", 0),
        (("GMT+08:00", "GMT+08:00", PARIS), SPRING, "GMT+08:00", 2),
    ],
)
@pytest.mark.parametrize("small", [0, 1 << 20])
def test_a_file_has_times_of_one_zone(
    zones: Sequence[str], times: Sequence[str], wanted: str, copied: int, small: int, tmp_path: Path
) -> None:
    """ORC 1.5 takes up a zone only when its name is new to it, in a JVM of UTC and in one of any of the zones."""
    numbers = [number for number in range(1, 9) if number != 5]  # write ID 5 is aborted
    names = [
        write(tmp_path, orc_2_3().in_zone(zone), number, times) for number, zone in zip(numbers, zones, strict=False)
    ]
    result = execute(replace(major(tmp_path, names), small_stripe_bytes=small))
    output = Path(result.outputs[0].path)
    found = set(zones_in(output))
    assert found == {wanted} if wanted not in ("UTC", "GMT") else found <= {"UTC", "GMT", "Etc/UTC"}
    assert result.figures.stripes_copied == (0 if small else copied)
    for reader in (*readers(PARIS), orc_1_5().in_zone(SINGAPORE), PYORC):
        if reader is PYORC and "GMT+08:00" in zones:
            continue  # which it cannot read
        before = [row for name in names for row in reader.rows(tmp_path / name)]
        after = reader.rows(output)
        if reader.name.endswith(
            PARIS
        ):  # whose own clocks skipped a time: it is moved, to the side that the zones lead to
            before, after = ([row for row in rows if "2021-03-28" not in str(row)] for rows in (before, after))
        assert after == before, reader.name


def test_a_time_that_utc_cannot_have_is_refused_by_name(tmp_path: Path) -> None:
    """A fraction in the last second before 1970 is read a second later, in whichever zone that is."""
    names = [
        write(tmp_path, orc_2_3().in_zone(zone), number, ["1969-12-31 23:59:59.500000000"])
        for number, zone in enumerate((PARIS, SINGAPORE), 1)
    ]
    with pytest.raises(NotLossless, match=r"1969-12-31 23:59:59 with a fraction.*INSERT OVERWRITE"):
        execute(major(tmp_path, names))


def test_old_readers_do_misread_copies(tmp_path: Path) -> None:
    """The reason for it all, with ORC's own writer and our copies alone; the newer reader is right."""
    paths = [tmp_path / zone for zone in ("a", "b")]
    for path, zone in zip(paths, (PARIS, "UTC"), strict=True):
        orc_1_5().in_zone(zone).write(path, INNER, [(1, TIMES[-5], None)])
    with ExitStack() as stack:
        sources = [stack.enter_context(LocalSource(path)) for path in paths]
        tails = [read_tail(source) for source in sources]
        with LocalSink(tmp_path / "copies") as sink, Assembler(sink, like=tails[0]) as assembler:
            for source, tail in zip(sources, tails, strict=True):
                assembler.append_file(source, tail)
            assembler.close({})
    assert orc_2_3().rows(tmp_path / "copies") == [(1, TIMES[-5], None)] * 2
    assert orc_1_5().rows(tmp_path / "copies") != [(1, TIMES[-5], None)] * 2


def test_names_of_utc_are_one_zone(tmp_path: Path) -> None:
    names = [
        write(tmp_path, orc_2_3().in_zone(zone), number) for number, zone in enumerate(("UTC", "Etc/UTC", "GMT"), 1)
    ]
    output = Path(execute(major(tmp_path, names)).outputs[0].path)
    assert zones_in(output) == ["GMT"]
    assert orc_1_5().rows(output) == [row for name in names for row in orc_1_5().rows(tmp_path / name)]


def test_files_without_times_join_stripes_of_any_zone(tmp_path: Path) -> None:
    """Rows that are older than the column with times have NULL there."""
    names = [write(tmp_path, orc_2_3().in_zone("Europe/Paris"), 1), "delta_2_2_0000/bucket_00000"]
    (tmp_path / names[1]).parent.mkdir()
    old = SCHEMA.replace(INNER, "struct<k:int>")
    orc_2_3().write(tmp_path / names[1], old, [(0, 2, FIRST_BUCKET, 0, 2, (7,))])
    output = Path(execute(major(tmp_path, names)).outputs[0].path)
    assert zones_in(output) == ["Europe/Paris"]
    assert orc_1_5().rows(output)[-1] == (0, 2, FIRST_BUCKET, 0, 2, (7, None, None))


def test_deleted_rows_leave_the_zone_as_it_is(tmp_path: Path) -> None:
    names = [write(tmp_path, orc_1_5().in_zone("America/New_York"), number) for number in (1, 2)]
    (tmp_path / "delete_delta_3_3_0000").mkdir()
    deletes = "delete_delta_3_3_0000/bucket_00000"
    orc_1_5().write(tmp_path / deletes, SCHEMA, [(2, 1, FIRST_BUCKET, 3, 3, None)])
    unit = replace(acid_unit(tmp_path, Shape.MINOR, rows=names, deletes=[deletes]), row_type=INNER)
    output = next(Path(output.path) for output in execute(unit).outputs if output.rows > 1)
    wanted = [row for name in names for row in orc_1_5().rows(tmp_path / name)]
    assert orc_1_5().rows(output) == wanted[:3] + wanted[4:]
    assert zones_in(output) == ["America/New_York"] * 2


def test_rows_that_are_merged_show_the_same_times(tmp_path: Path) -> None:
    """Rows of two zones in turn: one stripe for each would be too many. Hive 4 shows the same before and after."""
    for number, zone in enumerate(("Europe/Paris", "Asia/Singapore")):
        path = tmp_path / f"delta_1_1_000{number}" / "bucket_00000"
        path.parent.mkdir()
        every = [row for row in make_rows(TIMES, 1) if row[3] % 2 == number and "1969-12-31 23:59:59" not in str(row)]
        orc_2_3().in_zone(zone).write(path, SCHEMA, every)
    names = [f"delta_1_1_000{number}/bucket_00000" for number in range(2)]
    before = [row for name in names for row in orc_2_3().rows(tmp_path / name)]
    output = Path(execute(major(tmp_path, names)).outputs[0].path)
    assert zones_in(output) == ["GMT"]
    assert orc_2_3().rows(output) == sorted(before, key=lambda row: row[3])


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("zones", [("Europe/Paris", "Europe/Paris"), ("Europe/Paris", "Asia/Singapore")])
def test_a_rebalance_changes_no_time(zones: tuple[str, str], ordered: bool, tmp_path: Path) -> None:
    times = [time for time in TIMES if not time.startswith("1969-12-31 23:59:59")]
    names = [write(tmp_path, orc_2_3().in_zone(zone), number, times) for number, zone in enumerate(zones, 1)]
    before = sorted(row[5] for name in names for row in orc_2_3().rows(tmp_path / name))
    unit = major(tmp_path, names)
    part = FileNumberInputs(number=0, inserts=unit.inserts, deletes=())
    order = (OrderBy(column="z", descending=False, nulls_first=True),) if ordered else ()
    rebalance = Rebalance(parts=(part,), files=2, write_id=WriteId(9), order_by=order)
    outputs = [Path(output.path) for output in execute(replace(unit, rebalance=rebalance)).outputs]
    after = [row[5] for path in outputs for row in orc_2_3().rows(path)]
    assert sorted(after) == before
    if ordered:
        assert [row[1] for row in after] == sorted(row[1] for row in before)
    assert {zone for path in outputs for zone in zones_in(path)} == (
        {"GMT"} if len(set(zones)) > 1 else {"Europe/Paris"}
    )


def test_insert_only_files_of_different_zones_never_join(tmp_path: Path) -> None:
    zones = ["Europe/Paris", "Europe/Paris", "Asia/Singapore"]
    names = []
    for number, zone in enumerate(zones, 1):
        names.append(f"delta_{number}_{number}_0000/000000_0")
        (tmp_path / names[-1]).parent.mkdir()
        orc_1_5().in_zone(zone).write(tmp_path / names[-1], INNER, [row[5] for row in make_rows(TIMES, number)])
    unit = replace(major(tmp_path, names), file_format=FileFormat.ORC)
    unit = replace(unit, inserts=tuple(source._replace(raw=True) for source in unit.inserts))
    outputs = [Path(output.path) for output in execute(unit).outputs]
    assert [zones_in(path) for path in outputs] == [["Europe/Paris"], ["Asia/Singapore"]]
    for reader in (orc_2_3(), orc_1_5().in_zone("Europe/Paris")):
        wanted = [row for name in names for row in reader.rows(tmp_path / name)]
        assert [row for path in outputs for row in reader.rows(path)] == wanted


OF_HIVE_0 = ("1900-01-01 00:00:00.000000000", "2021-07-01 12:00:00.000000000")


def write_without_zone(folder: Path) -> list[str]:
    """Writes files as Hive before 1.2 did, which Hive reads in the zone of its own JVM."""
    names = [write(folder, orc_1_5().in_zone("Europe/Paris"), number, OF_HIVE_0, compress="NONE") for number in (1, 2)]
    for name in names:
        path = folder / name
        path.write_bytes(without_zone(path.read_bytes(), "Europe/Paris"))
    return names


def test_stripes_without_a_zone_are_copied(tmp_path: Path) -> None:
    names = write_without_zone(tmp_path)
    output = Path(execute(major(tmp_path, names)).outputs[0].path)
    assert zones_in(output) == ["", ""]
    reader = orc_1_5().in_zone("Europe/Paris")
    assert [row[5][1] for row in reader.rows(output)] == [*OF_HIVE_0, *OF_HIVE_0]


def test_stripes_without_a_zone_are_encoded_in_the_one_that_is_set(tmp_path: Path) -> None:
    names = write_without_zone(tmp_path)
    output = Path(execute(major(tmp_path, names, default_zone="Europe/Paris")).outputs[0].path)
    assert zones_in(output) == ["Europe/Paris"]
    for reader in readers("Europe/Paris"):
        assert [row[5][1] for row in reader.rows(output)] == [*OF_HIVE_0, *OF_HIVE_0]


def test_stripes_without_a_zone_are_refused_by_the_name_of_the_setting(tmp_path: Path) -> None:
    unit = major(tmp_path, write_without_zone(tmp_path))
    part = FileNumberInputs(number=0, inserts=unit.inserts, deletes=())
    rebalance = Rebalance(parts=(part,), files=1, write_id=WriteId(9))
    with pytest.raises(NotLossless, match=r"delta_1_1_0000/bucket_00000.*set compactor\.orc\.default\.timezone"):
        execute(replace(unit, rebalance=rebalance))
    with pytest.raises(NotLossless, match=r"set compactor\.orc\.default\.timezone"):
        snapshot(tmp_path, "k:int,z:timestamp,a:array<timestamp>")


def test_the_setting_is_a_zone() -> None:
    class Settings:
        def __init__(self, value: str) -> None:
            self.value = value

        def text(self, key: str) -> str:
            assert key == "compactor.orc.default.timezone"
            return self.value

    assert [default_zone(Settings(name)) for name in ("", "UTC", "JST")] == [None, "UTC", "JST"]
    with pytest.raises(BadSetting, match=r"compactor\.orc\.default\.timezone: found 'Europe/Berln'"):
        default_zone(Settings("Europe/Berln"))


def test_bloom_filters_of_times_let_everything_through(tmp_path: Path) -> None:
    """They hold what the clocks of the zone showed, which is not what was encoded."""
    names = [
        write(
            tmp_path,
            orc_1_5().in_zone("Europe/Paris"),
            number,
            TIMES * 60,
            bloom_filter_columns=["*"],
            row_index_stride=1000,
        )
        for number in (1, 2)
    ]
    output = Path(execute(major(tmp_path, names)).outputs[0].path)
    with LocalSource(output) as source:
        tail = read_tail(source)
        footer = read_stripe_footer(source, tail, 0)
        kinds = {tail.types[stream.column].kind for stream in footer.streams if stream.kind > 6}
    assert kinds >= {TypeKind.INT, TypeKind.TIMESTAMP}
    predicate = Predicate("z", "=", (TIMES[-5],))
    for reader in (orc_1_5(), orc_2_3()):
        assert len(reader.rows_matching(output, predicate)) == 120


def test_a_dump_shows_what_java_shows(tmp_path: Path) -> None:
    """Of a zone that only Java knows; of a file that names none, in the one that the site sets."""
    times = ["1899-12-31 23:59:59.5", "2021-07-01 12:00:00.123456789"]
    path, setting = tmp_path / "bucket_00000", {"compactor.orc.default.timezone": "Europe/Paris"}
    for zone in ("JST", "Europe/Paris"):
        orc_2_3().in_zone(zone).write(path, INNER, [(1, f"{time:0<29}", None) for time in times], compress="NONE")
        if zone == "Europe/Paris":
            path.write_bytes(without_zone(path.read_bytes(), zone))
        for options in ([], ["--hive", "--data"]):
            answer = CliRunner().invoke(dump, [*options, str(path)], obj=CliContext(flags=setting))
            assert re.findall(r'"z": ?"([^"]+)"', answer.stdout) == times
    answer = CliRunner().invoke(dump, [str(path)], obj=CliContext())
    assert "set compactor.orc.default.timezone" in str(answer.exception)
