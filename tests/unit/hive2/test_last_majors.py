"""Majors beside a Hive 2 that still runs, over what a real Hive 2.3 wrote."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from compactor.acid.directory import acid_directory
from compactor.acid.names import CLAIM_PREFIX, DirectoryClaim, parse_claim
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import DatabaseUnavailable, StorageError
from compactor.base.ids import TxnId, WriteId
from compactor.database.engine import Database, open_database
from compactor.hive2.last_majors import compact_before_hive_3
from compactor.hive2.upgrade_check import before_hive_3
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Layer, Settings
from compactor.site.finding import Finding, Level
from compactor.site.old_site import OldSite
from compactor.storage.local import LocalStorage
from compactor.storage.protocol import NO_FILES
from demo.snapshot_reader import read_snapshot
from tests.support import hive2
from tests.support.expected import read_expected, step, step_id, steps
from tests.support.watching import names_in

DML = "hive-2.3/f7_v1/s1_dml"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path / 'hive2.db'}")
    with opened.write() as conn:
        for statement in hive2.schema_sql("sqlite"):
            conn.exec_driver_sql(statement)
    yield opened
    opened.close()


@pytest.fixture
def site(database: Database) -> OldSite:
    return hive2.site_of(database)


def listed(site: OldSite) -> list[Finding]:
    return [
        f for f in before_hive_3(site.metastore.catalog, site.storage, is_upgraded=False) if f.level is not Level.OK
    ]


def queue(database: Database) -> list[dict[str, Any]]:
    with database.read() as conn:
        return [dict(row) for row in conn.execute(text("SELECT * FROM COMPACTION_QUEUE")).mappings()]


def change(database: Database, statement: str) -> None:
    with database.write() as conn:
        conn.execute(text(statement))


@pytest.mark.parametrize("path", steps("hive-2.3"), ids=step_id)
def test_rows_stay_what_hive_2_showed(path: Path, site: OldSite, database: Database, warehouse: Path) -> None:
    """PROTOCOL 1.7 and 3: before, after, after Hive 2's cleaner, and for a later Hive, whose write ID N the base is."""
    fixture = hive2.register(database, path, warehouse)
    location = warehouse / fixture.table
    wanted = sorted(read_expected(path).row_ids)
    needed = listed(site)
    change(database, "DELETE FROM COMPACTION_QUEUE WHERE CQ_STATE = 'i'")  # s4: a minor that waits would be waited for
    assert hive2.show_rows(site, fixture, location) == wanted
    before = names_in(location)
    (finding,) = hive2.compact(site)
    assert finding.level is Level.OK, finding
    assert hive2.show_rows(site, fixture, location) == wanted
    assert listed(site) == []
    new = names_in(location) - before
    if not needed:
        assert (new, finding.found) == (set(), "none of 1 directories of full ACID tables needs a major compaction")
        return
    (base,) = new
    number = max(int(name.split("_")[-2 if name.count("_") > 2 else -1]) for name in before if "delta" in name)
    assert base == f"base_{number:07d}"
    assert {p.name[:7] for p in (location / base).iterdir()} == {"bucket_"}
    assert [(row["CQ_STATE"], row["CQ_TYPE"], row["CQ_WORKER_ID"]) for row in queue(database)][-1:] == [
        ("r", "a", None)
    ]
    hive2.clean(site, database, location)
    assert names_in(location) == {base}
    assert hive2.show_rows(site, fixture, location) == wanted
    later = ValidWriteIdList(table="default.t", high_watermark=WriteId(number))
    directory = acid_directory(LocalStorage().listing(str(location)), later, ValidTxnList(high_watermark=TxnId(1)))
    names = ",".join(f"{name}:{kind}" for name, kind in fixture.description.columns)
    seen = [
        row for batch in read_snapshot(str(location), directory, later, f"struct<{names}>") for row in batch.to_pylist()
    ]
    assert sorted((row["writeid"], row["bucketid"], row["rowid"]) for row in seen) == [tuple(i) for i, _ in wanted]


