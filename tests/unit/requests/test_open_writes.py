from __future__ import annotations

from pathlib import Path

from compactor.metastore.catalog.values import Table
from compactor.requests.open_writes import open_writes
from compactor.site.site import Site


def write(site: Site, table: Table, *, on_disk: bool = True) -> tuple[int, int]:
    (txn,) = site.metastore.transactions.open("ann", "h")
    write_id = site.metastore.write_ids.allocate(txn, table.database, table.name)
    if on_disk:
        made = Path(table.location) / f"delta_{write_id:07d}_{write_id:07d}_0000"
        made.mkdir()
        (made / "bucket_00000").write_bytes(b"rows")
    return txn, write_id


def test_only_what_is_on_disk_is_listed(site: Site, table: Table) -> None:
    first, second = write(site, table), write(site, table)
    write(site, table, on_disk=False)
    committed, _ = write(site, table)
    site.metastore.transactions.commit(committed)  # type: ignore[arg-type]
    assert [(one.txn, one.write_id) for one in open_writes(site)] == [first, second]


def test_a_place_that_is_away_is_told(site: Site, table: Table) -> None:
    txn, _ = write(site, table, on_disk=False)
    Path(table.location).rename(f"{table.location}.away")
    (found,) = open_writes(site)
    assert found.txn == txn
    assert "is not there" in found.found


def test_a_table_that_was_dropped_holds_nothing(site: Site, table: Table) -> None:
    write(site, table)
    site.metastore.embedded_catalog.drop_table(table)
    assert open_writes(site) == ()
