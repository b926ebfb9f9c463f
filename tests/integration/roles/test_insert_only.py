"""Insert-only tables from request to cleaned directory, in each of their formats."""

from __future__ import annotations

from pathlib import Path

import pyarrow.orc as orc
import pytest

from compactor.acid.names import CLAIM_PREFIX, METADATA_FILE
from compactor.answers.preview import preview
from compactor.base.errors import Refused
from compactor.batches.driver import run_entries
from compactor.compaction.states import CompactionType, State
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.insert_only import INPUTS, insert, make_insert_only, make_rows, rows_of, story, write_file
from tests.support.passes import clean_all, compact
from tests.support.tables import insert as acid_insert
from tests.support.tables import rows_of as acid_rows_of
from tests.support.tables import with_settings
from tests.support.watching import names_in

FORMATS = list(INPUTS)


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


def files_in(table: Table) -> list[str]:
    """Returns every file, hidden ones too, but no claims."""
    top = Path(table.location)
    return sorted(
        str(path.relative_to(top))
        for path in top.rglob("*")
        if path.is_file() and not path.name.startswith(CLAIM_PREFIX)
    )


@pytest.mark.parametrize("file_format", FORMATS, ids=lambda one: one.name)
@pytest.mark.parametrize("full", [False, True])
def test_a_major_leaves_one_base_of_plain_files(
    site: Site, warehouse: Path, file_format: FileFormat, full: bool
) -> None:
    """PROTOCOL 1: aborted deltas are left out, every row stays, no side file of ACID rows is written."""
    table = make_insert_only(site, warehouse, file_format)
    story(site, table, file_format)
    wanted = rows_of(site, table, file_format)
    assert len(wanted) == 70
    outcome = compact(site, full=full)
    assert outcome.result is Result.COMPACTED, outcome.message
    assert (outcome.figures.rows_in, outcome.figures.rows_out) == (70, 70)
    assert rows_of(site, table, file_format) == wanted
    clean_all(site)
    (base,) = names_in(Path(table.location))
    assert base == f"base_0000008_v{outcome.txn:07d}"
    assert files_in(table) == [f"{base}/000000_0", f"{base}/000001_0"]
    assert rows_of(site, table, file_format) == wanted


@pytest.mark.parametrize("file_format", FORMATS, ids=lambda one: one.name)
def test_a_minor_over_a_base(site: Site, warehouse: Path, file_format: FileFormat) -> None:
    table = make_insert_only(site, warehouse, file_format)
    insert(site, table, file_format, range(100, 120), overwrites=True)
    story(site, table, file_format)
    wanted = rows_of(site, table, file_format)
    outcome = compact(site, "minor")
    assert outcome.result is Result.COMPACTED, outcome.message
    assert outcome.output == (f"delta_0000002_0000009_v{outcome.txn:07d}",)
    clean_all(site)
    assert names_in(Path(table.location)) == {"base_0000001", *outcome.output}
    assert rows_of(site, table, file_format) == wanted
    assert compact(site, "major").result is Result.COMPACTED
    clean_all(site)
    assert rows_of(site, table, file_format) == wanted


def test_the_initiator_asks_and_the_switch_says_no(site: Site, warehouse: Path) -> None:
    table = make_insert_only(site, warehouse)
    for start in range(0, 120, 10):
        insert(site, table, FileFormat.ORC, range(start, start + 10))
    off = with_settings(site, hive_txn_opentxn_timeout="1ms", hive_compactor_compact_insert_only="false")
    initiate(off)
    assert site.metastore.entries.queue() == []
    with pytest.raises(Refused, match=r"compact\.insert\.only is false"):
        compact(off)
    initiate(site)
    (entry,) = site.metastore.entries.queue()
    assert (entry.state, entry.entity.table) == (State.INITIATED, "t")


@pytest.mark.parametrize("file_format", FORMATS, ids=lambda one: one.name)
def test_a_preview_shows_what_the_worker_then_does(site: Site, warehouse: Path, file_format: FileFormat) -> None:
    table = make_insert_only(site, warehouse, file_format)
    story(site, table, file_format)
    before = files_in(table)
    (told,) = preview(site, "default.t", type="major")
    assert files_in(table) == before
    outcome = compact(site)
    assert (told.cost.rows_in, told.cost.rows_out) == (70, 70)
    assert (told.cost.stripes_copied, told.cost.stripes_reencoded) == (
        outcome.figures.stripes_copied,
        outcome.figures.stripes_encoded,
    )
    assert told.highest_write_id == 8


def test_files_that_other_writers_named_their_way(site: Site, warehouse: Path) -> None:
    """Hive shows every file that is not hidden; only where numbers are buckets they must say one."""
    for name, buckets in (("t", -1), ("bucketed", 2)):
        table = make_insert_only(site, warehouse, FileFormat.PARQUET, name, buckets=buckets)
        directory = insert(site, table, FileFormat.PARQUET, range(10), numbers=(0,))
        write_file(directory / "a1b2-0_17_data.0.parq", FileFormat.PARQUET, make_rows(range(10, 15)))
        insert(site, table, FileFormat.PARQUET, range(20, 25), numbers=(0,))
        wanted = rows_of(site, table, FileFormat.PARQUET)
        outcome = compact(site, table=f"default.{name}")
        assert rows_of(site, table, FileFormat.PARQUET) == wanted
        assert len(wanted) == 20
        if buckets > 0:
            assert outcome.result is Result.FAILED
            assert "a1b2-0_17_data.0.parq" in outcome.message
        else:
            assert outcome.figures.rows_out == 20


