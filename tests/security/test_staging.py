"""The staging directory: predictable and open to whoever may write in the table's directory, it gave the service's files
away (PROTOCOL 3.5)."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest

from compactor.acid.names import STAGING_PREFIX, parse_staging
from compactor.base.errors import StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.publish import stage
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Outcome, Result
from tests.support.hostile import NOBODY, is_compacted_and_cleaned, nest, remove_tree
from tests.support.passes import clean_all, compact, with_storage
from tests.support.tables import rows_of
from tests.support.watching import Interrupted, names_in

pytestmark = pytest.mark.usefixtures("descriptors")


def staging_of(table: Table) -> Path:
    (found,) = (path for path in Path(table.location).iterdir() if parse_staging(path.name) is not None)
    return found


def compacted_with(site: Site, table: Table, plant: Callable[[Path], object]) -> Outcome:
    """Compacts; ``plant`` is called with the staging directory once the units are done."""
    return compact(site, table=str(table), runner=Interrupted(after=lambda: plant(staging_of(table))))


def as_root(give: bool, path: Path) -> None:
    if give and os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def test_nobody_else_may_enter_it_while_it_is_one(site: Site, hostile: Table) -> None:
    seen: list[int] = []

    def look(staging: Path) -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in (staging, staging / "attempts", staging / "out"))
        assert parse_staging(staging.name) != int(staging.name.rpartition("v")[2], 16)  # it ends in random digits

    Path(hostile.location).chmod(0o777)
    as_root(True, Path(hostile.location))
    assert compacted_with(site, hostile, look).result is Result.COMPACTED
    assert seen == [0o700, 0o700, 0o700]


def test_outputs_get_the_owner_and_mode_of_the_directory_in_the_end(site: Site, hostile: Table) -> None:
    Path(hostile.location).chmod(0o2775)
    as_root(True, Path(hostile.location))
    outcome = compact(site, table=str(hostile))
    wanted = Path(hostile.location).stat()
    base = Path(hostile.location) / outcome.output[0]
    for path in (base, *base.iterdir()):
        found = path.stat()
        assert (found.st_uid, found.st_gid) == (wanted.st_uid, wanted.st_gid)
        assert stat.S_IMODE(found.st_mode) == (0o2775 if path.is_dir() else 0o664)


def link_to_a_secret(staging: Path, outside: Path) -> None:
    (staging / "out" / "base_0000003").mkdir(exist_ok=True)
    (staging / "out" / "base_0000003" / "bucket_00009").symlink_to(outside / "secret")


def link_for_the_output(staging: Path, outside: Path) -> None:
    for name in ("base_0000003_v0000006", "base_0000003"):
        (staging / "out" / name).symlink_to(outside / "base_0000009")


def link_for_all_outputs(staging: Path, outside: Path) -> None:
    (staging / "out").rmdir()
    (staging / "out").symlink_to(outside / "out")


def link_for_the_manifest(staging: Path, outside: Path) -> None:
    (staging / "manifest.json").symlink_to(outside / "secret")


def dangling_manifest(staging: Path, outside: Path) -> None:
    (staging / "manifest.json").symlink_to(outside / "new")


def second_name_of_a_secret(staging: Path, outside: Path) -> None:
    (staging / "out" / "base_0000003").mkdir(exist_ok=True)
    os.link(outside / "secret", staging / "out" / "base_0000003" / "bucket_00009")


def pipe_in_the_output(staging: Path, outside: Path) -> None:
    os.mkfifo(staging / "out" / "pipe")


def link_for_staging(staging: Path, outside: Path) -> None:
    staging.rename(staging.with_name("_away"))
    staging.symlink_to(outside)


def another_directory(staging: Path, outside: Path) -> None:
    staging.rename(staging.with_name("_away"))
    (staging / "out").mkdir(parents=True)
    (staging / "out" / "base_0000003_v0000006").symlink_to(outside / "base_0000009")
    (staging / "manifest.json").symlink_to(outside / "secret")


TRAPS = (
    link_to_a_secret,
    link_for_the_output,
    link_for_all_outputs,
    link_for_the_manifest,
    dangling_manifest,
    second_name_of_a_secret,
    pipe_in_the_output,
    link_for_staging,
    another_directory,
)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: str(trap.__name__))
def test_what_is_planted_in_it_is_named_and_neither_followed_nor_given_away(
    site: Site, hostile: Table, outside: Path, trap: Callable[[Path, Path], None]
) -> None:
    """Even by somebody who could enter it: with this user's own rights, or before it is made."""
    before = rows_of(site, hostile)
    Path(hostile.location).chmod(0o777)
    as_root(True, Path(hostile.location))
    outcome = compacted_with(site, hostile, lambda staging: trap(staging, outside))
    assert outcome.result is not Result.COMPACTED
    assert ".compactor_v" in outcome.message
    assert rows_of(site, hostile) == before
    for name in names_in(Path(hostile.location)):
        path = Path(hostile.location) / name
        if parse_staging(name) is not None or name == "_away":
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
    assert compact(site, table=str(hostile)).result is Result.COMPACTED
    clean_all(site)
    assert is_compacted_and_cleaned(site, hostile)


def test_a_name_that_is_taken_first_stops_that_compaction(
    site: Site, hostile: Table, neighbour: Table, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only if somebody could foretell it."""
    monkeypatch.setattr(stage, "token", lambda: "00")
    newest = site.metastore.transactions.newest()
    for txn in range(newest, newest + 9):
        (Path(hostile.location) / f".compactor_v{txn}_00").symlink_to(outside)
    outcome = compact(site, table=str(hostile), runner=InProcessRunner())
    assert outcome.result in (Result.FAILED, Result.COMPACTED)
    assert compact(site, table=str(neighbour)).result is Result.COMPACTED


class SwappedWhenItIsSynced(LocalStorage):
    """A stranger puts a deep directory in place of staging after its outputs were verified, and before they are synced."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        if any(path.startswith(f"{self._table.location}/{STAGING_PREFIX}") for path in paths):
            staging = staging_of(self._table)
            staging.rename(staging.with_name("away"))
            (staging / "out").mkdir(parents=True)
            nest(staging / "out", 1500)
        return super().sync(paths)


def test_what_is_put_there_in_the_last_moment_ends_that_compaction_alone(
    site: Site, hostile: Table, neighbour: Table
) -> None:
    """PROTOCOL 10: it ended everybody's who was compacted together with it."""
    for table in (hostile, neighbour):
        request_compaction(site, table=str(table), type="major")
    swapping = with_storage(site, SwappedWhenItIsSynced(hostile))
    try:
        done = run_entries(swapping, list_claimable_ids(site), InProcessRunner())
    finally:
        remove_tree(Path(hostile.location))
    ended = {outcome.entry.entity.table: outcome for outcome in done.outcomes}
    assert (ended["hostile"].result, ended["neighbour"].result) == (Result.FAILED, Result.COMPACTED)
    assert "directories deep" in ended["hostile"].message