def test_the_row_of_the_queue_is_as_hive_2_makes_it(site: OldSite, database: Database, warehouse: Path) -> None:
    hive2.register(database, step(DML), warehouse)
    (finding,) = hive2.compact(site)
    assert finding.found == "compacted to base_0000034: 6 events, 3 rows"
    (row,) = queue(database)
    assert (row.pop("CQ_START") or 0) > 0
    assert row == {
        "CQ_ID": 16,
        "CQ_DATABASE": "default",
        "CQ_TABLE": "f7_v1",
        "CQ_PARTITION": None,
        "CQ_STATE": "r",
        "CQ_TYPE": "a",
        "CQ_TBLPROPERTIES": None,
        "CQ_WORKER_ID": None,
        "CQ_RUN_AS": LocalStorage().owner(str(warehouse)),
        "CQ_HIGHEST_TXN_ID": 34,
        "CQ_META_INFO": None,
        "CQ_HADOOP_JOB_ID": None,
    }
    with database.read() as conn:
        assert conn.execute(text("SELECT NCQ_NEXT FROM NEXT_COMPACTION_QUEUE_ID")).scalar() == 17


@pytest.mark.parametrize(
    ("settings", "owner", "wanted"),
    [
        ({"hive.compactor.run.as.user": "hive"}, None, "hive"),
        ({"compactor.run.as.owner": "true"}, "ann", "ann"),
        ({"compactor.run.as.owner": "true"}, None, None),
        ({}, "ann", None),
    ],
)
def test_only_what_this_user_is_wanted_for_is_compacted(
    site: OldSite,
    database: Database,
    warehouse: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    owner: str | None,
    wanted: str | None,
) -> None:
    hive2.register(database, step(DML), warehouse)
    if owner is not None:
        monkeypatch.setattr(LocalStorage, "owner", lambda self, path: owner)
    given = Settings.of([Layer(name="flag", values={"compactor.mode": "compact", **settings})])
    (finding,) = hive2.compact(replace(site, settings=given))
    assert (f"is to be compacted as {wanted}, and this process runs as" in finding.found) is (wanted is not None)
    assert len(queue(database)) == (0 if wanted else 1)


def request(database: Database, state: str, type: str, worker: str | None = None) -> None:
    columns = "CQ_ID, CQ_DATABASE, CQ_TABLE, CQ_STATE, CQ_TYPE, CQ_WORKER_ID"
    said = "NULL" if worker is None else f"'{worker}'"
    change(
        database,
        f"INSERT INTO COMPACTION_QUEUE ({columns}) VALUES (9, 'default', 'f7_v1', '{state}', '{type}', {said})",
    )


def test_a_request_made_in_hive_2_is_taken_over(site: OldSite, database: Database, warehouse: Path) -> None:
    hive2.register(database, step(DML), warehouse)
    request(database, "i", "a")
    hive2.compact(site)
    assert [(row["CQ_ID"], row["CQ_STATE"]) for row in queue(database)] == [(9, "r")]


@pytest.mark.parametrize(
    ("state", "type", "why"),
    [
        ("w", "a", "hive2-host-12 compacts it"),
        ("w", "i", "hive2-host-12 compacts it"),
        ("i", "i", "a minor, waits for"),
    ],
)
def test_the_work_of_hive_2_is_left_alone(
    site: OldSite, database: Database, warehouse: Path, state: str, type: str, why: str
) -> None:
    hive2.register(database, step(DML), warehouse)
    request(database, state, type, "hive2-host-12" if state == "w" else None)
    before = queue(database)
    (finding,) = hive2.compact(site)
    assert (finding.level, why in finding.found) == (Level.FAIL, True)
    assert queue(database) == before
    assert not list((warehouse / "f7_v1").glob("base_*"))


