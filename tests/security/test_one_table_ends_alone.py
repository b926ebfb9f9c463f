"""Whatever one table's directory makes a pass stumble over ends that table's part of the pass (PROTOCOL 10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from compactor.acid.listing import Listing
from compactor.answers.explain import explain
from compactor.answers.survey import survey_tables
from compactor.base.ids import WriteId
from compactor.cleaner.cleaner import clean
from compactor.doctor.checks import doctor
from compactor.doctor.storage_checks import check_storage
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, HIVE_LOCKS, SDS, TABLE_PARAMS
from compactor.requests.request import request_compaction
from compactor.site.proof_of_removal import RemovalProof
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support.hostile import every_role, is_compacted_and_cleaned, nest, remove_tree
from tests.support.passes import compact, settle, with_storage
from tests.support.tables import entity_of

DELTA = "delta_0000001_0000001_0000"


def brackets(table: Path) -> None:
    (table / DELTA / "_metadata_acid").write_bytes(b"[" * 50_000)


def long_brackets(table: Path) -> None:
    (table / DELTA / "_metadata_acid").write_bytes(b"[" * 100_000)


def deep(table: Path) -> None:
    nest(table, 1500)


def huge_numbers(table: Path) -> None:
    for name in (".compactor_v", ".compactor_obsolete_", ".compactor_quarantine_"):
        (table / f"{name}{'9' * 40}{'_x' if name.endswith('obsolete_') else ''}").mkdir()
    (table / f"delta_{'9' * 30}_{'9' * 30}").mkdir()


def no_text(table: Path) -> None:
    os.mkdir(os.fsencode(table) + b"/delta_\xff\xfe")


def footer_of_noise(table: Path) -> None:
    (table / DELTA / "bucket_00000").write_bytes(b"ORC" + bytes(range(256)) * 8 + b"ORC\x17")


@pytest.mark.parametrize("trouble", [brackets, long_brackets, deep, huge_numbers, no_text, footer_of_noise])
def test_what_one_table_holds_ends_that_table_alone(
    site: Site, hostile: Table, neighbour: Table, trouble: Callable[[Path], None]
) -> None:
    trouble(Path(hostile.location))
    request_compaction(site, table="default.hostile", type="major")
    try:
        passes = every_role(site)
        assert [row.table for row in survey_tables(site)].count("default.neighbour") == 1
        assert list(check_storage(site))
    finally:
        remove_tree(Path(hostile.location) / "d")
    (outcome,) = (o for o in passes.outcomes if o.entry.entity == entity_of(hostile))
    assert outcome.result in (Result.FAILED, Result.REFUSED)
    assert hostile.location in passes.said_of(entity_of(hostile))
    assert is_compacted_and_cleaned(site, neighbour)
    (ended,) = (e for e in site.metastore.entries.history() if e.entity == entity_of(hostile))
    assert ended.error


RAISED = (
    OSError(40, "loop"),
    RecursionError("deep"),
    MemoryError(),
    UnicodeError("no text"),
    ValueError("a library's"),
)


class Stumbles(LocalStorage):
    """Raises while one place is listed."""

    def __init__(self, place: str, error: Exception) -> None:
        super().__init__()
        self._place, self._error = place, error

    def listing(self, path: str) -> Listing:
        if path == self._place:
            raise self._error
        return super().listing(path)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_is_raised_for_one_table_every_role_goes_on(
    site: Site, hostile: Table, neighbour: Table, error: Exception
) -> None:
    request_compaction(site, table="default.hostile", type="major")
    stumbling = with_storage(site, Stumbles(hostile.location, error))
    passes = every_role(stumbling)
    (considered,) = (c for c in passes.initiator.considered if c.entity == entity_of(hostile))
    (outcome,) = (o for o in passes.outcomes if o.entry.entity == entity_of(hostile))
    said = f"default.hostile: {type(error).__name__}"
    assert (outcome.result, said in outcome.message) == (Result.FAILED, True)
    assert considered.outcome in ("error", "skipped")  # skipped: it is queued already
    assert is_compacted_and_cleaned(site, neighbour)
    (ended,) = (e for e in site.metastore.entries.history() if e.entity == entity_of(hostile))
    assert said in (ended.error or "")


@pytest.mark.parametrize("error", RAISED[1:3], ids=lambda error: type(error).__name__)
def test_the_initiator_records_it_and_requests_the_neighbours(
    site: Site, hostile: Table, neighbour: Table, error: Exception
) -> None:
    considered = {c.entity.table: c for c in initiate(with_storage(site, Stumbles(hostile.location, error))).considered}
    assert (considered["hostile"].outcome, considered["neighbour"].entry_id is not None) == ("error", True)
    assert f"default.hostile: {type(error).__name__}" in considered["hostile"].because


@pytest.mark.parametrize("error", RAISED[1:3], ids=lambda error: type(error).__name__)
def test_a_table_that_the_catalog_cannot_say_anything_about(
    site: Site, hostile: Table, neighbour: Table, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns, properties and partitions are a stranger's, too."""
    catalog = type(site.metastore.catalog)
    table = catalog.table

    def stumbling(self: Any, database: str, name: str) -> Table:
        if name == "hostile":
            raise error
        return table(self, database, name)

    request_compaction(site, table="default.hostile", type="major")
    monkeypatch.setattr(catalog, "table", stumbling)
    passes = every_role(site)
    assert f"{type(error).__name__}" in passes.said_of(entity_of(hostile))
    assert is_compacted_and_cleaned(site, neighbour)


