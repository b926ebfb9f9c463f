"""Bulk removal in object stores: its cost, and what becomes of the rest when one key is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from compactor.base.errors import StorageError
from compactor.cleaner.cleaner import clean
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.storage import abfs, gcs, s3
from compactor.storage.stores import Stores
from tests.storage.conftest import AZURE, BUCKET, Place, azure_options, gcs_options, s3_options
from tests.storage.test_tables import left, moved, read_rows
from tests.support.daemons import Between
from tests.support.passes import clean_all, compact
from tests.support.tables import delete, insert, make_table, with_settings

#: Kind -> where its tables are, and what a bulk removal's request is.
STORES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "s3": (f"s3://{BUCKET}", lambda path: path.endswith("?delete")),
    "gs": (f"gs://{BUCKET}", lambda path: path.startswith("/batch/")),
    "abfs": (AZURE, lambda path: "comp=batch" in path),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A place in an object store of which single keys can be ``kept``, by a means of the store's own if it has one."""

    place: Place
    between: Between
    kept: Callable[[str], AbstractContextManager[None]]

    @property
    def top(self) -> str:
        return self.place.stores.resolve(self.place.location)

    def removals(self) -> list[str]:
        return [path for method, path in self.between.seen if method == "POST" and STORES[self.place.kind][1](path)]


@pytest.fixture(params=STORES)
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Guarded]:
    kind = request.param
    where, _ = STORES[kind]
    url = request.getfixturevalue({"s3": "s3_url", "gs": "gcs_url", "abfs": "azure_url"}[kind])
    options = {"s3": s3_options, "gs": gcs_options, "abfs": azure_options}[kind]
    keeping = {"s3": _denied, "gs": _refused, "abfs": _leased}[kind]
    with Between(url) as between:
        between.status = 403  # a client asks again after a failure of the server, and takes a no for a no
        stores = Stores(options(between.url))
        place = Place(kind=kind, location=f"{where}/{request.node.originalname}-{tmp_path.name}/t", stores=stores)
        yield Guarded(place=place, between=between, kept=lambda key: keeping(stores.store_of(key), between, key))


@contextmanager
def _denied(store: Any, between: Between, key: str) -> Iterator[None]:
    """A policy of the bucket."""
    name = key.partition(f"{BUCKET}/")[2]
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject"}
    policy = {"Version": "2012-10-17", "Statement": [{**statement, "Resource": f"arn:aws:s3:::{BUCKET}/{name}"}]}
    store._call(key, "put_bucket_policy", Policy=json.dumps(policy))
    try:
        yield
    finally:
        store._call(key, "delete_bucket_policy")


@contextmanager
def _leased(store: Any, between: Between, key: str) -> Iterator[None]:
    """Takes a lease as somebody else."""
    lease = store._run(key, store._blob(key).acquire_lease)
    yield
    store._run(key, lease.release)


