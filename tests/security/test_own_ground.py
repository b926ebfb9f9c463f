"""Tables and partitions that overlap destroyed each other; now both are left alone, by name (PROTOCOL 11.13)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import delete as sql_delete
from sqlalchemy import insert as sql_insert
from sqlalchemy import update

from compactor.acid.listing import Listing
from compactor.answers.explain import explain
from compactor.answers.preview import preview
from compactor.base.errors import Refused, StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.doctor.checks import doctor
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, CTLGS, DBS, SDS, TABLE_PARAMS
from compactor.requests.in_doubt import in_doubt
from compactor.requests.request import request_compaction
from compactor.requests.resolve import Ruling, resolve
from compactor.requests.restore import restore
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.finding import Finding, Level
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.tables import Store
from compactor.tables import Table as Writable
from compactor.worker.ending import Result
from tests.support.accidents import every_role
from tests.support.insert_only import INPUTS, make_insert_only
from tests.support.insert_only import insert as insert_plain
from tests.support.kept_tables import KeptTables
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of, values_in
from tests.support.passes import clean_all, compact, lose_cleaners, settle, with_storage
from tests.support.tables import entity_of, insert, insert_as_hive, make_table, rows_of, with_settings
from tests.support.watching import files_below

ROWS = 40


def make_at(site: Site, name: str, location: str, **changes: object) -> Table:
    """Creates a table like those of ``make_table`` at any location."""
    like = site.metastore.catalog.table("default", "a")
    parameters = {"transactional": "true"}
    made = NewTable("default", name, location, like.columns, **{"parameters": parameters, **changes})  # type: ignore[arg-type]
    return site.metastore.embedded_catalog.create_table(made)


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    """Four committed deltas, which are due for a compaction."""
    return kept_tables.get(site, warehouse, make_due)


def make_due(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse, "a")
    for start in range(0, ROWS, 10):
        insert(site, table, range(start, start + 10))
    return table


def abort_write_ids(site: Site, table: Table, count: int) -> None:
    """Aborts transactions that have written nothing."""
    for txn in site.metastore.transactions.open("mallory", "h", count=count):
        write_id = site.metastore.write_ids.allocate(txn, table.database, table.name)
        site.metastore.write_ids.add_component(txn, entity_of(table), "i", write_id)
        site.metastore.transactions.abort(txn, "on purpose")


def found(site: Site, subject: str) -> Finding:
    (finding,) = [one for one in doctor(site) if one.subject == subject]
    return finding


def spellings(location: str) -> list[str]:
    return [
        location,
        f"file:{location}",
        f"file://{location}/",
        f"//{location}",
        f"{location}/x/..",
        location.replace("/a", "/%61"),
    ]


@pytest.mark.parametrize("spelling", range(6))
def test_aborted_transactions_of_one_table_remove_no_delta_of_another(site: Site, table: Table, spelling: int) -> None:
    """PROTOCOL 11.13: 40 rows became 0; it needed only the right to create a table."""
    other = make_at(site, "b", spellings(table.location)[spelling])
    abort_write_ids(site, other, 4)
    before = files_below(Path(table.location))
    every_role(site)
    assert files_below(Path(table.location)) == before
    assert len(rows_of(site, table)) == ROWS
    assert "default.a lies there too" in found(site, "overlapping tables").found
    assert found(site, "overlapping tables").level is Level.FAIL


def test_over_a_link_it_is_the_same_place(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.13"""
    (warehouse / "link").symlink_to(table.location)
    abort_write_ids(site, make_at(site, "b", str(warehouse / "link")), 4)
    before = files_below(Path(table.location))
    every_role(site)
    assert files_below(Path(table.location)) == before