def test_nothing_above_the_lowest_open_transaction_is_compacted(
    site: OldSite, database: Database, warehouse: Path
) -> None:
    """Hive 2's ValidCompactorTxnList: the update of 33 is open, so that 32 alone may be read, which holds inserts only."""
    fixture = hive2.register(database, step(DML), warehouse)
    insert = "INSERT INTO TXNS (TXN_ID, TXN_STATE, TXN_STARTED, TXN_LAST_HEARTBEAT, TXN_USER, TXN_HOST)"
    change(database, f"{insert} VALUES (33, 'o', 0, 0, 'a', 'b')")
    wanted = hive2.show_rows(site, fixture, warehouse / "f7_v1")
    (finding,) = hive2.compact(site)
    assert finding.level is Level.FAIL
    assert finding.found.startswith("compacted up to transaction 32; above it delta_0000033_0000033_0000/")
    assert hive2.show_rows(site, fixture, warehouse / "f7_v1") == wanted
    hive2.clean(site, database, warehouse / "f7_v1")
    change(database, "DELETE FROM TXNS WHERE TXN_ID = 33")
    assert [f.level for f in hive2.compact(site)] == [Level.OK]
    assert hive2.show_rows(site, fixture, warehouse / "f7_v1") == sorted(read_expected(fixture.path).row_ids)


def test_nothing_is_done_while_every_transaction_is_open(site: OldSite, database: Database, warehouse: Path) -> None:
    hive2.register(database, step(DML), warehouse)
    insert = "INSERT INTO TXNS (TXN_ID, TXN_STATE, TXN_STARTED, TXN_LAST_HEARTBEAT, TXN_USER, TXN_HOST)"
    change(database, f"{insert} VALUES (32, 'o', 0, 0, 'a', 'b')")
    (finding,) = hive2.compact(site)
    assert (finding.level, "transactions that are still open" in finding.found) == (Level.FAIL, True)
    assert queue(database) == []


def test_aborted_events_are_left_out_and_stay_aborted(site: OldSite, database: Database, warehouse: Path) -> None:
    """The aborted delete of 34 lies above the base: its transaction must not be forgotten, or the delete would count."""
    fixture = hive2.register(database, step(DML), warehouse)
    change(
        database,
        "INSERT INTO TXNS (TXN_ID, TXN_STATE, TXN_STARTED, TXN_LAST_HEARTBEAT, TXN_USER, TXN_HOST) "
        "VALUES (34, 'a', 0, 0, 'a', 'b')",
    )
    location = warehouse / "f7_v1"
    wanted = hive2.show_rows(site, fixture, location)
    assert len(wanted) == 4
    hive2.compact(site)
    assert hive2.show_rows(site, fixture, location) == wanted
    assert [row["CQ_HIGHEST_TXN_ID"] for row in queue(database)] == [33]
    assert "delta_0000034_0000034_0000" not in hive2.clean(site, database, location)
    assert hive2.show_rows(site, fixture, location) == wanted


def test_events_of_a_row_in_a_batch_of_transactions(site: OldSite, database: Database, warehouse: Path) -> None:
    """A streaming writer's side file says how much of its file is meant."""
    fixture = hive2.register(database, step(DML), warehouse)
    location = warehouse / "f7_v1"
    streamed = location / "delta_0000033_0000033_0000" / "bucket_00000"
    length = streamed.stat().st_size
    with streamed.open("ab") as file:
        file.write(b"not flushed yet")
    streamed.with_name("bucket_00000_flush_length").write_bytes(length.to_bytes(8, "big"))
    assert [f.level for f in hive2.compact(site)] == [Level.OK]
    hive2.clean(site, database, location)
    assert hive2.show_rows(site, fixture, location) == sorted(read_expected(fixture.path).row_ids)


