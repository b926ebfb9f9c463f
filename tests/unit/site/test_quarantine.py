"""Directories that a cleaner keeps instead of removing them, and those that the housekeeper erases (PROTOCOL 11.15)."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.acid.directory import acid_directory
from compactor.acid.names import CLAIM_PREFIX
from compactor.base.errors import StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import Cleaned, clean
from compactor.compaction.quarantine_rules import Quarantined, Record
from compactor.compaction.queue_entry import Request
from compactor.compaction.states import CompactionType, State
from compactor.housekeeper.housekeeper import keep_house
from compactor.metastore.catalog.locations import Locations, PartitionGround, TableGround
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE
from compactor.requests.request import request_compaction
from compactor.rewrite.publish.stage import token
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.other_metastores import OtherMetastores
from compactor.site.quarantine import erase_due, keep_manifest
from compactor.site.site import Site
from compactor.state.state_tables import QUARANTINES
from compactor.storage.capabilities import LOCAL, Capabilities
from compactor.storage.local import LocalStorage
from tests.support.kept_tables import KeptTables
from tests.support.passes import clean_all, compact, lose_cleaners, settle, with_storage
from tests.support.patience import until
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in

HERE = ".compactor_quarantine_1"
DELTAS = {f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3)}


def keeping(site: Site, **values: str) -> Site:
    given = {"compactor_quarantine": "7d", "hive_txn_opentxn_timeout": "1ms"}
    return with_settings(site, **(given | values))


@pytest.fixture
def site(deployment: Site) -> Site:
    return keeping(deployment)


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    return kept_tables.get(site, warehouse, make_deltas)


def make_deltas(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in (1, 2, 3):
        insert(site, table, [value])
    return table


def record_of(table: Table, entry_id: int = 1) -> Record:
    path = Path(table.location) / f".compactor_quarantine_{entry_id}" / "_record.json"
    return Record.parse(path.read_bytes(), str(path))


def listed(site: Site) -> list[Quarantined]:
    assert site.state is not None
    return site.state.quarantines.all(site.name)


def cleaned(site: Site) -> Cleaned:
    found: list[Cleaned] = []

    def is_cleaned() -> bool:
        found.extend(clean(site).cleaned)
        return bool(found)

    until("something is cleaned", is_cleaned)
    return found[0]


def test_what_a_compaction_replaced_is_kept_with_its_record(site: Site, table: Table) -> None:
    wanted = rows_of(site, table)
    before = {f.path: f.length for f in site.storage.listing(table.location).files}
    (output,) = compact(site).output
    done = cleaned(site)
    assert (set(done.quarantined), done.removed, done.bytes_freed) == (DELTAS, (), 0)
    assert names_in(Path(table.location)) == {output, HERE}
    assert rows_of(site, table) == wanted
    record = record_of(table)
    stays = {f.path: f.length for f in site.storage.listing(table.location).files}
    assert (record.names, record.kept, record.stays) == (tuple(sorted(DELTAS)), before, stays)
    assert (record.inputs, record.outputs) == (before, (output,))
    assert (record.table_id, record.partition_id, record.columns) == (table.id, None, table.row_type)
    assert record.until - record.since == 7 * 86_400_000
    (one,) = listed(site)
    assert (one.entity, one.location, one.names) == (entity_of(table), table.location, record.names)
    assert (one.since, one.until, one.bytes) == (record.since, record.until, sum(before.values()))
    assert site.metastore.entries.history()[0].state is State.SUCCEEDED


def test_the_pass_says_what_it_kept(site: Site, table: Table) -> None:
    compact(site)
    settle()
    (said,) = clean(site).to_json()["cleaned"]  # type: ignore[misc]
    assert (said["quarantined"], said["removed"]) == (sorted(DELTAS), [])


def test_without_the_setting_nothing_is_kept(deployment: Site, table: Table) -> None:
    site = keeping(deployment, compactor_quarantine="0s")
    compact(site)
    clean_all(site)
    assert len(names_in(Path(table.location))) == 1
    assert listed(site) == []


@pytest.mark.parametrize(("of_site", "of_table", "days"), [("7d", "0s", 0), ("0s", "2d", 2), ("7d", "30d", 30)])
def test_a_table_lengthens_or_shortens_it(
    deployment: Site, table: Table, of_site: str, of_table: str, days: int
) -> None:
    site = keeping(deployment, compactor_quarantine=of_site)
    site.metastore.embedded_catalog.set_table_parameter(table, "compactor.quarantine", of_table)
    compact(site)
    clean_all(site)
    assert [(q.until - q.since) // 86_400_000 for q in listed(site)] == ([days] if days else [])


def test_what_holds_an_aborted_write_id_is_removed(site: Site, table: Table) -> None:
    """PROTOCOL 11.15: wholly aborted ones as before, and a streaming delta with one aborted batch too."""
    insert(site, table, [9], commits=False)
    insert(site, table, [5])
    place = Path(table.location)
    (place / "delta_0000005_0000005_0000").rename(place / "delta_0000004_0000005")
    wanted = rows_of(site, table)
    compact(site)
    done = cleaned(site)
    assert set(done.quarantined) == DELTAS
    assert done.removed == ("delta_0000004_0000004_0000", "delta_0000004_0000005")
    assert "aborted" in record_of(table).removed["delta_0000004_0000005"]
    assert rows_of(site, table) == wanted


def test_nothing_is_kept_for_a_rebalance_nor_from_before_one(site: Site, table: Table) -> None:
    """PROTOCOL 11.15: others may have deleted by the ROW__IDs that it gave."""
    compact(site, "rebalance")
    done = cleaned(site)
    assert (done.quarantined, set(done.removed)) == ((), DELTAS)
    (rebalanced,) = names_in(Path(table.location))
    insert(site, table, [4])
    compact(site)
    assert set(cleaned(site).quarantined) == {rebalanced, "delta_0000005_0000005_0000"}


def test_what_is_from_before_a_rebalance_is_removed_with_a_later_entry(site: Site, table: Table) -> None:
    shutil.copytree(table.location, copy := Path(table.location).parent / "copy")
    compact(site, "rebalance")
    cleaned(site)
    insert(site, table, [4])
    compact(site)
    for name in DELTAS:  # as if the cleaner had not come to it
        shutil.move(copy / name, Path(table.location) / name)
    done = cleaned(site)
    assert set(done.removed) == DELTAS
    assert all("rebalance with write ID 4" in record_of(table, 2).removed[name] for name in DELTAS)


class WithoutRename(LocalStorage):
    def capabilities(self, path: str) -> Capabilities:
        return replace(LOCAL, store="S3", renames=False)


def test_a_store_that_cannot_keep_is_refused_by_name_and_nothing_is_removed(site: Site, table: Table) -> None:
    """PROTOCOL 11.15: never silently erased."""
    there = with_storage(site, WithoutRename())
    compact(there)
    settle()
    before = names_in(Path(table.location))
    (failed,) = clean(there).failed
    assert "compactor.quarantine is 7d (from flag) and S3 cannot keep directories" in failed.because
    assert "Set the table's property compactor.quarantine to 0s" in failed.because
    assert names_in(Path(table.location)) == before
    site.metastore.embedded_catalog.set_table_parameter(table, "compactor.quarantine", "0s")
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_RETRY_RETENTION=0))
    lose_cleaners(there)
    clean_all(there)
    assert names_in(Path(table.location)) < before


def test_without_a_state_to_list_it_in_nothing_is_moved(site: Site, table: Table) -> None:
    compact(site)
    settle()
    before = names_in(Path(table.location))
    (failed,) = clean(replace(site, state=None)).failed
    assert "quarantine is listed in our own state and none is configured" in failed.because
    assert names_in(Path(table.location)) >= DELTAS
    assert names_in(Path(table.location)) == before


def test_a_quarantine_of_another_compaction_with_the_same_number_is_left_alone(site: Site, table: Table) -> None:
    """A restored metastore gives an entry's number again."""
    place = Path(table.location)
    compact(site)
    clean_all(site)
    record = json.loads((place / HERE / "_record.json").read_text())
    for value in (4, 5):
        insert(site, table, [value])
    compact(site)
    second = place / ".compactor_quarantine_2"
    (second / "_record.json").write_text(json.dumps(record | {"entry_id": 2}))
    settle()
    (failed,) = clean(site).failed
    assert "the metastore was probably restored from a backup" in failed.because
    assert failed.because.endswith("move that directory out of the table; the next pass continues")  # it is not erased
    assert "delta_0000004_0000004_0000" in names_in(place)


