"""Peculiarities of Azure's store: asynchronous copies, directories that are objects, and blocks that nobody commits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import StorageError
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.site import lost_workers
from compactor.site.site import Site
from compactor.storage import abfs
from compactor.storage.stores import Stores
from compactor.worker.ending import Result
from tests.storage.conftest import AZURE, Place, azure_options
from tests.storage.test_tables import again, failed_without_a_trace, left, moved, read_rows
from tests.support.daemons import Between
from tests.support.passes import age, compact
from tests.support.tables import insert, make_table, with_settings


@pytest.fixture
def between(azure_url: str) -> Iterator[Between]:
    with Between(azure_url) as found:
        found.status = 403  # a client asks again after a failure of the server, and takes a no for a no
        yield found


@pytest.fixture
def place(between: Between, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    location = f"{AZURE}/{request.node.originalname}-{tmp_path.name}/t"
    return Place(kind="abfs", location=location, stores=Stores(azure_options(between.url)))


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="300ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    made = make_table(site, warehouse)
    insert(site, made, range(10))
    insert(site, made, range(10, 20))
    return made


def test_a_server_that_fails_half_way(site: Site, table: Table, place: Place, between: Between) -> None:
    """PROTOCOL 3.4, 5: whatever fails, nothing is named, and what was copied is taken back."""
    site = moved(site, table, place.stores, place.location)
    before = read_rows(site, table)
    for part in ("/attempts/", "/out/", "/t/base_"):
        let_pass = [1]

        def fails(method: str, path: str, part: str = part, let_pass: list[int] = let_pass) -> bool:
            if method == "PUT" and part in path:
                let_pass[0] -= 1
            return method == "PUT" and let_pass[0] < 0

        between.fails = fails
        outcome = compact(site)
        between.fails = lambda method, path: False
        assert let_pass[0] < 0, part
        failed_without_a_trace(site, table, outcome, before)
    assert compact(site).result is Result.COMPACTED
    assert read_rows(site, table) == before


def test_a_worker_that_dies_between_two_copies(site: Site, table: Table, place: Place) -> None:
    """PROTOCOL 6 and 7.2: what it copied is taken away; the next pass goes on."""
    site = moved(site, table, place.stores, place.location)
    before = read_rows(site, table)
    process = os.fork()
    if process == 0:
        _die_naming(site)
    _, status = os.waitpid(process, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert [name for name in left(site, table) if name.startswith("base_")]
    assert read_rows(site, table) == before  # by visibility
    age(site)
    (repaired,) = lost_workers.repair(site)
    assert repaired.result is State.INITIATED
    assert not [name for name in left(site, table) if name.startswith(("base", "_"))]
    assert read_rows(site, table, honours_visibility=False) == before
    assert again(site).result is Result.COMPACTED
    assert read_rows(site, table) == before


def _die_naming(site: Site) -> None:
    """Compacts, and is killed when one file of the base has its name."""
    try:
        copy = abfs.AbfsStorage._copy

        def dies(self: abfs.AbfsStorage, source: str, target: str, length: int) -> None:
            copy(self, source, target, length)
            if "/t/base_" in target:
                os.kill(os.getpid(), signal.SIGKILL)

        abfs.AbfsStorage._copy = dies  # type: ignore[method-assign]
        compact(site)
    finally:
        os._exit(1)


def test_an_upload_by_blocks_that_fails_is_not_there(place: Place, between: Between, tmp_path: Path) -> None:
    """PROTOCOL 3.4: no key appears before its last block is committed."""
    local = tmp_path / "big"
    local.write_bytes(bytes(range(256)) * (5 << 12))
    top = place.stores.resolve(place.location)
    store: Any = place.stores.store_of(top)
    sizes = store._system(top).service_client._config
    sizes.max_single_put_size, sizes.max_block_size, sizes.min_large_block_upload_threshold = 1 << 20, 2 << 20, 1 << 20
    blocks = [0]

    def fails(method: str, path: str) -> bool:
        blocks[0] += "comp=block&" in path
        return blocks[0] > 1

    between.fails = fails
    with pytest.raises(StorageError, match=r"cannot write .*/f"):
        place.stores.upload(str(local), f"{top}/f")
    between.fails = lambda method, path: False
    assert (place.stores.exists(f"{top}/f"), place.stores.children(top)) == (False, ())
    place.stores.upload(str(local), f"{top}/f")
    assert place.stores.read(f"{top}/f") == local.read_bytes()
    assert any("comp=blocklist" in path for _, path in between.seen)


def answering(*told: str) -> Callable[[str, str, str], str]:
    """Returns a response header hook that reports these copy states one after the other, and repeats the last one."""
    left = list(told)

    def header(method: str, name: str, value: str) -> str:
        return (left.pop(0) if len(left) > 1 else left[0]) if name == "x-ms-copy-status" else value

    return header


def test_a_copy_is_waited_for(place: Place, between: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one is made in the store's own time; what was there first is removed afterwards."""
    monkeypatch.setattr(abfs, "COPY_PAUSES", (0.001, 0.002))
    top = place.stores.resolve(place.location)
    place.stores.write(f"{top}/a/f", b"rows")
    between.headers = answering("pending", "pending", "pending", "success")
    between.seen.clear()
    place.stores.rename(f"{top}/a", f"{top}/b")
    asked = [method for method, path in between.seen if method in ("PUT", "HEAD") and path.endswith("/b/f")]
    assert asked == ["PUT", *["HEAD"] * 4]  # three looks at the copy, one at its length
    assert place.stores.read(f"{top}/b/f") == b"rows"
    assert not place.stores.exists(f"{top}/a")


