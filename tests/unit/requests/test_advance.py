"""The counters of a restored metastore, raised above the numbers that files have (PROTOCOL 11.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import Refused
from compactor.metastore.catalog.values import Table
from compactor.requests.advance import advance, measure_gap
from compactor.requests.resolve import Ruling
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.backups import Backup
from tests.support.passes import clean_all, compact
from tests.support.tables import insert, make_table, rows_of
from tests.support.watching import names_in

KEEP, QUARANTINE = Ruling.KEEP, Ruling.QUARANTINE


def test_advancing_keeps_the_names(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.4: the transaction counter is raised once for all tables, so a number in a name counts as committed."""
    insert(site, table, [4])
    backup.take()
    insert(site, table, [5])
    assert compact(site).result is Result.COMPACTED
    clean_all(site)
    rows, names = rows_of(site, table), names_in(Path(table.location))
    backup.restore()
    gap = measure_gap(site)
    assert gap.wanted > gap.newest
    with pytest.raises(Refused, match="without a ruling"):
        advance(site, {})
    done = advance(site, {(str(table), one.path): KEEP for one in gap.directories})
    assert done.newest >= gap.wanted
    assert (rows_of(site, table), names_in(Path(table.location))) == (rows, names)
    assert measure_gap(site).directories == []
    insert(site, table, [6])
    assert len(rows_of(site, table)) == len(rows) + 1


def test_advancing_sets_aside_before_a_number_counts(site: Site, table: Table, backup: Backup) -> None:
    backup.take()
    insert(site, table, [5])
    assert compact(site).result is Result.COMPACTED
    backup.restore()
    gap = measure_gap(site)
    assert len(gap.directories) == 2
    done = advance(site, {(str(table), one.path): QUARANTINE for one in gap.directories})
    assert {one.ruling for one in done.quarantined} == {QUARANTINE}
    assert sorted(row[-2] for row in rows_of(site, table)) == [1, 2, 3]


def test_a_table_that_cannot_be_listed_stops_everything(
    site: Site, table: Table, backup: Backup, warehouse: Path
) -> None:
    """PROTOCOL 11.4: what is in doubt there is unknown."""
    away = make_table(site, warehouse, "away")
    backup.take()
    insert(site, table, [5])
    backup.restore()
    Path(away.location).rmdir()
    gap = measure_gap(site)
    assert [one.partition(":")[0] for one in gap.unlisted] == ["default.away"]
    with pytest.raises(Refused, match="1 tables cannot be listed"):
        advance(site, {(str(table), one.path): KEEP for one in gap.directories})
    assert site.metastore.write_ids.next("default", "t") == 2
