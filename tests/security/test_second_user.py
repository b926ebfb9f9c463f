"""A real second user who may write in a table's directory, as in a shared one of mode 0777."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compactor.acid.names import parse_staging
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.worker.ending import Outcome, Result
from tests.support import second_user
from tests.support.hostile import is_compacted_and_cleaned
from tests.support.passes import compact
from tests.support.tables import insert, make_table, rows_of
from tests.support.watching import Interrupted

pytestmark = pytest.mark.skipif(not second_user.may_act(), reason="needs root, or sudo without a password")


@pytest.fixture
def warehouse() -> Iterator[Path]:
    """One that another user may reach; folders of tests are this user's alone."""
    with tempfile.TemporaryDirectory(prefix="compactor-shared-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def shared(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse, "shared")
    for start in range(0, 30, 10):
        insert(site, table, range(start, start + 10))
    Path(table.location).chmod(0o777)
    return table


@pytest.fixture
def neighbour(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse, "neighbour")
    for start in range(0, 30, 10):
        insert(site, table, range(start, start + 10))
    return table


@pytest.fixture
def secret(warehouse: Path) -> Path:
    path = warehouse / "secret"
    path.write_text("the service's")
    path.chmod(0o600)
    return path


TRIES = ('ls "$1"', 'ls "$1/out"', 'touch "$1/out/planted"', 'ln -s "$2" "$1/manifest.json"', 'chmod 777 "$1"')


def compacted_while(site: Site, table: Table, act: Callable[[Path], object]) -> Outcome:
    """Compacts; ``act`` is called with the staging directory once the units are done."""

    def there() -> Path:
        (found,) = (path for path in Path(table.location).iterdir() if parse_staging(path.name) is not None)
        return found

    return compact(site, table=str(table), runner=Interrupted(after=lambda: act(there())))


def test_staging_can_neither_be_read_nor_entered(site: Site, shared: Table, secret: Path) -> None:
    tried: list[str] = []

    def enter(staging: Path) -> None:
        for script in TRIES:
            done = second_user.act(script, str(staging), str(secret))
            tried.append(done.stderr)
            assert done.returncode != 0, script

    outcome = compacted_while(site, shared, enter)
    assert outcome.result is Result.COMPACTED
    assert all("Permission denied" in said or "not permitted" in said for said in tried)
    base = Path(shared.location) / outcome.output[0]
    for path in (base, *base.iterdir()):
        assert path.stat().st_uid == os.geteuid()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_directory_put_in_place_of_staging_is_not_published(
    site: Site, shared: Table, neighbour: Table, secret: Path
) -> None:
    """Whoever may write in the table's directory may rename what is in it, and lose the rows of this table; no others."""
    wanted, before = rows_of(site, neighbour), rows_of(site, shared)
    swapped: list[Path] = []

    def swap(staging: Path) -> None:
        swapped.append(staging)
        planted = staging / "out/base_0000003_v0000006"
        script = 'mv "$1" "$1.away" && mkdir -p "$3" && ln -s "$2" "$3/bucket_00000" && ln -s "$2" "$1/manifest.json"'
        done = second_user.act(script, str(staging), str(secret), str(planted))
        assert done.returncode == 0, done.stderr

    outcome = compacted_while(site, shared, swap)
    assert outcome.result is not Result.COMPACTED
    assert ".compactor_v" in outcome.message
    assert rows_of(site, shared) == before
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode), secret.stat().st_uid) == (
        "the service's",
        0o600,
        os.geteuid(),
    )
    is_compacted_and_cleaned(site, neighbour)
    assert rows_of(site, neighbour) == wanted
    second_user.act('rm -r "$1"', str(swapped[0]))  # this user may not


def test_a_delta_that_the_service_may_not_read_ends_this_table_alone(
    site: Site, shared: Table, neighbour: Table, secret: Path
) -> None:
    """Another user's directory of mode 0700, or a link to another table's files, made by that user."""
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (Path(shared.location) / "delta_0000003_0000003_0000").rename(Path(shared.location) / "_away")
    done = second_user.act('mkdir -m 700 "$1"', f"{shared.location}/delta_0000003_0000003_0000")
    assert done.returncode == 0, done.stderr
    try:
        outcome = compact(site, table=str(shared))
        assert outcome.result is not Result.COMPACTED
        assert "delta_0000003_0000003_0000" in outcome.message
        is_compacted_and_cleaned(site, neighbour)
    finally:
        second_user.act('rmdir "$1"', f"{shared.location}/delta_0000003_0000003_0000")
        shutil.rmtree(Path(shared.location) / "_away")