@pytest.mark.parametrize("mode", ["observe", "request"])
def test_the_mode_must_allow_it(database: Database, warehouse: Path, mode: str) -> None:
    hive2.register(database, step(DML), warehouse)
    (finding,) = hive2.compact(hive2.site_of(database, mode=mode))
    assert (finding.level, finding.found) == (
        Level.FAIL,
        f"default.f7_v1: compactor.mode is {mode}; compactions need compact or clean",
    )
    assert queue(database) == []


def test_a_sorted_table_is_refused_as_hive_2_does(site: OldSite, database: Database, warehouse: Path) -> None:
    hive2.register(database, step(DML), warehouse)
    change(database, "INSERT INTO SORT_COLS VALUES (1, 'a', 1, 0)")
    (finding,) = hive2.compact(site)
    assert (finding.level, "sorted" in finding.found) == (Level.FAIL, True)


def test_a_table_in_anothers_directory_is_refused(site: OldSite, database: Database, warehouse: Path) -> None:
    """PROTOCOL 11.13"""
    hive2.register(database, step(DML), warehouse)
    for statement in (
        "CREATE TABLE copied AS SELECT * FROM TBLS",
        "UPDATE copied SET TBL_ID = 99, TBL_NAME = 'b'",
        "INSERT INTO TBLS SELECT * FROM copied",
        "INSERT INTO TABLE_PARAMS (TBL_ID, PARAM_KEY, PARAM_VALUE) VALUES (99, 'transactional', 'true')",
    ):
        change(database, statement)
    before = sorted((warehouse / "f7_v1").iterdir())
    found = hive2.compact(site)
    assert ["lies there too" in one.found for one in found if one.subject == "default.f7_v1"] == [True]
    assert sorted((warehouse / "f7_v1").iterdir()) == before
    assert queue(database) == []


def test_a_directory_that_another_table_claims_is_left_alone(
    site: OldSite, database: Database, warehouse: Path
) -> None:
    """PROTOCOL 11.13: what is compacted there has the claim of this metastore's table afterwards."""
    fixture = hive2.register(database, step(DML), warehouse)
    claim = warehouse / "f7_v1" / DirectoryClaim(token="f" * 32, table_id=7).name
    claim.touch()
    before = sorted((warehouse / "f7_v1").iterdir())
    (finding,) = hive2.compact(site)
    assert (finding.level, "is claimed by table with id 7" in finding.found) == (Level.FAIL, True)
    assert sorted((warehouse / "f7_v1").iterdir()) == before
    claim.unlink()
    (finding,) = hive2.compact(site)
    assert finding.level is Level.OK
    (own,) = (warehouse / fixture.table).glob(f"{CLAIM_PREFIX}*")
    assert parse_claim(own.name) is not None


def test_a_row_whose_worker_died_is_finished(site: OldSite, database: Database, warehouse: Path) -> None:
    """Its base was named and its row not marked: what it replaces is still to be cleaned."""
    fixture = hive2.register(database, step(DML), warehouse)
    location = warehouse / "f7_v1"
    hive2.compact(site)
    died = f"compactor-hive2-here-{_dead_process()}-0a1b2c3d"
    change(database, f"UPDATE COMPACTION_QUEUE SET CQ_STATE = 'w', CQ_WORKER_ID = '{died}'")
    (location / ".compactor_v12").mkdir()
    (finding,) = hive2.compact(site)
    assert finding.found == "base_0000034 exists; Hive 2's cleaner removes the directories that it replaced"
    assert [(row["CQ_STATE"], row["CQ_HIGHEST_TXN_ID"]) for row in queue(database)] == [("r", 34)]
    assert not list(location.glob("_*"))
    hive2.clean(site, database, location)
    assert hive2.show_rows(site, fixture, location) == sorted(read_expected(fixture.path).row_ids)


