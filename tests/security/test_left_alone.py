"""External tables, and others of a kind that is never compacted: no role touches them, whatever the queue says (PROTOCOL
11.13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import insert as sql_insert
from sqlalchemy import update

from compactor.answers.explain import explain
from compactor.answers.survey import survey_tables
from compactor.base.errors import NotFound, Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.cli.program import program
from compactor.compaction.queue_entry import Request
from compactor.compaction.states import CompactionType, State
from compactor.doctor.checks import doctor
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, SDS, SORT_COLS, TABLE_PARAMS, TBLS
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.finding import Level
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.accidents import every_role
from tests.support.kept_tables import KeptTables
from tests.support.passes import compact, settle
from tests.support.tables import entity_of, insert, make_table
from tests.support.watching import files_below


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    """Deltas enough for a compaction, one of them aborted."""
    return kept_tables.get(site, warehouse, make_due)


def make_due(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in (1, 2, 3):
        insert(site, table, [value])
    insert(site, table, [99], commits=False)
    return table


def external(site: Site) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(update(TBLS).values(TBL_TYPE="EXTERNAL_TABLE"))


def called_external(site: Site) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(sql_insert(TABLE_PARAMS).values(TBL_ID=1, PARAM_KEY="EXTERNAL", PARAM_VALUE="TRUE"))


def plain(site: Site) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(update(TABLE_PARAMS).values(PARAM_VALUE="false"))


def in_parquet(site: Site) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(update(SDS).values(INPUT_FORMAT="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"))


def sorted_rows(site: Site) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(sql_insert(SORT_COLS).values(SD_ID=1, COLUMN_NAME="a", ORDER=1, INTEGER_IDX=0))


KINDS = [
    pytest.param(external, "external table", id="external"),
    pytest.param(called_external, "external table", id="external by its property"),
    pytest.param(plain, "not transactional", id="plain"),
    pytest.param(in_parquet, "expected the ORC input format", id="Parquet"),
    pytest.param(sorted_rows, "sorted", id="sorted"),
]


@pytest.mark.parametrize(("becomes", "why"), KINDS)
def test_no_role_touches_it_by_itself(site: Site, table: Table, becomes: Any, why: str) -> None:
    becomes(site)
    before = files_below(Path(table.location))
    (considered,) = initiate(site).considered
    assert (considered.outcome, why in considered.because) == ("skipped", True)
    every_role(site)
    assert site.metastore.entries.queue() == site.metastore.entries.history() == []
    assert files_below(Path(table.location)) == before


@pytest.mark.parametrize(("becomes", "why"), KINDS)
def test_a_request_is_refused_before_it_is_queued(site: Site, table: Table, becomes: Any, why: str) -> None:
    becomes(site)
    with pytest.raises(Refused, match=why):
        request_compaction(site, table="default.t")
    assert site.metastore.entries.queue() == []
    (partition,) = explain(site, "default.t").partitions
    assert why in partition.surveyed.considered.because


@pytest.mark.parametrize(("becomes", "why"), KINDS)
def test_a_row_of_a_stranger_compacts_nothing(site: Site, table: Table, becomes: Any, why: str) -> None:
    becomes(site)
    before = files_below(Path(table.location))
    site.metastore.requests.request(Request(entity=entity_of(table), type=CompactionType.MAJOR, initiator="stranger"))
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert (outcome.result, why in outcome.message) == (Result.REFUSED, True)
    assert files_below(Path(table.location)) == before


@pytest.mark.parametrize(("becomes", "why"), KINDS)
def test_a_row_that_is_ready_for_cleaning_removes_nothing(site: Site, table: Table, becomes: Any, why: str) -> None:
    compact(site)
    becomes(site)
    before = files_below(Path(table.location))
    settle()
    (ended,) = clean(site).ended
    assert (ended.state, why in ended.because) == (State.REFUSED, True)
    assert files_below(Path(table.location)) == before


def test_rows_of_any_type_and_state_remove_nothing(site: Site, table: Table) -> None:
    external(site)
    before = files_below(Path(table.location))
    site.metastore.requests.request(
        Request(entity=entity_of(table), type=CompactionType.ABORT_CLEANUP, initiator="stranger")
    )
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_STATE="r", CQ_NEXT_TXN_ID=1, CQ_HIGHEST_WRITE_ID=99))
    settle()
    (ended,) = clean(site).ended
    assert "external table" in ended.because
    assert files_below(Path(table.location)) == before


def test_what_people_are_shown(site: Site, table: Table, metastore_url: str) -> None:
    external(site)
    (row,) = survey_tables(site)
    assert (row.decision, "external table" in row.because) == ("skipped", True)
    (finding,) = [one for one in doctor(site) if one.subject == "tables left alone"]
    assert (finding.level, "default.t: is an external table" in finding.found) == (Level.WARN, True)
    done = CliRunner().invoke(program, ["compact", "default.t"], env={"COMPACTOR_METASTORE_URL": metastore_url})
    assert (done.exit_code, "is an external table" in done.output) == (3, True)


def test_a_view_is_named_as_one(site: Site, table: Table) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(update(TBLS).values(TBL_TYPE="VIRTUAL_VIEW"))
    with pytest.raises(NotFound, match=r"default\.t is a view, or of another catalog than hive"):
        request_compaction(site, table="default.t")
    every_role(site, 1)