def test_a_copy_that_fails_later_is_taken_back(place: Place, between: Between) -> None:
    top = place.stores.resolve(place.location)
    place.stores.write(f"{top}/a/f", b"rows")
    between.headers = answering("pending", "failed")
    with pytest.raises(StorageError, match=r"cannot copy to .*/b/f: the store says failed"):
        place.stores.rename(f"{top}/a", f"{top}/b")
    assert place.stores.children(top) == ("a",)


def test_a_copy_that_nobody_waits_for_is_aborted(
    place: Place, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is being copied cannot be removed."""
    top = place.stores.resolve(place.location)
    place.stores.write(f"{top}/a/f", b"rows")
    between.headers = answering("pending")

    def told_to_end(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(abfs.time, "sleep", told_to_end)
    with pytest.raises(KeyboardInterrupt):
        place.stores.rename(f"{top}/a", f"{top}/b")
    assert any(method == "PUT" and "comp=copy&copyid=" in path for method, path in between.seen)
    assert place.stores.children(top) == ("a",)


def test_a_directory_that_is_an_object_goes_after_what_it_held(place: Place, between: Between) -> None:
    """A hierarchical namespace refuses to remove one that is not empty; and an empty base would hide rows from Trino."""
    top = place.stores.resolve(place.location)
    store: Any = place.stores.store_of(top)

    def mark(name: str) -> None:
        blob = store._blob(f"{top}/{name}")
        store._run(top, lambda: blob.upload_blob(b"", metadata={"hdi_isfolder": "true"}))

    for name in ("base_0000001", "delta_0000002_0000002", "x", "x/y", "x/y/z"):
        mark(name)
    for name in ("delta_0000002_0000002/f", "x/y/f", "xy"):
        place.stores.write(f"{top}/{name}", b"1")
    listing = place.stores.listing(top)
    assert [(file.path, file.length) for file in listing.files] == [
        ("delta_0000002_0000002/f", 1),
        ("x/y/f", 1),
        ("xy", 1),
    ]
    assert listing.directories == ("base_0000001", "delta_0000002_0000002", "x")
    place.stores.rename(f"{top}/delta_0000002_0000002", f"{top}/other")
    asked: list[bytes] = []
    between.body = lambda body: asked.append(body) or body  # type: ignore[func-returns-value]
    place.stores.remove(f"{top}/x")
    place.stores.remove(f"{top}/base_0000001")
    removals = [line for line in b"".join(asked).splitlines() if line.startswith(b"DELETE ")]
    gone = [line.split()[1].rpartition(b"/t/")[2].partition(b"?")[0].decode("ascii") for line in removals]
    assert gone == ["x/y/f", "x/y/z", "x/y", "x", "base_0000001"]
    assert place.stores.children(top) == ("other", "xy")