@pytest.mark.parametrize(
    "whose",
    ["compactor-hive2-elsewhere-1-0a1b2c3d", f"compactor-hive2-here-{os.getpid()}-0a"],
    ids=["another machine", "a living process"],
)
def test_a_row_of_another_machine_or_a_live_process_is_not_touched(
    site: OldSite, database: Database, warehouse: Path, whose: str
) -> None:
    hive2.register(database, step(DML), warehouse)
    request(database, "w", "a", whose)
    (finding,) = hive2.compact(site)
    assert f"{whose} compacts it" in finding.found
    assert [row["CQ_WORKER_ID"] for row in queue(database)] == [whose]


def _dead_process() -> int:
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    return process


class _Failing(LocalStorage):
    def __init__(self, name: str) -> None:
        self._name = name

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        if os.path.basename(target).startswith(self._name):
            raise StorageError(f"{target}: the disk is full")
        super().rename(source, target, durable=durable)

    def adopt(self, path: str, files: Mapping[str, str | bytes] = NO_FILES, *, like: str) -> Mapping[str, int]:
        for name in files:
            if os.path.basename(name).startswith(self._name):
                raise StorageError(f"{path}/{name}: the disk is full")
        return super().adopt(path, files, like=like)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", ["bucket_", "base_"])
def test_a_failure_leaves_nothing_behind(
    site: OldSite, database: Database, warehouse: Path, name: str, asked: bool
) -> None:
    hive2.register(database, step(DML), warehouse)
    if asked:
        request(database, "i", "a")
    before = queue(database)
    names = sorted(names_in(warehouse / "f7_v1"))
    broken = replace(site, storage=_stores(_Failing(name)))
    (finding,) = list(compact_before_hive_3(broken, InProcessRunner()))
    assert (finding.level, "the disk is full" in finding.found) == (Level.FAIL, True)
    assert [row | {"CQ_HIGHEST_TXN_ID": None, "CQ_RUN_AS": None} for row in queue(database)] == before
    assert sorted(names_in(warehouse / "f7_v1")) == names


def _stores(storage: LocalStorage) -> Any:
    return storage


def test_a_named_base_stays(
    site: OldSite, database: Database, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails after the rename: the base is whole and every reader's, so the row waits for the next call."""
    fixture = hive2.register(database, step(DML), warehouse)
    committing = type(site.metastore).committing

    @contextmanager
    def fails(self: Any, *arguments: Any, **named: Any) -> Iterator[None]:
        with committing(self, *arguments, **named):
            yield
            raise DatabaseUnavailable("the database went away")

    monkeypatch.setattr(type(site.metastore), "committing", fails)
    (finding,) = hive2.compact(site)
    assert "went away" in finding.found
    assert hive2.show_rows(site, fixture, warehouse / "f7_v1") == sorted(read_expected(fixture.path).row_ids)
    (row,) = queue(database)
    assert (row["CQ_STATE"], row["CQ_HIGHEST_TXN_ID"]) == ("w", 34)
    monkeypatch.undo()
    again = row["CQ_WORKER_ID"].replace(f"-{os.getpid()}-", f"-{_dead_process()}-")
    change(database, f"UPDATE COMPACTION_QUEUE SET CQ_WORKER_ID = '{again}'")
    hive2.compact(site)
    assert [row["CQ_STATE"] for row in queue(database)] == ["r"]


def test_a_recreated_table_does_not_get_the_old_rows(
    site: OldSite, database: Database, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive2.register(database, step(DML), warehouse)
    record = type(site.metastore).record

    def moved(self: Any, *arguments: Any) -> None:
        record(self, *arguments)
        shutil.copytree(warehouse / "f7_v1", warehouse / "elsewhere")
        change(database, f"UPDATE SDS SET LOCATION = '{warehouse}/elsewhere'")

    monkeypatch.setattr(type(site.metastore), "record", moved)
    (finding,) = hive2.compact(site)
    assert "was re-created or moved meanwhile" in finding.found
    assert not list(warehouse.glob("*/base_*"))
    assert queue(database) == []
