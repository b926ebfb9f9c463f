from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compactor.doctor.restored_database_check import check_memory
from compactor.site.finding import Level
from compactor.site.mark_files import MarkFiles
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site
from tests.support.backups import Backup
from tests.support.tables import with_settings


def test_each_state_of_the_memory(deployment: Site, tmp_path: Path) -> None:
    """PROTOCOL 11.2: doctor says so if nothing is remembered, and by how much a restored database is behind."""
    site = with_settings(deployment)
    (none,) = check_memory(replace(site, memory=None))
    assert (none.level, "a restore of an older one would go unnoticed" in none.found) == (Level.WARN, True)
    (observing,) = check_memory(with_settings(replace(site, memory=None), compactor_mode="observe"))
    assert observing.level is Level.OK
    (begins,) = check_memory(site)
    assert (begins.level, "has no marks yet" in begins.found) == (Level.OK, True)
    backup = Backup(tmp_path / "metastore.db")
    for _ in range(2):
        backup.take()
        (txn,) = site.metastore.transactions.open("ann", "h")
        site.metastore.transactions.commit(txn)
        must_be_newest(site)
        (well,) = check_memory(site)
        assert (well.level, "agrees with the database; its newest file is from 20" in well.found) == (Level.OK, True)
    backup.restore()
    (restored,) = check_memory(site)
    assert (restored.level, restored.subject) == (Level.FAIL, "restored metastore")
    assert "by 1 transaction (remembered 20" in restored.found
    assert "newest transaction: 1 in the database, 2 remembered" in restored.found
    assert site.memory is not None
    newest = max(Path(site.memory.place).iterdir())
    newest.write_text("{")
    (damaged,) = check_memory(
        replace(site, memory=MarkFiles(site.storage, f"{tmp_path}/metastore.db.memory", "default"))
    )
    assert (damaged.level, newest.name in damaged.found) == (Level.FAIL, True)
