"""A copy of the database put back, over insert-only tables: the matrix of ``test_restored`` for plain files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.names import parse_directory
from compactor.base.steps import Step
from compactor.metastore.catalog.values import Table
from compactor.requests.advance import advance, measure_gap
from compactor.requests.resolve import Ruling
from compactor.rewrite.plan.file_format import FileFormat
from compactor.site.site import Site
from tests.contract.test_restored import CASES as FULL_ACID
from tests.contract.test_restored import WRITTEN, backup, copied_during, hours_pass, sampled, site
from tests.support.backups import Backup, ServerBackup
from tests.support.insert_only import insert, make_insert_only, read_file
from tests.support.passes import every_role

__all__ = ["backup", "site"]  # fixtures
_PARQUET = FileFormat.PARQUET
_NOT_THERE = (Step.NAMED_FIRST,)  #: an output of one directory has no first one
CASES = [case for case in FULL_ACID if case[0] in ("minor", "major") and case[1] not in _NOT_THERE]


@pytest.fixture
def table(site: Site, tmp_path: Path) -> Table:
    table = make_insert_only(site, tmp_path, _PARQUET)
    for start in range(0, 30, 10):
        insert(site, table, _PARQUET, range(start, start + 10))
    insert(site, table, _PARQUET, range(500, 510), commits=False)
    return table


def rows_of(site: Site, table: Table) -> list[Any]:
    """Returns the rows that a reader who starts now sees, sorted."""
    txns = site.metastore.transactions.snapshot()
    found = acid_directory(site.storage.listing(table.location), site.write_ids(table, txns), txns)
    places = [*([found.base] if found.base else []), *found.deltas]
    files = (Path(table.location) / file.path for place in places for file in place.files)
    return sorted(row for path in files for row in read_file(path, _PARQUET))


def rows_in_files(table: Table) -> set[Any]:
    """Returns every row in a file that has its name, whatever any snapshot sees."""
    named = [one for one in Path(table.location).iterdir() if one.name.startswith(("base_", "delta_"))]
    return {
        row
        for directory in named
        if parse_directory(directory.name) is not None
        for path in directory.glob("0*")
        for row in read_file(path, _PARQUET)
    }


@pytest.mark.usefixtures("two_stores")
@pytest.mark.parametrize(
    ("kind", "step", "when"),
    sampled(CASES, one_in=40),
    ids=lambda part: getattr(part, "name", part),
)
def test_no_row_is_lost(
    site: Site,
    table: Table,
    url: str,
    backup: Backup | ServerBackup,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    step: Step,
    when: str,
) -> None:
    """PROTOCOL 11: and once a person has kept what is in doubt, everybody reads what was read before."""
    copied_during(site, table, url, backup, monkeypatch, (kind, step, when))
    if when == WRITTEN:
        insert(site, table, _PARQUET, range(900, 910))
    wanted = rows_of(site, table)
    assert len(wanted) == (40 if when == WRITTEN else 30)
    backup.restore()
    hours_pass(site)
    every_role(site)
    assert set(wanted) <= rows_in_files(table)
    advance(site, {(str(table), one.path): Ruling.KEEP for one in measure_gap(site).directories})
    assert rows_of(site, table) == wanted