def test_a_record_that_is_none_is_written_again(site: Site, table: Table) -> None:
    compact(site)
    (Path(table.location) / HERE / "_record.json").write_text("{")
    clean_all(site)
    assert set(record_of(table).names) == DELTAS


def test_a_second_pass_completes_what_the_first_began(site: Site, table: Table) -> None:
    """A pass that died in the middle, and then another one under another setting of the time."""
    compact(site)
    place = Path(table.location)
    (place / HERE).mkdir(exist_ok=True)
    (place / "delta_0000001_0000001_0000").rename(place / HERE / "delta_0000001_0000001_0000")
    clean_all(site)
    assert set(record_of(table).names) == DELTAS
    assert set(listed(site)[0].names) == DELTAS


def test_original_files_are_kept_by_their_paths(site: Site, table: Table) -> None:
    place = Path(table.location)
    compact(site)
    (place / "sub").mkdir()
    shutil.copy(next(place.glob("base_*/bucket_*")), place / "sub" / "000000_0")
    clean_all(site)
    assert (place / HERE / "sub" / "000000_0").is_file()
    assert "sub/000000_0" in record_of(table).names
    assert record_of(table).inputs is not None
    assert "sub/000000_0" not in (record_of(table).inputs or {})


def test_what_hive_compacted_is_kept_without_a_manifest(site: Site, table: Table) -> None:
    """It is not known what Hive's worker read."""
    compact(site)
    (Path(table.location) / HERE / "_manifest.json").unlink()
    clean_all(site)
    assert (record_of(table).inputs, record_of(table).outputs, len(record_of(table).names)) == (None, (), 3)


