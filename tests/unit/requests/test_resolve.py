"""A person's rulings about directories in doubt (PROTOCOL 11.1, 11.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.acid.names import parse_directory
from compactor.base.errors import LockNotGranted, Refused
from compactor.compaction.disagreement import DoubtKind
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.in_doubt import InDoubt, in_doubt
from compactor.requests.resolve import Ruling, resolve
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.backups import Backup
from tests.support.partitioned import add_partition, insert_into, make_partitioned
from tests.support.passes import age, clean_all, compact, every_role
from tests.support.tables import entity_of, insert, rows_of
from tests.support.watching import names_in

KEEP, QUARANTINE = Ruling.KEEP, Ruling.QUARANTINE


def restored_before_two_inserts(site: Site, table: Table, backup: Backup) -> list[tuple[object, ...]]:
    """Restores the metastore as it was before two inserts; returns the rows that were read before."""
    backup.take()
    insert(site, table, [4])
    insert(site, table, [5])
    rows = rows_of(site, table)
    backup.restore()
    return rows


def all_of(found: list[InDoubt], ruling: Ruling) -> dict[str, Ruling]:
    return {one.path: ruling for one in found}


def test_kept_deltas_are_read_again_at_once(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.4: skipped write IDs have no transaction, so they count as committed."""
    rows = restored_before_two_inserts(site, table, backup)
    found = in_doubt(site, table)
    assert [one.name for one in found] == ["delta_0000002_0000002_0000", "delta_0000003_0000003_0000"]
    assert {one.kinds for one in found} == {frozenset({DoubtKind.WRITE_ID})}
    done = resolve(site, table, all_of(found, KEEP))
    assert (rows_of(site, table), in_doubt(site, table), done.next_write_id) == (rows, [], 5)
    insert(site, table, [6])
    assert compact(site).result is Result.COMPACTED
    clean_all(site)
    assert len(rows_of(site, table)) == len(rows) + 1