def test_a_cleaner_backs_off_where_it_stumbles(site: Site, hostile: Table, neighbour: Table) -> None:
    for name in ("hostile", "neighbour"):
        compact(site, table=f"default.{name}")
    settle()
    done = clean(with_storage(site, Stumbles(hostile.location, MemoryError())))
    assert {c.entity.table for c in done.cleaned} == {"neighbour"}
    (failed,) = (f for f in done.failed if f.entry_id)
    assert "default.hostile: MemoryError" in failed.because
    assert is_compacted_and_cleaned(site, neighbour)


def test_transactions_of_one_table_are_kept_where_a_look_through_it_stumbles(
    site: Site, hostile: Table, neighbour: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are forgotten only where they are seen to be nowhere."""
    tree = LocalStorage.tree

    def stumbling(self: LocalStorage, path: str) -> Any:
        if path == hostile.location:
            raise RecursionError("deep")
        return tree(self, path)

    monkeypatch.setattr(LocalStorage, "tree", stumbling)
    proof = RemovalProof(site)
    (why,) = proof.of_table(hostile, [WriteId(90)]).values()
    assert "RecursionError: deep" in why
    assert proof.of_table(neighbour, [WriteId(90)]) == {}
    keep_house(site)


@pytest.mark.parametrize(
    "values", [{"CQ_TBLPROPERTIES": "9:1:a"}, {"CQ_TBLPROPERTIES": "99999999999:"}, {"CQ_STATE": "z"}, {"CQ_TYPE": "*"}]
)
def test_a_request_that_cannot_be_read_holds_up_nobody(
    site: Site, hostile: Table, neighbour: Table, values: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    request_compaction(site, table="default.hostile", type="major")
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(values))
    every_role(site)
    assert is_compacted_and_cleaned(site, neighbour)
    if "CQ_TBLPROPERTIES" in values:
        assert "compaction 1 of default.hostile: its row cannot be understood" in caplog.text
    with site.metastore.database.read() as conn:
        row = conn.execute(select(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_ID == 1)).mappings().one()
    assert {name: row[name] for name in values} == values


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compactorthreshold.hive.compactor.delta.pct.threshold", "1" * 10**6 + "x"),
        ("compactor.max.bytes", "0" * 10**6 + "1"),
        ("compactor.quarantine", "9" * 10**6 + "d"),
    ],
)
def test_a_property_of_a_million_digits(site: Site, hostile: Table, neighbour: Table, key: str, value: str) -> None:
    """Looking at one held up every pass for hours; another ended `explain` with a trace."""
    with site.metastore.database.write() as conn:
        conn.execute(insert(TABLE_PARAMS).values(TBL_ID=hostile.id, PARAM_KEY=key, PARAM_VALUE=value))
    every_role(site)
    assert is_compacted_and_cleaned(site, neighbour)
    ((ignored, why),) = explain(site, "default.hostile").ignored
    assert (key in ignored, "expected a number of at most 100 characters" in why) == (True, True)


@pytest.mark.parametrize("location", ["file:/a\0b", "", "hdfs://[::1", "s3a://a/\n", "/" + "a/" * 1990])
def test_a_location_that_leads_nowhere(site: Site, hostile: Table, neighbour: Table, location: str) -> None:
    """The ground of all tables could not be read, so nothing was compacted."""
    with site.metastore.database.write() as conn:
        conn.execute(update(SDS).where(hostile.location == SDS.c.LOCATION).values(LOCATION=location))
    every_role(site)
    assert is_compacted_and_cleaned(site, neighbour)
    assert list(doctor(site))


@pytest.mark.parametrize("letter", [{"HL_LOCK_TYPE": "z"}, {"HL_LOCK_TYPE": "e", "HL_LOCK_STATE": "z"}])
def test_a_lock_of_a_kind_that_is_not_known(
    site: Site, hostile: Table, neighbour: Table, letter: dict[str, str]
) -> None:
    (txn,) = site.metastore.transactions.open("u", "h")
    wanted = LockRequest(database="default", table="hostile", type=LockType.SHARED_READ)
    assert site.metastore.locks.try_acquire(txn, [wanted], "u", "h")
    with site.metastore.database.write() as conn:
        conn.execute(update(HIVE_LOCKS).values(letter))
    done = {o.entry.entity.table: o.result for o in every_role(site).outcomes}
    assert done == {"hostile": Result.WAITING, "neighbour": Result.COMPACTED}
