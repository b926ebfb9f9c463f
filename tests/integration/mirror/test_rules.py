"""The rules of mirrors: a directory and a head of their own, one metastore, no lock across passes (PROTOCOL 15)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from sqlalchemy import select

from compactor.base import steps
from compactor.base.errors import MirrorOvertaken, MirrorStopped, NotFound, NotSupported, Refused
from compactor.base.steps import AnyStep, MirrorStep
from compactor.initiator.initiator import initiate
from compactor.metastore.schema.tables import HIVE_LOCKS, TXNS
from compactor.mirror import mirrored_tables
from compactor.mirror.catalogs import open_catalog
from compactor.mirror.mirror_pass import PassResult
from compactor.mirror.mirrored_tables import (
    NewMirror,
    add_mirror,
    find_mirror,
    rebuild_mirror,
    record_commit,
    remove_mirror,
    run_mirror,
    run_mirrors,
    show_mirrors,
)
from compactor.site.site import Site
from compactor.tables.store import Store
from tests.integration.mirror.conftest import COLUMNS, numbered
from tests.support.backups import Backup
from tests.support.insert_only import make_insert_only
from tests.support.mirrored import MirroredTable, execute, with_catalog


@pytest.mark.parametrize("place", ["warehouse/t", "warehouse/t/mirror", "", "warehouse", "elsewhere/one", "elsewhere"])
def test_a_mirror_overlaps_no_table(store: Store, tmp_path: Path, place: str) -> None:
    """At, in and around a table's directory, and that of a partition that lies elsewhere."""
    catalog = store.site.metastore.embedded_catalog
    catalog.create_database("e", str(tmp_path / "e/warehouse"))
    store.create_table("e.t", {"id": "int", "day": "int"}, partitioned_by=["day"])
    catalog.add_partition(store.site.metastore.catalog.table("e", "t"), ["1"], str(tmp_path / "e/elsewhere/one"))
    site = with_catalog(store.site, tmp_path / "lake")
    location = f"file://{tmp_path}/e/{place}".rstrip("/")
    with pytest.raises(Refused, match=r"overlaps .*, the directory of e\.t"):
        add_mirror(site, NewMirror(table="e.t", catalog="lake", location=location))
    assert not open_catalog(site, "lake").table_exists("e.t")
    with pytest.raises(NotFound):
        find_mirror(site, "e.t")


def test_a_mirror_begins_in_an_empty_directory(mirrored: MirroredTable, tmp_path: Path) -> None:
    Store(mirrored.site).create_table("d.u", COLUMNS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("x")
    new = NewMirror(table="d.u", catalog="lake", location=f"file://{tmp_path}/full")
    with pytest.raises(Refused, match=r"is not empty \(it has precious\)"):
        add_mirror(mirrored.site, new)


def test_no_table_is_taken_over(mirrored: MirroredTable, tmp_path: Path) -> None:
    Store(mirrored.site).create_table("d.u", COLUMNS)
    open_catalog(mirrored.site, "lake").create_table("d.u", Schema())
    with pytest.raises(Refused, match=r"d\.u exists in catalog lake"):
        add_mirror(mirrored.site, NewMirror(table="d.u", catalog="lake"))
    with pytest.raises(Refused, match=r"d\.t: has a mirror already: d\.t in catalog lake"):
        add_mirror(mirrored.site, NewMirror(table="d.t", catalog="lake", identifier="d.other"))


@pytest.mark.parametrize("place", ["", "/data/u", "/.."])
def test_a_mirror_overlaps_no_other_mirror(mirrored: MirroredTable, place: str) -> None:
    Store(mirrored.site).create_table("d.u", COLUMNS)
    location = f"{mirrored.iceberg.location()}{place}"
    with pytest.raises(Refused, match=r"overlaps .*, the directory of the mirror of d\.t"):
        add_mirror(mirrored.site, NewMirror(table="d.u", catalog="lake", location=location))


def test_tables_of_other_kinds_are_refused(store: Store, tmp_path: Path) -> None:
    make_insert_only(store.site, tmp_path, name="i")
    site = with_catalog(store.site, tmp_path / "lake")
    with pytest.raises(NotSupported, match=r"default\.i: only full ACID tables"):
        add_mirror(site, NewMirror(table="default.i", catalog="lake"))


def location_of(site: Site) -> str:
    return site.metastore.catalog.table("d", "t").location


def must_stop(mirrored: MirroredTable, why: str) -> None:
    """A pass stops by name, and writes nothing."""
    before = content(mirrored)
    with pytest.raises(MirrorStopped, match=why):
        mirrored.run()
    assert content(mirrored) == before
    (lag,) = show_mirrors(mirrored.site)
    assert lag.mirror.error is not None


def content(mirrored: MirroredTable) -> list[str]:
    location = Path(mirrored.iceberg.location().removeprefix("file://"))
    return sorted(str(path) for path in location.rglob("*"))


def test_another_programs_commit_stops_the_mirror(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(5, 8)))
    mirrored.iceberg.transaction().update_snapshot().fast_append().commit()
    with mirrored.iceberg.transaction() as txn:
        txn.update_snapshot().fast_append().commit()
    must_stop(mirrored, r"newest snapshot \d+ is another program's.*mirror rebuild d\.t")


