"""Links, pipes and sockets in a table's directory (PROTOCOL 11.13)."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from compactor.cleaner.cleaner import clean
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.hostile import due_table, every_role, everything_in, is_compacted_and_cleaned, meanwhile
from tests.support.passes import clean_all, compact, settle
from tests.support.tables import entity_of, insert, rows_of

pytestmark = pytest.mark.usefixtures("descriptors")


def plant(kind: str, place: Path, leads_to: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    elif place.exists():
        place.unlink()
    match kind:
        case "link":
            place.symlink_to(leads_to)
        case "loop":
            place.symlink_to(place.name)
        case "pipe":
            os.mkfifo(place)
        case "socket":
            os.mknod(place, stat.S_IFSOCK | 0o666)


PLACES = {
    "delta": ("delta_0000001_0000001_0000", "delta_0000001_0000001_0000"),
    "new delta": ("delta_0000009_0000009_0000", "delta_0000001_0000001_0000"),
    "base": ("base_0000009", "base_0000009"),
    "original": ("000000_0", "secret"),
    "bucket": ("delta_0000001_0000001_0000/bucket_00000", "delta_0000001_0000001_0000/bucket_00000"),
    "flush length": ("delta_0000001_0000001_0000/bucket_00000_flush_length", "secret"),
    "version": ("delta_0000001_0000001_0000/_orc_acid_version", "secret"),
    "metadata": ("delta_0000001_0000001_0000/_metadata_acid", "secret"),
}


@pytest.mark.parametrize(
    ("kind", "place"),
    [*(("link", place) for place in PLACES), ("loop", "delta"), ("pipe", "bucket"), ("socket", "version")],
)
def test_what_is_no_file_is_refused_by_name_and_the_neighbour_goes_on(
    site: Site, hostile: Table, neighbour: Table, outside: Path, kind: str, place: str
) -> None:
    here, there = PLACES[place]
    plant(kind, Path(hostile.location) / here, outside / there)
    request_compaction(site, table="default.hostile", type="major")
    names = sorted(os.listdir(hostile.location))
    passes = every_role(site)
    words = {"loop": "link"}.get(kind, kind)
    assert f"{hostile.location}/{here}: is a {words}; only regular files and directories" in passes.said_of(
        entity_of(hostile)
    )
    (outcome,) = (o for o in passes.outcomes if o.entry.entity == entity_of(hostile))
    assert outcome.result is Result.REFUSED
    assert sorted(os.listdir(hostile.location)) == names
    assert is_compacted_and_cleaned(site, neighbour)


def test_a_link_to_another_table_neither_reads_nor_removes_its_rows(
    site: Site, hostile: Table, neighbour: Table, outside: Path
) -> None:
    """The cleaner took another table's deltas for obsolete ones of this table: 30 rows became none."""
    plant("link", Path(hostile.location) / "p", Path(neighbour.location))
    plant("link", Path(hostile.location) / "x", outside)
    before = rows_of(site, neighbour)
    for _ in range(2):
        every_role(site)
    assert rows_of(site, neighbour) == before
    assert is_compacted_and_cleaned(site, neighbour)


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_originals_behind_a_link_are_neither_read_nor_removed(
    site: Site, hostile: Table, outside: Path, tmp_path: Path, kind: str
) -> None:
    """Files without ACID columns are rows of a table wherever they lie below it: they were copied into its base, so that its
    owner read somebody else's rows, and then the cleaner emptied their folder."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    orc.write_table(pa.table({"a": pa.array([77], pa.int32()), "b": ["somebody else's"]}), str(theirs / "000000_0"))
    before = everything_in(theirs)
    plant("link", Path(hostile.location) / "x", theirs)
    request_compaction(site, table="default.hostile", type=kind)
    for _ in range(2):
        passes = every_role(site)
    assert f"{hostile.location}/x: is a link" in passes.said_of(entity_of(hostile))
    assert everything_in(theirs) == before
    (Path(hostile.location) / "x").unlink()
    assert all(row[-1].startswith("row ") for row in rows_of(site, hostile))


def test_a_link_that_comes_after_the_compaction_stops_the_cleaner(site: Site, hostile: Table, outside: Path) -> None:
    """Directories obsolete by then are named as before; a link in its place leads nowhere."""
    compact(site, table="default.hostile")
    delta = Path(hostile.location) / "delta_0000001_0000001_0000"
    delta.rename(outside.parent / "moved")
    delta.symlink_to(outside / "delta_0000001_0000001_0000")
    settle()
    failed = clean(site).failed
    assert failed
    assert all(f"{delta}: is a link" in one.because for one in failed)
    delta.unlink()
    (outside.parent / "moved").rename(delta)
    site.metastore.cleaning.back_off(site.metastore.entries.queue()[0], 0, "the link is gone")
    clean_all(site)
    assert is_compacted_and_cleaned(site, hostile)


@pytest.mark.parametrize("name", [".compactor_v1", ".compactor_v1_0123456789abcdef", ".compactor_obsolete_1_delta_1_1"])
def test_a_link_with_a_name_of_ours_is_removed_itself(site: Site, hostile: Table, outside: Path, name: str) -> None:
    plant("link", Path(hostile.location) / name, outside)
    compact(site, table="default.hostile")
    clean_all(site)
    assert not os.path.lexists(Path(hostile.location) / name)
    assert is_compacted_and_cleaned(site, hostile)


def test_a_partition_below_its_table_is_reached_over_no_link(site: Site, warehouse: Path, neighbour: Table) -> None:
    """Whoever may write in the table's directory may replace a partition's by a link, however late."""
    (warehouse / "p").mkdir()
    table = site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "p",
            str(warehouse / "p"),
            [Column(name="a", type="int"), Column(name="b", type="string")],
            partition_keys=[Column(name="k", type="int")],
            parameters={"transactional": "true", "transactional_properties": "default"},
        )
    )
    partition = site.metastore.embedded_catalog.add_partition(table, ["1"])
    shutil.rmtree(partition.location, ignore_errors=True)
    Path(partition.location).symlink_to(neighbour.location)
    before = rows_of(site, neighbour)
    request_compaction(site, table="default.p", partition="k=1", type="major")
    passes = every_role(site)
    (outcome,) = (o for o in passes.outcomes if o.entry.entity.table == "p")
    assert (outcome.result, f"{partition.location}: is a link" in outcome.message) == (Result.REFUSED, True)
    assert rows_of(site, neighbour) == before


def test_a_location_that_is_itself_reached_over_links_is_ordinary(
    site: Site, warehouse: Path, tmp_path: Path, neighbour: Table
) -> None:
    """Mounts are."""
    (tmp_path / "disk").mkdir()
    (warehouse / "far").symlink_to(tmp_path / "disk")
    table = due_table(site, warehouse / "far", "linked")
    (tmp_path / "disk" / "linked").rename(tmp_path / "disk" / "really")
    (tmp_path / "disk" / "linked").symlink_to("really")
    every_role(site)
    assert is_compacted_and_cleaned(site, table)
    assert is_compacted_and_cleaned(site, neighbour)


@pytest.mark.parametrize("what", ["delta_0000002_0000002_0000", "delta_0000002_0000002_0000/bucket_00000"])
def test_what_is_swapped_for_a_link_and_back_all_the_time_is_never_followed(
    site: Site, hostile: Table, neighbour: Table, outside: Path, what: str
) -> None:
    """There is no moment between a look and a use."""
    place, away = Path(hostile.location) / what, outside.parent / "away"
    leads_to = outside / "delta_0000001_0000001_0000" / ("bucket_00000" if "/" in what else "")

    def swap() -> None:
        with suppress(OSError):  # compacted and cleaned, at any of these moments
            os.rename(place, away)
            os.symlink(leads_to, place)
            os.unlink(place)
            os.rename(away, place)

    before = {row[-2:] for row in rows_of(site, hostile)}
    with meanwhile(swap):
        for _ in range(4):
            if not site.metastore.entries.queue():
                request_compaction(site, table="default.hostile", type="major")
            every_role(site)
    assert {row[-2:] for row in rows_of(site, hostile)} <= before  # who takes his own files away loses his own rows
    assert is_compacted_and_cleaned(site, neighbour)


def test_an_insert_goes_on_beside_what_is_refused(site: Site, hostile: Table, outside: Path) -> None:
    plant("link", Path(hostile.location) / "_hidden", outside)
    insert(site, hostile, [50])
    assert compact(site, table="default.hostile").result is Result.COMPACTED
    assert len(rows_of(site, hostile)) == 7