@contextmanager
def _refused(store: Any, between: Between, key: str) -> Iterator[None]:
    """Makes Google's emulator refuse a key, for which it has no means: the batch asks for another key, so that it is told
    that one is missing, and a request for this key alone is refused.
    """
    name = quote("/" + "/".join(key.rsplit("/", 2)[1:]), safe="")
    line, other = (f"{end} HTTP".encode("ascii") for end in (name, "x" * len(name)))
    between.body = lambda body: body.replace(line, other)
    between.fails = lambda method, path: method == "DELETE" and path.endswith(name)
    yield
    between.body, between.fails = bytes, lambda method, path: False


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three keys fill a request."""
    for module in (s3, gcs, abfs):
        monkeypatch.setattr(module, "BULK", 3)


def test_many_are_removed_by_few_requests(guarded: Guarded, small: None) -> None:
    """A partition of many files is removed by as many requests as it fills."""
    stores = guarded.place.stores
    for number in range(7):
        stores.write(f"{guarded.top}/a/f{number} [x]*?", b"1")
    stores.write(f"{guarded.top}/ab/f", b"1")
    guarded.between.seen.clear()
    stores.remove(f"{guarded.top}/a")
    assert len(guarded.removals()) == 3
    assert all(method != "DELETE" for method, _ in guarded.between.seen)
    assert stores.children(guarded.top) == ("ab",)


def test_directories_are_removed_together(guarded: Guarded, small: None) -> None:
    """The obsolete part of a partition is many directories of few files each; one that cannot go keeps no other."""
    stores = guarded.place.stores
    names = [f"delta_000000{number}_000000{number}_0000" for number in range(5)]
    for name in (*names, "base_0000009"):
        stores.write(f"{guarded.top}/{name}/bucket_00000", b"1")
    paths = [f"{guarded.top}/{name}" for name in names]
    guarded.between.seen.clear()
    with guarded.kept(f"{paths[2]}/bucket_00000"):
        failed = stores.remove_all([*paths, f"{guarded.top}/gone"])
        assert list(failed) == [paths[2]]
        assert f"1 of 1 keys stay, the first is {paths[2]}/bucket_00000: " in str(failed[paths[2]])
    assert len(guarded.removals()) == 2
    assert stores.children(guarded.top) == ("base_0000009", names[2])
    assert stores.remove_all(paths) == stores.remove_all([]) == {}
    assert stores.children(guarded.top) == ("base_0000009",)


def test_one_key_that_is_refused_is_named_and_the_rest_goes(guarded: Guarded, small: None) -> None:
    stores = guarded.place.stores
    for number in range(7):
        stores.write(f"{guarded.top}/a/f{number}", b"1")
    with guarded.kept(f"{guarded.top}/a/f3"):
        with pytest.raises(StorageError, match=r"cannot remove .*/t/a: 1 of 7 keys stay, the first is .*/a/f3: "):
            stores.remove(f"{guarded.top}/a")
        assert stores.children(f"{guarded.top}/a") == ("f3",)
    stores.remove(f"{guarded.top}/a")
    assert not stores.exists(f"{guarded.top}/a")


def test_rows_stay_while_what_tells_of_their_directory_stays(guarded: Guarded) -> None:
    """The name given last goes first, and alone it would be a directory without rows."""
    stores = guarded.place.stores
    names = ("_orc_acid_version", "bucket_00000", "bucket_00001")
    for name in names:
        stores.write(f"{guarded.top}/base_0000005/{name}", b"1")
    with (
        guarded.kept(f"{guarded.top}/base_0000005/_orc_acid_version"),
        pytest.raises(StorageError, match=r"1 of 1 keys stay, the first is .*_orc_acid_version"),
    ):
        stores.remove(f"{guarded.top}/base_0000005")
    assert stores.children(f"{guarded.top}/base_0000005") == names


@pytest.mark.parametrize("guarded", ["gs", "abfs"], indirect=True)
def test_a_server_without_batches_is_asked_for_each_key(guarded: Guarded) -> None:
    """A server that speaks a store's language need not speak all of it, and not everybody may send batches."""
    stores = guarded.place.stores
    for number in range(4):
        stores.write(f"{guarded.top}/a/f{number}", b"1")
    is_bulk = STORES[guarded.place.kind][1]
    guarded.between.status = 404
    guarded.between.fails = lambda method, path: method == "POST" and is_bulk(path)
    stores.remove(f"{guarded.top}/a")
    assert not stores.exists(f"{guarded.top}/a")
    assert sum(method == "DELETE" for method, _ in guarded.between.seen) == 4


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    made = make_table(deployment, warehouse)
    insert(deployment, made, range(10))
    insert(deployment, made, range(10, 20))
    delete(deployment, made, [3, 14])
    return made


def test_the_next_cleaning_removes_what_one_key_left(deployment: Site, table: Table, guarded: Guarded) -> None:
    """PROTOCOL 6: an entry that cannot be cleaned keeps its row, and readers have the base meanwhile."""
    settings = {"hive_txn_opentxn_timeout": "1ms", "hive_compactor_cleaner_retry_retention_time": "1ms"}
    site = moved(with_settings(deployment, **settings), table, guarded.place.stores, guarded.place.location)
    before = read_rows(site, table)
    (base,) = compact(site).output
    kept = f"{guarded.top}/delta_0000001_0000001_0000/bucket_00000"
    with guarded.kept(kept):
        told = _until(lambda: clean(site).failed)
        assert f"the first is {kept}: " in told[0].because
        assert read_rows(site, table) == read_rows(site, table, honours_visibility=False) == before
        assert site.metastore.entries.queue()
    clean_all(site)
    assert left(site, table) == (base,)
    assert read_rows(site, table) == before


def _until(asked: Callable[[], Any]) -> Any:
    """Returns its first true answer; a commit is settled only after hive.txn.opentxn.timeout."""
    return next(filter(None, (asked() for _ in range(200))))