def test_a_head_that_was_put_back_stops_the_mirror(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    first = mirrored.iceberg.metadata.current_snapshot()
    assert first is not None
    mirrored.table.append(numbered(range(5, 8)))
    mirrored.must_be_equal()
    mirrored.iceberg.manage_snapshots().set_current_snapshot(first.snapshot_id).commit()
    must_stop(mirrored, r"does not come after our last commit \d+")


def test_other_partitions_stop_the_mirror(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    with mirrored.iceberg.update_spec() as change:
        change.add_field("id", BucketTransform(4), "part")
    mirrored.table.append(numbered(range(5, 8)))
    must_stop(mirrored, "the partitions are now .*bucket")


def test_a_table_that_was_renamed_in_hive_stops_the_mirror(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    execute(mirrored.site, "ALTER TABLE d.t RENAME TO d.u")
    must_stop(mirrored, r"renamed or dropped.*mirror remove d\.t")
    execute(mirrored.site, "ALTER TABLE d.u RENAME TO d.t")
    mirrored.must_be_equal()


def test_a_mirror_that_waited_for_others_is_read_again(mirrored: MirroredTable) -> None:
    """Other passes may have committed since, and old snapshots may be gone."""
    mirrored.must_be_equal()
    old = find_mirror(mirrored.site, "d.t")
    for number in (5, 6):
        mirrored.table.append(numbered(range(number, number + 1)))
        mirrored.run()
    metadata = mirrored.iceberg.metadata
    with mirrored.iceberg.maintenance.expire_snapshots() as expiry:
        expiry.by_ids(
            [item.snapshot_id for item in metadata.snapshots if item.snapshot_id != metadata.current_snapshot_id]
        )
    assert run_mirror(mirrored.site, old, lambda name: open_catalog(mirrored.site, name)).error is None


def test_a_slow_pass_records_no_older_commit(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    slow = find_mirror(mirrored.site, "d.t")
    mirrored.table.append(numbered(range(5, 8)))
    newest = mirrored.run()
    assert record_commit(mirrored.site, slow, PassResult(snapshot=1)) == slow
    assert find_mirror(mirrored.site, "d.t").last_snapshot == newest.snapshot


def test_a_table_that_was_created_again_in_the_catalog_stops_the_mirror(
    mirrored: MirroredTable, tmp_path: Path
) -> None:
    mirrored.must_be_equal()
    catalog, schema = open_catalog(mirrored.site, "lake"), mirrored.iceberg.schema()
    catalog.drop_table("d.t")
    catalog.create_table("d.t", schema, location=f"file://{tmp_path}/other")
    must_stop(mirrored, "is not the one that `mirror add` created")
    with pytest.raises(Refused, match=r"is not the table that the mirror of d\.t created"):
        remove_mirror(mirrored.site, "d.t", purge=True)


def test_a_table_that_was_created_again_in_hive_stops_the_mirror(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    store = Store(mirrored.site)
    store.drop_table("d.t", purge=True)
    store.create_table("d.t", COLUMNS).append(numbered(range(3)))
    must_stop(mirrored, "it was dropped and re-created")


@pytest.mark.parametrize("remembers", [True, False])
def test_an_older_copy_of_the_metastore_stops_the_mirror(mirrored: MirroredTable, remembers: bool) -> None:
    site = mirrored.site if remembers else replace(mirrored.site, memory=None)
    old = MirroredTable(site=site, name="d.t")
    backup = Backup(Path(site.metastore.database.path))
    old.must_be_equal()
    initiate(mirrored.site)  # writes a token
    backup.take()
    mirrored.table.append(numbered(range(5, 8)))
    initiate(mirrored.site)
    mirrored.must_be_equal()
    backup.restore()
    if not remembers:  # only the mirror knows of the rows
        shutil.rmtree(max(Path(path) for path in Path(location_of(site)).glob("delta_*")))
    with pytest.raises(MirrorStopped, match="the metastore is an older copy than the mirror has seen"):
        old.run()


def test_of_two_mirrors_at_once_one_commits_and_the_other_stops(
    mirrored: MirroredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(5, 8)))
    others: list[object] = []

    def interfere(step: AnyStep) -> None:
        if step is MirrorStep.MIRROR_COMMITTING and not others:
            others.append(None)
            others.append(mirrored.run())

    monkeypatch.setattr(steps, "watchers", [interfere])
    with pytest.raises(MirrorOvertaken, match="another program committed to the mirror's table at the same time"):
        mirrored.run()
    assert mirrored.shown() == mirrored.expected()
    mirrored.table.append(numbered(range(8, 9)))
    mirrored.must_be_equal()


def test_a_pass_leaves_no_transaction_and_no_lock(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    with mirrored.site.metastore.database.read() as conn:
        assert conn.execute(select(HIVE_LOCKS.c.HL_LOCK_EXT_ID)).all() == []
        assert conn.execute(select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "o")).all() == []


def test_a_removed_mirror_leaves_its_table_unless_purged(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    location = Path(mirrored.iceberg.location().removeprefix("file://"))
    remove_mirror(mirrored.site, "d.t")
    assert mirrored.shown() == mirrored.expected()
    assert list(run_mirrors(mirrored.site)) == []
    open_catalog(mirrored.site, "lake").drop_table("d.t")
    add_mirror(mirrored.site, NewMirror(table="d.t", catalog="lake", location=f"{location}-2"))
    mirrored.must_be_equal()
    remove_mirror(mirrored.site, "d.t", purge=True)
    assert not list(Path(f"{location}-2").rglob("*.orc"))
    assert not open_catalog(mirrored.site, "lake").table_exists("d.t")


REMOVALS = pytest.mark.parametrize(
    "remove", [rebuild_mirror, partial(remove_mirror, purge=True)], ids=["rebuild", "purge"]
)


@REMOVALS
def test_files_of_other_programs_are_never_removed(mirrored: MirroredTable, remove: Callable[..., object]) -> None:
    mirrored.must_be_equal()
    with mirrored.iceberg.transaction() as txn:
        txn.set_properties({"write.format.default": "parquet"})
        txn.append(numbered(range(90, 92)))
    before = content(mirrored)
    with pytest.raises(Refused, match=r"are not the mirror's, such as data/.*\.parquet.*nothing was removed"):
        remove(mirrored.site, "d.t")
    assert content(mirrored) == before
    assert len(mirrored.shown()) == 7


@REMOVALS
def test_a_mirror_that_was_renamed_in_its_catalog_keeps_its_files(
    mirrored: MirroredTable, remove: Callable[..., object]
) -> None:
    mirrored.must_be_equal()
    catalog = open_catalog(mirrored.site, "lake")
    catalog.rename_table("d.t", "d.kept")
    with pytest.raises(Refused, match=r"was renamed or dropped by another program.*without --purge forgets"):
        remove(mirrored.site, "d.t")
    assert catalog.load_table("d.kept").scan().to_arrow().num_rows == 5
    remove_mirror(mirrored.site, "d.t")


@REMOVALS
def test_a_removal_that_died_is_repeated(
    mirrored: MirroredTable, remove: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored.must_be_equal()
    with monkeypatch.context() as patch:
        patch.setattr(type(mirrored.site.storage), "remove", _die)
        with pytest.raises(ZeroDivisionError):
            remove(mirrored.site, "d.t")
    assert not open_catalog(mirrored.site, "lake").table_exists("d.t")
    remove(mirrored.site, "d.t")


def test_a_rebuild_that_died_is_repeated(mirrored: MirroredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored.must_be_equal()
    with monkeypatch.context() as patch:
        patch.setattr(mirrored_tables, "iceberg_schema", _die)
        with pytest.raises(ZeroDivisionError):
            rebuild_mirror(mirrored.site, "d.t")
    rebuild_mirror(mirrored.site, "d.t")
    mirrored.must_be_equal()


def _die(*_: object, **__: object) -> None:
    raise ZeroDivisionError
