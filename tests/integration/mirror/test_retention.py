"""Old snapshots of a mirror, and files that no snapshot names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.mirror import iceberg_commit
from compactor.mirror.catalogs import open_catalog
from compactor.mirror.mirrored_tables import find_mirror
from compactor.mirror.retention import expire_snapshots, named_files, remove_garbage
from tests.integration.mirror.conftest import numbered
from tests.support.mirrored import MirroredTable
from tests.support.tables import with_settings


def files_of(mirrored: MirroredTable) -> set[str]:
    location = Path(mirrored.iceberg.location().removeprefix("file://"))
    return {
        str(path.relative_to(location))
        for path in location.rglob("*")
        if path.is_file() and not path.name.endswith(".metadata.json")
    }


def test_old_snapshots_and_their_files_go(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    mirrored.table.overwrite(numbered(range(3)))
    mirrored.must_be_equal()
    assert len(mirrored.iceberg.metadata.snapshots) == 2
    tag = mirrored.iceberg.metadata.snapshots[0].snapshot_id
    mirrored.iceberg.manage_snapshots().create_tag(tag, "audit").commit()
    site = with_settings(mirrored.site, compactor_mirror_retention="0h")
    hasty = replace(mirrored, site=site)
    mirrored.table.append(numbered(range(3, 4)))
    hasty.must_be_equal()
    assert len(mirrored.iceberg.metadata.snapshots) == 2, "the head, and the one with a tag"
    assert files_of(mirrored) == named_files(mirrored.iceberg)
    mirrored.iceberg.manage_snapshots().remove_tag("audit").commit()
    mirrored.table.delete("id = 1")
    hasty.must_be_equal()
    assert len(mirrored.iceberg.metadata.snapshots) == 1
    assert files_of(mirrored) == named_files(mirrored.iceberg)
    assert mirrored.run().snapshot is None


def test_nothing_expires_while_another_commit_is_recorded(mirrored: MirroredTable) -> None:
    """A pass that has not recorded its commit yet needs the snapshots between."""
    site = with_settings(mirrored.site, compactor_mirror_retention="0h")
    mirrored.must_be_equal()
    slow = find_mirror(site, "d.t")
    mirrored.table.append(numbered(range(5, 6)))
    mirrored.must_be_equal()
    catalog = open_catalog(site, "lake")
    assert expire_snapshots(site, slow, catalog) == 0
    assert expire_snapshots(site, find_mirror(site, "d.t"), catalog) == 1


def test_nothing_that_a_pass_from_the_head_may_still_commit_is_garbage(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    catalog, mirror = open_catalog(mirrored.site, "lake"), find_mirror(mirrored.site, "d.t")
    head = mirrored.iceberg.metadata.current_snapshot()
    assert head is not None
    data = Path(mirrored.iceberg.location().removeprefix("file://")) / "data"
    (data / f"{head.snapshot_id}-0123456789abcdef-1.orc").write_text("under way")
    (data / "0-0123456789abcdef-1.orc").write_text("dead")
    (data / "somebody-elses.orc").write_text("not ours")
    assert remove_garbage(mirrored.site, mirror, catalog) == 1
    left = {path.name for path in data.iterdir() if path.stat().st_size < 20}
    assert left == {f"{head.snapshot_id}-0123456789abcdef-1.orc", "somebody-elses.orc"}
    assert mirrored.shown() == mirrored.expected()


def test_many_manifests_become_one_and_deletes_stay(mirrored: MirroredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries keep their sequence numbers, by which readers apply position deletes."""
    monkeypatch.setattr(iceberg_commit, "_MOST_MANIFESTS", 2)
    for turn in range(5):
        mirrored.table.append(numbered(range(10 * turn, 10 * turn + 3)))
        mirrored.table.delete(f"id = {10 * turn + 1}")
        mirrored.must_be_equal()
    head = mirrored.iceberg.metadata.current_snapshot()
    assert head is not None
    manifests = head.manifests(mirrored.iceberg.io)
    assert len(manifests) == 6, "two of each kind, and those of the last commit"
    assert sum(manifest.existing_files_count for manifest in manifests) == 8