def test_a_quarantined_delta_is_seen_by_nobody_and_stays(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.4: its write ID is never given again."""
    restored_before_two_inserts(site, table, backup)
    first, second = in_doubt(site, table)
    resolve(site, table, {first.path: KEEP, second.path: QUARANTINE})
    assert sorted(row[-2] for row in rows_of(site, table)) == [1, 2, 3, 4]
    (aside,) = [path for path in Path(table.location).iterdir() if path.name.startswith(".compactor_in_doubt_")]
    assert aside.name.endswith(second.name)
    insert(site, table, [7])
    assert compact(site).result is Result.COMPACTED
    clean_all(site)
    assert sorted(row[-2] for row in rows_of(site, table)) == [1, 2, 3, 4, 7]
    assert list(aside.glob("bucket_*"))


def test_every_directory_needs_a_ruling(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.4: nothing changes before all of them have one."""
    restored_before_two_inserts(site, table, backup)
    before = names_in(Path(table.location))
    first, _ = in_doubt(site, table)
    with pytest.raises(Refused, match="delta_0000003_0000003_0000: in doubt and without a ruling; nothing was changed"):
        resolve(site, table, {first.path: QUARANTINE})
    assert names_in(Path(table.location)) == before
    assert site.metastore.write_ids.next(table.database, table.name) == 2


def test_what_cannot_be_read_is_not_kept(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.4: a kept directory must be complete and readable."""
    restored_before_two_inserts(site, table, backup)
    broken = Path(table.location) / "delta_0000003_0000003_0000"
    for file in broken.glob("bucket_*"):
        file.write_bytes(file.read_bytes()[:-7])
    found = in_doubt(site, table)
    assert [one.unreadable is None for one in found] == [True, False]
    with pytest.raises(Refused, match=r"delta_0000003_0000003_0000: cannot be kept, since readers cannot read it"):
        resolve(site, table, all_of(found, KEEP))
    assert len(in_doubt(site, table)) == 2


def test_a_table_in_use_is_not_touched(site: Site, table: Table, backup: Backup) -> None:
    restored_before_two_inserts(site, table, backup)
    (reader,) = site.metastore.transactions.open("reader", "h")
    lock = site.target(entity_of(table)).lock(LockType.SHARED_READ)
    assert site.metastore.locks.try_acquire(reader, [lock], "reader", "h") is not None
    before = names_in(Path(table.location))
    with pytest.raises(LockNotGranted, match="directories in doubt are renamed under an exclusive lock"):
        resolve(site, table, all_of(in_doubt(site, table), QUARANTINE))
    assert names_in(Path(table.location)) == before


@pytest.mark.parametrize("state", ["open", "aborted", "somebody's insert", "never opened"])
def test_the_only_copy_is_kept_under_a_number_of_this_metastore(
    site: Site, table: Table, backup: Backup, state: str
) -> None:
    """PROTOCOL 11.1: whatever the restored database calls its transaction, its rows are read again."""
    insert(site, table, [4])
    if state in ("open", "aborted"):

        class Taken(InProcessRunner):
            def run(self, jobs):  # type: ignore[no-untyped-def]
                backup.take()
                return super().run(jobs)

        done = compact(site, runner=Taken())
    else:
        backup.take()
        done = compact(site)
    clean_all(site)
    rows = rows_of(site, table)
    backup.restore()
    age(site)
    assert done.txn is not None
    if state == "aborted":
        site.metastore.transactions.abort(done.txn, "by Hive's housekeeper")
    while state == "somebody's insert" and site.metastore.transactions.newest() < done.txn:
        (txn,) = site.metastore.transactions.open("somebody", "h")
        site.metastore.transactions.commit(txn)
    (one,) = in_doubt(site, table)
    resolve(site, table, {one.path: KEEP})
    assert rows_of(site, table) == rows
    (name,) = names_in(Path(table.location))
    acid = parse_directory(name)
    assert acid is not None
    assert acid.visibility_txn_id != done.txn
    assert site.metastore.transactions.rows({acid.visibility_txn_id})[acid.visibility_txn_id].type is TxnType.COMPACTION
    insert(site, table, [5])
    every_role(site)
    assert site.metastore.entries.queue() == []
    assert len(rows_of(site, table)) == len(rows) + 1


def test_halves_of_one_compaction_go_together(site: Site, table: Table) -> None:
    for name in ("delta_0000001_0000001_v0000090", "delete_delta_0000001_0000001_v0000090"):
        (Path(table.location) / name).mkdir()
    one, other = in_doubt(site, table)
    with pytest.raises(Refused, match="are the halves of one compaction"):
        resolve(site, table, {one.path: KEEP, other.path: QUARANTINE})


def test_one_of_two_deltas_of_one_range_is_kept(site: Site, table: Table) -> None:
    """PROTOCOL 6: Trino shows the rows of both."""
    for number in (90, 91):
        made = Path(table.location) / f"delta_0000001_0000003_v{number:07d}"
        made.mkdir()
        copied = next((Path(table.location) / "delta_0000001_0000001_0000").glob("bucket_*"))
        (made / copied.name).write_bytes(copied.read_bytes())
    one, other = in_doubt(site, table)
    with pytest.raises(Refused, match="holds the same write IDs as delta_0000001_0000003_v0000091 next to it"):
        resolve(site, table, {one.path: KEEP, other.path: KEEP})
    assert {one.name, other.name} <= names_in(Path(table.location))
    done = resolve(site, table, {one.path: KEEP, other.path: QUARANTINE})
    assert {found.ruling for found in done.directories} == {KEEP, QUARANTINE}


def test_a_directory_may_get_the_number_that_it_has(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.4: the one that the restored metastore gives next."""
    insert(site, table, [4])
    backup.take()
    newest = site.metastore.transactions.newest()
    while site.metastore.transactions.newest() < newest + 1:  # as many as the exclusive lock takes
        site.metastore.transactions.commit(site.metastore.transactions.open("ann", "h")[0])
    compact(site)
    clean_all(site)
    rows, names = rows_of(site, table), names_in(Path(table.location))
    backup.restore()
    resolve(site, table, all_of(in_doubt(site, table), KEEP))
    assert names_in(Path(table.location)) == names == {f"base_0000002_v{newest + 2:07d}"}
    assert rows_of(site, table) == rows


def test_what_is_kept_gives_no_number_to_what_is_quarantined(site: Site, warehouse: Path) -> None:
    """PROTOCOL 11.4: in another partition, the rows would count from then on."""
    table = make_partitioned(site, warehouse)
    for value in (1, 2):
        add_partition(site, table, value)
        insert_into(site, table, value, [value])
    newest = site.metastore.transactions.newest()
    kept, aside = Path(table.location) / "p=1", Path(table.location) / "p=2"
    (kept / "delta_0000001_0000001_0000").rename(kept / f"delta_0000001_0000001_v{newest + 9:07d}")
    (aside / "delta_0000002_0000002_0000").rename(aside / f"delta_0000002_0000002_v{newest + 2:07d}")
    found = in_doubt(site, table)
    done = resolve(site, table, {one.path: KEEP if one.path.startswith("p=1") else QUARANTINE for one in found})
    assert sorted((one.doubt.path[:3], one.ruling) for one in done.directories) == [("p=1", KEEP), ("p=2", QUARANTINE)]
    assert names_in(aside) == {Path(one.name).name for one in done.directories if one.ruling is QUARANTINE}