def test_a_manifest_that_cannot_be_kept_is_no_failure(
    site: Site, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 11.14: the compaction has committed."""
    with caplog.at_level(logging.WARNING):
        assert compact(replace(site, state=None)).output
    assert "can be compacted and cleaned, but not undone" in caplog.text
    assert HERE not in names_in(Path(table.location))


def test_the_manifest_of_a_worker_that_died_at_its_commit_is_kept_too(site: Site, table: Table) -> None:
    compact(site)
    place, txn = Path(table.location), site.metastore.entries.queue()[0].txn_id
    staging = place / f".compactor_v{txn}_{token()}"
    staging.mkdir()
    (place / HERE / "_manifest.json").rename(staging / "manifest.json")
    clean_all(site)
    assert record_of(table).inputs == record_of(table).kept
    assert {name[:5] for name in names_in(place)} == {"base_", ".comp"}


def test_a_worker_that_slept_until_its_entry_was_cleaned_lists_nothing_anew(site: Site, table: Table) -> None:
    done = compact(site)
    clean_all(site)
    before = listed(site)
    keep_manifest(site, site.target(entity_of(table)), done.entry, f"{table.location}/.compactor_v4_1a/manifest.json")
    assert listed(site) == before
    shutil.rmtree(Path(table.location) / HERE)
    keep_manifest(site, site.target(entity_of(table)), done.entry, f"{table.location}/.compactor_v4_1a/manifest.json")
    assert HERE not in names_in(Path(table.location))


def test_a_request_may_set_it(deployment: Site, table: Table) -> None:
    site = keeping(deployment, compactor_quarantine="0s")
    request_compaction(site, table="default.t", properties={"compactor.quarantine": "3d"})
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    assert [(q.until - q.since) // 86_400_000 for q in listed(site)] == [3]
    assert record_of(table).inputs == record_of(table).kept


def test_readers_take_nothing_in_it_for_data(site: Site, table: Table) -> None:
    compact(site)
    clean_all(site)
    (Path(table.location) / HERE / "000000_0").write_bytes(b"1")
    txns = site.metastore.transactions.snapshot()
    listing = site.storage.listing(table.location)
    found = acid_directory(listing, site.write_ids(table, txns), txns)
    assert (found.originals, found.obsolete, found.unparsable, found.deltas) == ((), (), (), ())


def test_what_lies_there_counts_when_a_transaction_is_forgotten(site: Site, table: Table) -> None:
    """PROTOCOL 8: as if it had its final name."""
    insert(site, table, [9], commits=False)
    place = Path(table.location)
    (place / HERE).mkdir()
    (place / "delta_0000004_0000004_0000").rename(place / HERE / "delta_0000004_0000004_0000")
    keen = keeping(site, compactor_forget_grace="0s", hive_txn_timeout="1ms", hive_compactor_abortedtxn_threshold="0")
    settle()
    clean(keen)
    assert site.metastore.components.aborted_writes(entity_of(table)) != []
    shutil.rmtree(place / HERE)
    clean(keen)
    assert site.metastore.components.aborted_writes(entity_of(table)) == []


# --- what the housekeeper erases ------------------------------------------------------------------------------------


def over(site: Site) -> None:
    """Lets the time pass for which everything is kept."""
    assert site.state is not None
    with site.state.database.write() as conn:
        conn.execute(update(QUARANTINES).values(UNTIL=1))


@pytest.fixture
def kept(site: Site, table: Table) -> Table:
    compact(site)
    clean_all(site)
    return table


def test_what_is_due_is_erased(site: Site, kept: Table) -> None:
    wanted = rows_of(site, kept)
    assert keep_house(site).quarantines_erased == 0
    assert HERE in names_in(Path(kept.location))
    over(site)
    assert keep_house(site).quarantines_erased == 1
    assert [name[:5] for name in names_in(Path(kept.location))] == ["base_"]
    assert (listed(site), rows_of(site, kept)) == ([], wanted)


def test_beyond_the_sites_bytes_the_oldest_goes(site: Site, kept: Table) -> None:
    for value in (4, 5):
        insert(site, kept, [value])
        compact(site)
        clean_all(site)
    sizes = [q.bytes for q in listed(site)]
    limit = sum(sizes) - 1
    assert [q.entry_id for q in erase_due(keeping(site, compactor_quarantine_bytes=str(limit)))] == [1]
    assert [q.entry_id for q in listed(site)] == [2, 3]


def test_what_waits_for_its_cleaning_is_not_erased(site: Site, table: Table) -> None:
    """The manifest is there from the commit on, the rest comes with the cleaning."""
    compact(site)
    over(site)
    assert erase_due(site) == ()
    assert (Path(table.location) / HERE / "_manifest.json").is_file()


@pytest.mark.parametrize("mode", ["observe", "request", "compact"])
def test_below_clean_nothing_is_erased(site: Site, kept: Table, mode: str) -> None:
    over(site)
    assert erase_due(keeping(site, compactor_mode=mode)) == ()
    assert HERE in names_in(Path(kept.location))


def test_where_no_cleanup_is_set_nothing_is_erased(site: Site, kept: Table) -> None:
    over(site)
    site.metastore.embedded_catalog.set_table_parameter(kept, "no_cleanup", "true")
    assert erase_due(site) == ()
    assert HERE in names_in(Path(kept.location))


def test_a_dropped_table_leaves_nothing_behind(site: Site, kept: Table) -> None:
    """Hive removes the directory with the table; of an external one nobody else would."""
    site.metastore.embedded_catalog.drop_table(kept)
    over(site)
    assert [q.entry_id for q in erase_due(site)] == [1]
    assert HERE not in names_in(Path(kept.location))


@pytest.mark.parametrize("place", ["", ".."], ids=["there", "around"])
def test_where_a_table_was_dropped_nothing_of_another_metastore_is_erased(site: Site, kept: Table, place: str) -> None:
    """PROTOCOL 11.13: entries of both metastores count from 1."""
    site.metastore.embedded_catalog.drop_table(kept)
    (Path(kept.location) / place / f"{CLAIM_PREFIX}{'f' * 32}_7").write_bytes(b"")
    over(site)
    assert erase_due(site) == ()
    assert HERE in names_in(Path(kept.location))


class OneTable(OtherMetastores):
    """Another metastore of the configuration, with one table."""

    def __init__(self, location: Path) -> None:
        super().__init__()
        self._location = str(location)

    def locations(self) -> list[tuple[str, Locations]]:
        return [("b", self)]  # type: ignore[list-item]

    def tables(self) -> list[TableGround]:
        return [TableGround(id=1, name="default.u", location=self._location, is_transactional=False)]

    def partitions_elsewhere(self, near: Collection[str]) -> Iterator[PartitionGround]:
        return iter(())


@pytest.mark.parametrize("place", ["", "..", "x"], ids=["there", "around", "inside"])
@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped", "moved"])
def test_where_a_table_was_nothing_is_erased_beside_a_table_of_another_metastore(
    site: Site, kept: Table, warehouse: Path, place: str, is_dropped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 11.13: of one configuration."""
    if is_dropped:
        site.metastore.embedded_catalog.drop_table(kept)
    else:
        site.metastore.embedded_catalog.rename_table(kept, "v", location=str(warehouse / "elsewhere" / "v"))
    over(site)
    assert erase_due(replace(site, others=OneTable(Path(kept.location) / place))) == ()
    assert "default.u of metastore b lies" in caplog.text
    assert HERE in names_in(Path(kept.location))


def test_a_table_that_was_dropped_with_its_directory_is_no_longer_listed(site: Site, kept: Table) -> None:
    site.metastore.embedded_catalog.drop_table(kept)
    shutil.rmtree(kept.location)
    over(site)
    assert [q.entry_id for q in erase_due(site)] == [1]
    assert listed(site) == []


def test_a_renamed_table_is_found(site: Site, kept: Table, warehouse: Path) -> None:
    os.rename(kept.location, warehouse / "u")
    site.metastore.embedded_catalog.rename_table(kept, "u", location=str(warehouse / "u"))
    over(site)
    assert [q.entry_id for q in erase_due(site)] == [1]
    assert HERE not in names_in(warehouse / "u")


def test_a_file_system_that_is_away_keeps_it_listed(site: Site, kept: Table) -> None:
    """An empty directory may be a mount point."""
    os.rename(kept.location, away := Path(kept.location).parent / "away")
    Path(kept.location).mkdir()
    over(site)
    assert (erase_due(site), len(listed(site))) == ((), 1)
    os.rmdir(kept.location)
    assert (erase_due(site), len(listed(site))) == ((), 1)
    os.rename(away, kept.location)
    assert len(erase_due(site)) == 1
    assert HERE not in names_in(Path(kept.location))


def test_an_erasure_that_fails_is_tried_again(site: Site, kept: Table, caplog: pytest.LogCaptureFixture) -> None:
    over(site)

    class Broken(LocalStorage):
        def remove(self, path: str, *, durable: bool = True) -> None:
            if path.endswith("_erased") and os.path.exists(path):
                os.unlink(f"{path}/_record.json")
                raise StorageError(f"cannot remove {path}: Input/output error")
            super().remove(path, durable=durable)

    assert erase_due(with_storage(site, Broken())) == ()
    assert "the quarantine of compaction 1 stays" in caplog.text
    assert f"{HERE}_erased" in names_in(Path(kept.location))
    assert len(erase_due(site)) == 1
    assert [name[:5] for name in names_in(Path(kept.location))] == ["base_"]


def test_clean_only_entries_keep_too_and_are_of_no_compaction(site: Site, kept: Table) -> None:
    """An entry without work: what an earlier one left is kept under its own number."""
    place = Path(kept.location)
    shutil.copytree(place / HERE / "delta_0000001_0000001_0000", place / "delta_0000001_0000001_0000")
    asked = Request(entity=entity_of(kept), type=CompactionType.MAJOR, initiator="compactor-x")
    site.metastore.requests.request(asked)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    record = record_of(kept, 2)
    assert (record.names, record.outputs) == (("delta_0000001_0000001_0000",), ())


def test_a_delete_delta_is_kept_like_every_other(site: Site, table: Table) -> None:
    delete(site, table, [2])
    wanted = rows_of(site, table)
    compact(site)
    assert "delete_delta_0000004_0000004_0000" in cleaned(site).quarantined
    assert rows_of(site, table) == wanted