def test_a_base_above_makes_nothing_inside_obsolete(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.13: a location that is the parent of others made them obsolete: 40 rows became 0."""
    parent = make_at(site, "parent", str(warehouse))
    for value in range(6):
        insert_as_hive(site, parent, [value])
    before = files_below(warehouse)
    every_role(site)
    assert files_below(warehouse) == before
    assert len(rows_of(site, table)) == ROWS
    for name, word in (("a", "around"), ("parent", "inside")):
        with pytest.raises(Refused, match=rf"default\.{name}: does not have its directory .* lies {word} it"):
            request_compaction(site, table=f"default.{name}")
        with pytest.raises(Refused, match=f"lies {word} it"):
            preview(site, f"default.{name}")
        (partition,) = explain(site, f"default.{name}").partitions
        assert f"lies {word} it" in partition.surveyed.considered.because


def test_rows_of_a_stranger_change_nothing(site: Site, table: Table) -> None:
    """PROTOCOL 11.13: before anything is staged, or removed."""
    other = make_at(site, "b", table.location)
    before = files_below(Path(table.location))
    for one in (table, other):
        request = Request(entity=entity_of(one), type=CompactionType.MAJOR, initiator="stranger")
        site.metastore.requests.request(request)
    outcomes = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert [outcome.result for outcome in outcomes] == [Result.REFUSED, Result.REFUSED]
    for one in (table, other):
        request = Request(entity=entity_of(one), type=CompactionType.MAJOR, initiator="stranger")
        site.metastore.requests.request(request)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_STATE="r", CQ_NEXT_TXN_ID=1, CQ_HIGHEST_WRITE_ID=99))
    settle()
    assert ["lies there too" in one.because for one in clean(site).failed if one.entry_id] == [True, True]
    assert [entry.state for entry in site.metastore.entries.queue()] == [State.READY_FOR_CLEANING] * 2
    assert files_below(Path(table.location)) == before


@pytest.mark.parametrize("ruling", [Ruling.KEEP, Ruling.QUARANTINE])
def test_a_person_decides_nothing_about_anothers_directories(site: Site, table: Table, ruling: Ruling) -> None:
    """PROTOCOL 11.13: its deltas have write IDs that the other table never gave, so they look like those of a restore."""
    other = make_at(site, "b", table.location)
    before = files_below(Path(table.location))
    found = in_doubt(site, other)
    assert len(found) == 4
    with pytest.raises(Refused, match=r"default\.a lies there too"):
        resolve(site, other, {one.path: ruling for one in found})
    assert files_below(Path(table.location)) == before


def test_nothing_is_undone_where_another_table_lies_by_now(site: Site, table: Table) -> None:
    """PROTOCOL 11.13"""
    keeping = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_quarantine="7d")
    done = compact(keeping, table="default.a")
    clean_all(keeping)
    make_at(site, "b", table.location)
    before = files_below(Path(table.location))
    with pytest.raises(Refused, match=r"default\.b lies there too"):
        restore(keeping, "default.a", None, done.entry.id, "ann")
    assert files_below(Path(table.location)) == before


def test_what_was_compacted_before_is_not_cleaned_while_another_lies_there(site: Site, table: Table) -> None:
    """PROTOCOL 11.13: it is cleaned once the other is gone."""
    compact(site, table="default.a")
    other = make_at(site, "b", f"{table.location}/delta_0000001_0000001_0000")
    before = files_below(Path(table.location))
    settle()
    (failed,) = clean(site).failed
    assert "default.b lies inside it" in failed.because
    assert files_below(Path(table.location)) == before
    site.metastore.embedded_catalog.drop_table(other)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_RETRY_RETENTION=0))
    lose_cleaners(site)
    (cleaned,) = clean(site).cleaned
    assert len(cleaned.removed) == 4


def test_a_plain_external_table_above_only_warns(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.13: one at the warehouse's root must not stop everybody."""
    make_at(site, "everything", str(warehouse), parameters={"EXTERNAL": "TRUE"}, type="EXTERNAL_TABLE")
    (considered,) = [one for one in initiate(site).considered if one.entity == entity_of(table)]
    assert considered.entry_id is not None
    warning = found(site, "tables in plain tables")
    assert (warning.level, "default.everything lies around it" in warning.found) == (Level.WARN, True)


@pytest.mark.parametrize("inside", ["delta_0000001_0000001_0000", "x/y"])
def test_a_plain_table_inside_refuses_the_one_around_it(site: Site, table: Table, inside: str) -> None:
    make_at(site, "p", f"{table.location}/{inside}", parameters={"EXTERNAL": "TRUE"}, type="EXTERNAL_TABLE")
    with pytest.raises(Refused, match=r"default\.p lies inside it"):
        request_compaction(site, table="default.a")


def test_a_plain_partition_inside_refuses_too(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.13: a partition below its own table's directory, and one elsewhere."""
    plain = make_partitioned(site, warehouse, "plain", transactional="false")
    site.metastore.embedded_catalog.add_partition(plain, ["1"], f"{table.location}/x")
    with pytest.raises(Refused, match=r"default\.plain/p=1 lies inside it"):
        request_compaction(site, table="default.a")


def test_a_usual_partition_of_a_plain_table_around_may_lie_inside(site: Site, table: Table, warehouse: Path) -> None:
    around = make_partitioned(site, warehouse, "around", transactional="false")
    with site.metastore.database.write() as conn:
        conn.execute(update(SDS).where(around.location == SDS.c.LOCATION).values(LOCATION=str(warehouse)))
        conn.execute(update(SDS).where(table.location == SDS.c.LOCATION).values(LOCATION=str(warehouse / "p=1")))
    around = site.metastore.catalog.table("default", "around")
    site.metastore.embedded_catalog.add_partition(around, ["1"])
    assert site.for_a_pass().ground is not None
    request_compaction(site, table="default.a")  # at the same place a plain one only warns
    site.metastore.embedded_catalog.add_partition(around, ["2"], str(warehouse / "p=1" / "x"))
    with site.metastore.database.write() as conn:
        conn.execute(sql_delete(COMPACTION_QUEUE))
    with pytest.raises(Refused, match=r"default\.around/p=2 lies inside it"):
        request_compaction(site, table="default.a")


def test_partitions_of_one_table_in_each_others_way(site: Site, warehouse: Path) -> None:
    """PROTOCOL 11.13: only these are refused, and the others are compacted."""
    table = make_partitioned(site, warehouse)
    for value in (1, 2, 3):
        add_partition(site, table, value)
        insert_into(site, table, value, [value])
        insert_into(site, table, value, [value + 10])
    insert_into(site, table, 1, [99], commits=False)
    with site.metastore.database.write() as conn:
        inside = f"{table.location}/p=1/delta_0000001_0000001_0000"
        conn.execute(update(SDS).where(f"{table.location}/p=2" == SDS.c.LOCATION).values(LOCATION=inside))
    asked = {one.entity.partition: one.refused for one in request_compaction(site, table="default.t")}
    assert [name for name, why in asked.items() if why is None] == ["p=3"]
    assert "default.t/p=2 lies inside it" in (asked["p=1"] or "")
    assert "default.t/p=1 lies around it" in (asked["p=2"] or "")
    before = files_below(Path(table.location) / "p=1")
    every_role(site)
    assert files_below(Path(table.location) / "p=1") == before
    assert values_in(site, table, 3) == [3, 13]


def test_a_partition_of_one_table_and_another_table(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.13"""
    parted = make_partitioned(site, warehouse, "t")
    add_partition(site, parted, 1)
    add_partition(site, parted, 2, Path(table.location))
    abort_write_ids(site, parted, 4)
    before = files_below(Path(table.location))
    every_role(site)
    assert files_below(Path(table.location)) == before
    asked = {one.entity: one.refused for one in request_compaction(site, table="default.t")}
    assert asked[partition_of(parted, 1)] is None
    assert "default.a lies there too" in (asked[partition_of(parted, 2)] or "")


def test_a_table_of_another_catalog_counts(site: Site, table: Table) -> None:
    """PROTOCOL 11.13: of any catalog."""
    make_at(site, "b", table.location)
    with site.metastore.database.write() as conn:
        conn.execute(sql_insert(CTLGS).values(CTLG_ID=2, NAME="spark", LOCATION_URI="/"))
        conn.execute(sql_insert(DBS).values(DB_ID=77, NAME="default", CTLG_NAME="spark", DB_LOCATION_URI="/"))
        conn.exec_driver_sql("UPDATE TBLS SET DB_ID = 77 WHERE TBL_NAME = 'b'")
    with pytest.raises(Refused, match=r"spark\.default\.b lies there too"):
        request_compaction(site, table="default.a")


def test_an_ordinary_warehouse_has_nothing_to_report(site: Site, table: Table, warehouse: Path) -> None:
    parted = make_partitioned(site, warehouse, "t")
    for value in (1, 10, 2):
        add_partition(site, parted, value)
    add_partition(site, parted, 3, warehouse / "elsewhere" / "three")
    assert found(site, "overlapping tables").level is Level.OK
    assert Entity(database="default", table="a") in {one.entity for one in initiate(site).considered if one.entry_id}


class Meanwhile(LocalStorage):
    """Lets somebody act while a pass is busy with one place for the first time."""

    def __init__(self, place: str, act: Callable[[], object]) -> None:
        super().__init__()
        self._place, self._acts = place, [act]

    def listing(self, path: str) -> Listing:
        found = super().listing(path)
        while path == self._place and self._acts:
            self._acts.pop()()
        return found


def _moves(site: Site, other: Table, table: Table) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(update(SDS).where(other.location == SDS.c.LOCATION).values(LOCATION=table.location))


def _becomes_transactional(site: Site, other: Table, table: Table) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(update(TABLE_PARAMS).where(other.id == TABLE_PARAMS.c.TBL_ID).values(PARAM_VALUE="true"))


@pytest.mark.parametrize("act", [_moves, _becomes_transactional])
def test_what_comes_to_lie_there_during_a_pass(
    site: Site, table: Table, warehouse: Path, act: Callable[[Site, Table, Table], None]
) -> None:
    """PROTOCOL 11.13: a worker that had read the ground before gave the victim a base without half of its rows."""
    make_table(site, warehouse, "busy")
    for value in range(2):
        insert(site, site.metastore.catalog.table("default", "busy"), [value])
    other = make_table(site, warehouse, "b")
    abort_write_ids(site, other, 2)
    insert(site, other, [1])
    for name in ("busy", "b"):
        request_compaction(site, table=f"default.{name}", type="major")
    if act is _becomes_transactional:
        _moves(site, other, table)
        with site.metastore.database.write() as conn:
            conn.execute(update(TABLE_PARAMS).where(other.id == TABLE_PARAMS.c.TBL_ID).values(PARAM_VALUE="false"))
    before = files_below(Path(table.location))
    one_by_one = with_settings(site, hive_txn_max_open_batch="1", hive_txn_opentxn_timeout="1ms")
    meanwhile = Meanwhile(str(warehouse / "busy"), lambda: act(site, other, table))
    ids = [entry.id for entry in site.metastore.entries.queue()]
    done = run_entries(with_storage(one_by_one, meanwhile), ids, InProcessRunner())
    ended = {outcome.entry.entity.table: outcome for outcome in done.outcomes}
    assert (ended["busy"].result, ended["b"].result) == (Result.COMPACTED, Result.REFUSED)
    assert "default.a lies there too" in ended["b"].message
    assert files_below(Path(table.location)) == before
    assert len(rows_of(site, table)) == ROWS


def test_a_table_that_is_made_there_during_a_cleaning(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.13: aborted transactions are looked for at the end of a pass, in tables that may be new."""
    busy = make_table(site, warehouse, "busy")
    for value in range(2):
        insert(site, busy, [value])
    compact(site, table="default.busy")
    settle()

    def act() -> None:
        abort_write_ids(site, make_at(site, "b", table.location), 4)
        settle()

    before = files_below(Path(table.location))
    done = clean(with_storage(site, Meanwhile(busy.location, act)))
    assert [one.entity.table for one in done.cleaned] == ["busy"]
    assert "default.a lies there too" in next(one.because for one in done.failed if one.entity.table == "b")
    assert files_below(Path(table.location)) == before


WRITES: dict[str, Callable[[Writable], object]] = {
    "append": lambda table: table.append(rows_in_partitions()),
    "overwrite": lambda table: table.overwrite(rows_in_partitions()),
    "delete": lambda table: table.delete("a > 0"),
    "update": lambda table: table.update({"b": "'changed'"}),
}


def rows_in_partitions() -> pa.Table:
    return pa.table({"a": pa.array([7], pa.int32()), "b": ["seven"], "p": pa.array([1], pa.int32())})


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("whole", [True, False], ids=["table", "partition"])
def test_programs_write_nothing_into_another_tables_directory(
    site: Site, table: Table, warehouse: Path, write: str, whole: bool
) -> None:
    """PROTOCOL 11.13: a program's delta at the other table's location would be that table's rows, too."""
    other = make_partitioned(site, warehouse, "parts")
    place = Path(other.location if whole else table.location) / ("p=1" if whole else "")
    add_partition(site, other, 1, place)
    abort_write_ids(site, other, site.metastore.write_ids.next("default", "a"))
    insert_into(site, other, 1, [1], location=place)
    if whole:
        make_at(site, "c", f"{other.location}/p=9")
    before = {place: files_below(Path(place)) for place in (table.location, other.location)}
    with pytest.raises(Refused, match=r"default\.(a|c)\b"):
        WRITES[write](Store(site).load_table("default.parts"))
    assert {place: files_below(Path(place)) for place in before} == before


def copy_into_itself(directory: Path) -> str:
    """Does what a copy that runs twice does: ``cp -r t/delta_1 copy/delta_1`` again."""
    shutil.copytree(directory, directory.parent / "copy")
    (directory.parent / "copy").rename(directory / directory.name)
    return f"{directory.name}/{directory.name}"


@pytest.mark.parametrize("is_compacted", [False, True], ids=["delta", "base"])
def test_a_copy_inside_a_base_or_delta_is_refused_with_both_paths(
    site: Site, table: Table, warehouse: Path, is_compacted: bool
) -> None:
    """PROTOCOL 11.13: a scan returned each row twice, and a compaction would have made that final."""
    if is_compacted:
        assert compact(site, table="default.a").result is Result.COMPACTED
        clean_all(site)
        insert(site, table, [ROWS])
    (first, *_) = sorted(Path(table.location).glob("base_*" if is_compacted else "delta_*"))
    nested = copy_into_itself(first)
    before = files_below(warehouse)
    with pytest.raises(StorageError, match=f"'{nested}' is a base or delta inside '{first.name}'"):
        Store(site).load_table("default.a").scan().to_arrow()
    outcome = compact(site, table="default.a")
    assert (outcome.result, nested in outcome.message) == (Result.FAILED, True)
    every_role(site)
    (partition,) = explain(site, "default.a").partitions
    assert nested in partition.surveyed.considered.because
    assert files_below(warehouse) == before


@pytest.mark.parametrize("file_format", INPUTS, ids=lambda kind: kind.name)
def test_a_copy_inside_an_insert_only_delta_is_refused(site: Site, warehouse: Path, file_format: FileFormat) -> None:
    """PROTOCOL 11.13: a major doubled its rows, and the cleaner then removed the original."""
    table = make_insert_only(site, warehouse, file_format)
    for start in (0, 10):
        insert_plain(site, table, file_format, range(start, start + 10))
    (first, *_) = sorted(Path(table.location).glob("delta_*"))
    nested = copy_into_itself(first)
    before = files_below(warehouse)
    outcome = compact(site)
    assert (outcome.result, nested in outcome.message) == (Result.FAILED, True)
    every_role(site)
    assert files_below(warehouse) == before


def test_aborted_writes_stay_while_a_copy_lies_inside_them(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.13: what looks like the rows of another write may be the only copy of them."""
    insert(site, table, range(100, 110), commits=False)
    aborted = sorted(Path(table.location).glob("delta_*"))[-1]
    (first, *_) = sorted(Path(table.location).glob("delta_*"))
    shutil.copytree(first, aborted / first.name)
    before = files_below(warehouse)
    every_role(site)
    assert files_below(warehouse) == before