@pytest.mark.parametrize("file_format", FORMATS, ids=lambda one: one.name)
def test_deltas_without_a_row_become_a_base_without_one(site: Site, warehouse: Path, file_format: FileFormat) -> None:
    """An insert of no rows leaves a directory without a file."""
    table = make_insert_only(site, warehouse, file_format)
    for _ in range(3):
        insert(site, table, file_format, [])
    outcome = compact(site)
    assert outcome.result is Result.COMPACTED, outcome.message
    clean_all(site)
    assert names_in(Path(table.location)) == set(outcome.output)
    assert rows_of(site, table, file_format) == []
    insert(site, table, file_format, range(5))
    assert compact(site).figures.rows_out == 5


def test_files_beside_the_bases_are_refused(site: Site, warehouse: Path) -> None:
    """hive.mm.allow.originals decides whether readers show them."""
    table = make_insert_only(site, warehouse)
    write_file(Path(table.location) / "000000_0", FileFormat.ORC, make_rows(range(5)))
    insert(site, table, FileFormat.ORC, range(10))
    insert(site, table, FileFormat.ORC, range(10))
    outcome = compact(site)
    assert outcome.result is Result.FAILED
    assert "hive.mm.allow.originals" in outcome.message
    assert not [name for name in names_in(Path(table.location)) if name.startswith("base_")]


@pytest.mark.parametrize("kind", ["minor", "major"])
@pytest.mark.parametrize(
    ("name", "input_format", "parameters"),
    [
        ("000000_0", "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat", {}),
        ("000000_0", INPUTS[FileFormat.TEXT], {"skip.header.line.count": "1"}),
        ("000000_0.gz", INPUTS[FileFormat.TEXT], {}),
    ],
    ids=["avro", "header", "compressed"],
)
def test_files_that_cannot_share_one_stay_what_they_are(
    site: Site, warehouse: Path, kind: str, name: str, input_format: str, parameters: dict[str, str]
) -> None:
    table = make_insert_only(site, warehouse, input_format=input_format, parameters=parameters)
    contents = []
    for number in range(3):
        directory = insert(site, table, FileFormat.TEXT, range(0), numbers=())
        contents.append(f"column\n{number}\n".encode())
        (directory / name).write_bytes(contents[-1])
    outcome = compact(site, kind)
    assert outcome.result is Result.COMPACTED, outcome.message
    assert outcome.figures.bytes_in == outcome.figures.bytes_out == sum(map(len, contents))
    clean_all(site)
    ending = name.removeprefix("000000_0")
    [directory_name] = names_in(Path(table.location))
    top = Path(table.location) / directory_name
    names = [f"000000_0{ending}", f"000000_0_copy_1{ending}", f"000000_0_copy_2{ending}"]
    assert sorted(path.name for path in top.iterdir()) == sorted(names)
    assert [(top / one).read_bytes() for one in names] == contents


def test_no_marker_of_acid_rows_is_left(site: Site, warehouse: Path) -> None:
    table = make_insert_only(site, warehouse)
    story(site, table, FileFormat.ORC)
    compact(site, "minor")
    assert not [name for name in files_in(table) if METADATA_FILE in name or "_orc_acid_version" in name]


@pytest.mark.parametrize("kind", ["major", "minor"])
@pytest.mark.parametrize("writes", [False, True])
def test_a_table_that_becomes_full_acid_is_compacted_until_hive_reads_it(
    site: Site, warehouse: Path, kind: str, writes: bool
) -> None:
    """Hive takes what an insert-only compaction wrote for ACID files; see docs/hives-bugs.md."""
    table = make_insert_only(site, warehouse)
    for start in (0, 10, 20):
        insert(site, table, FileFormat.ORC, range(start, start + 10))
    assert compact(site, kind).result is Result.COMPACTED
    clean_all(site)
    table = site.metastore.embedded_catalog.set_table_parameter(table, "transactional_properties", "default")
    if writes:
        acid_insert(site, table, [77])
    wanted = [row[-2] for row in acid_rows_of(site, table)]
    assert sorted(wanted) == [*range(30), *([77] if writes else [])]
    initiate(site)
    (entry,) = site.metastore.entries.queue()
    assert entry.type is CompactionType.MAJOR
    (outcome,) = run_entries(site, [entry.id], InProcessRunner()).outcomes
    assert outcome.result is Result.COMPACTED, outcome.message
    clean_all(site)
    (base,) = names_in(Path(table.location))
    assert {path.name[:7] for path in (Path(table.location) / base).iterdir() if path.name[0] != "_"} == {"bucket_"}
    for path in (Path(table.location) / base).glob("bucket_*"):
        assert orc.ORCFile(path).schema.names[:2] == ["operation", "originalTransaction"]
    assert sorted(row[-2] for row in acid_rows_of(site, table)) == sorted(wanted)
    initiate(site)
    assert site.metastore.entries.queue() == []
