"""A metastore and files that disagree, as after a restore from a backup (PROTOCOL 11)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from compactor.acid.listing import Listing
from compactor.acid.names import CLAIM_PREFIX, staging_name
from compactor.base.errors import Disagreement
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site import leftovers
from compactor.site.files_and_metastore import must_be_the_same_table
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support.backups import Backup, without_memory
from tests.support.passes import Renames, age, clean_all, compact, every_role, with_storage
from tests.support.tables import entity_of, insert, insert_as_hive, leave_manifest, make_table, rows_of, with_settings
from tests.support.watching import names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(without_memory(deployment), hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in (1, 2, 3):
        insert(site, table, [value])
    return table


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return Backup(tmp_path / "metastore.db")


class TakenWhileUnitsRun(InProcessRunner):
    """The backup knows the compaction's transaction as open."""

    def __init__(self, backup: Backup) -> None:
        super().__init__()
        self._backup = backup

    def run(self, jobs: Any) -> Any:
        self._backup.take()
        return super().run(jobs)


def everything(table: Table) -> dict[str, bytes]:
    root = Path(table.location)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_base_that_was_cleaned_after_the_backup_keeps_its_rows(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.5: 15 of 15 rows were hidden and deleted; TXNS knows the compaction as open, so it times out."""
    done = compact(site, runner=TakenWhileUnitsRun(backup))
    assert done.txn is not None
    clean_all(site)
    only_copy = everything(table)
    assert {path.partition("/")[0] for path in only_copy if not path.startswith(CLAIM_PREFIX)} == set(done.output)
    backup.restore()
    age(site)
    every_role(site)
    assert everything(table) == only_copy
    assert site.metastore.transactions.state(done.txn) == "o"
    assert [entry.id for entry in site.metastore.entries.working()] == [done.entry.id]


def test_a_base_whose_compaction_was_aborted_by_somebody_else_keeps_its_rows(
    site: Site, table: Table, backup: Backup
) -> None:
    """PROTOCOL 11.5: as Hive's housekeeper does it, which looks at no file."""
    done = compact(site, runner=TakenWhileUnitsRun(backup))
    clean_all(site)
    only_copy = everything(table)
    backup.restore()
    assert done.txn is not None
    site.metastore.transactions.abort(done.txn, "by Hive's housekeeper")
    every_role(site)
    assert everything(table) == only_copy
    with pytest.raises(Disagreement, match="may be the only copy, as after a restore"):
        leftovers.clear_leftovers(site, site.target(entity_of(table)))


@pytest.mark.parametrize("taken", ["before the last insert", "before the claim"])
def test_every_role_leaves_a_restored_metastores_table_alone(
    site: Site, table: Table, backup: Backup, taken: str
) -> None:
    """PROTOCOL 11.3: the next compaction got the number of the one before, and its own names were nobody's."""
    if taken == "before the last insert":
        backup.take()
        insert(site, table, [4])
        request_compaction(site, table=str(table))
    else:
        request_compaction(site, table=str(table))
        backup.take()
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    only_copy = everything(table)
    backup.restore()
    if taken == "before the last insert":
        request_compaction(site, table=str(table))
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert (outcome.result, "either the metastore is older than the files" in outcome.message) == (Result.REFUSED, True)
    every_role(site)
    assert everything(table) == only_copy


def test_counters_are_read_after_the_listing(site: Site, table: Table) -> None:
    """PROTOCOL 11.3: whoever writes meanwhile is no disagreement."""

    class Late(LocalStorage):
        def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
            if len(names_in(Path(table.location))) == 3:
                insert(site, table, [4])
            return super().children(path, prefix)

    assert leftovers.clear_leftovers(with_storage(site, Late()), site.target(entity_of(table))) == ()
    assert len(names_in(Path(table.location))) == 4


def test_the_manifest_goes_last(site: Site, table: Table) -> None:
    """PROTOCOL 11.6: as long as what was named may have to be hidden, it is the proof."""
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    named, staging = Path(table.location) / f"base_0000003_v{txn:07d}", Path(table.location) / staging_name(txn)
    named.mkdir()
    (named / "bucket_00000").write_bytes(b"not to be read")
    leave_manifest(table, txn, named.name)
    site.metastore.transactions.abort(txn, "by hand")
    seen: list[bool] = []
    watched = with_storage(site, Renames(lambda source, target: seen.append((staging / "manifest.json").exists())))
    leftovers.clear_aborted(watched, site.target(entity_of(table)), txn)
    assert (seen, staging.exists(), named.exists()) == ([True], False, False)


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_a_delta_that_the_first_listing_missed_is_not_hidden(site: Site, table: Table, kind: str) -> None:
    """PROTOCOL 11.9: its rows were left out of the output, hidden by its range, and cleaned."""
    wanted, missed = rows_of(site, table), "delta_0000002_0000002_0000"

    class Misses(LocalStorage):
        """A stale cache, at first."""

        asked = 0

        def listing(self, path: str) -> Listing:
            found = super().listing(path)
            if path != table.location:
                return found
            self.asked += 1
            if self.asked > 1:
                return found
            files = tuple(file for file in found.files if not file.path.startswith(missed))
            return Listing(files=files, directories=tuple(name for name in found.directories if name != missed))

    outcome = compact(with_storage(site, Misses()), kind)
    assert outcome.result is Result.WAITING
    assert f"{missed} was not there" in outcome.message
    assert names_in(Path(table.location)) == {f"delta_{n:07}_{n:07}_0000" for n in (1, 2, 3)}
    (again,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert again.result is Result.COMPACTED
    clean_all(site)
    assert rows_of(site, table) == wanted


def test_a_copy_of_a_table_inside_anothers_directory_keeps_its_rows(site: Site, table: Table) -> None:
    """PROTOCOL 11.13: its files were taken for originals, merged into the table around it, and removed."""
    inner = make_table(site, Path(table.location), "inner")
    insert_as_hive(site, inner, [7, 8, 9])
    site.metastore.embedded_catalog.drop_table(inner)  # while the catalog has it, both are refused as they are
    before = everything(table)
    outcome = compact(site)
    assert (outcome.result, "inner/delta_0000001_0000001_0000" in outcome.message) == (Result.FAILED, True)
    every_role(site)
    assert everything(table) == before


def test_a_name_that_is_another_tables_by_now(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.8."""
    target = site.target(entity_of(table))
    must_be_the_same_table(site, target)
    site.metastore.embedded_catalog.drop_table(table)
    shutil.rmtree(table.location)
    make_table(site, warehouse)
    with pytest.raises(Disagreement, match="another table or place has its name"):
        must_be_the_same_table(site, target)
