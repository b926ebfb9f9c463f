"""Stripes that the store copies by itself: what travels, what is refused, and what a failure leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from compactor.answers.explain import explain
from compactor.base.errors import BadFile, StorageError, VerificationFailed
from compactor.base.steps import StoreStep
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.storage.capabilities import TakenRange
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from compactor.worker.ending import Result
from tests.storage.conftest import AZURE, BUCKET, Place, azure_options, gcs_options
from tests.storage.test_tables import left, uploads
from tests.support import roles
from tests.support.daemons import Between
from tests.support.far import Far
from tests.support.forked import die
from tests.support.moved_tables import moved, read_rows
from tests.support.passes import age, clean_all, compact
from tests.support.s3mock import s3mock
from tests.support.tables import with_settings
from tests.support.wide_stripes import wide_table

MIB = 1 << 20
#: gcsfs sends up to 50 MB in one body, which its HTTP client warns of.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="300ms")


@pytest.fixture
def far(s3_url: str) -> Iterator[Far]:
    with Far(s3_url) as found:
        yield found


@pytest.fixture(scope="module")
def one_between(s3_url: str) -> Iterator[tuple[Between, Stores]]:
    """A proxy, and a client by it, since new ones cost seconds."""
    with Between(s3_url) as found:
        yield found, stores_by(found.url)


@pytest.fixture
def between(one_between: tuple[Between, Stores]) -> Between:
    one_between[0].reset()
    return one_between[0]


def stores_by(url: str) -> Stores:
    impatient = {"retries": {"max_attempts": 0}}  # the client's own pauses are not ours to test
    options = {"endpoint_url": url, "key": "somebody", "secret": "something", "config_kwargs": impatient}
    return Stores(StoreOptions.from_tables({"s3": options}))


@pytest.fixture
def place(one_between: tuple[Between, Stores], tmp_path: Path) -> Place:
    return place_in(tmp_path, one_between[1])


def place_in(folder: Path, stores: Stores) -> Place:
    return Place(kind="s3", location=f"s3://{BUCKET}/taken-{folder.name}/t", stores=stores)


@pytest.mark.whole
def test_few_bytes_of_large_stripes_pass_through_the_worker(
    site: Site, warehouse: Path, every: tuple[Place, Far]
) -> None:
    """At most one in twenty for stripes of 16 MB and more, by whatever passes: listing, reading, proving, naming."""
    table = wide_table(site, warehouse, deltas=3, stripes=2, stripe_bytes=16 * MIB)
    place, far = every
    site = moved(site, table, place.stores, place.location)
    before, size = read_rows(site, table), sum(file.length for file in place.stores.listing(_top(place)).files)
    far.reset()
    outcome = compact(site)
    travelled = far.bytes
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    assert outcome.figures is not None
    assert outcome.figures.bytes_taken_over == outcome.figures.bytes_copied > 0.99 * size
    assert travelled <= 0.05 * size
    assert read_rows(site, table) == before
    clean_all(site)
    assert left(site, table) == tuple(sorted(outcome.output))
    assert read_rows(site, table) == before


def _top(place: Place) -> str:
    return place.stores.resolve(place.location)


class New:
    """A new file of three ranges of a file in the store, two of which are large enough; ``local`` has holes there."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.stores = place, place.stores
        self.source = f"{_top(place)}/delta_0000001_0000001/bucket_00000"
        self.target = f"{_top(place)}/base_0000001_v0000007/bucket_00000"
        self.old = b"".join(hashlib.sha512(b"%d" % n).digest() for n in range(11 * MIB // 64))
        self.stores.write(self.source, self.old)
        tag = self.stores.status(self.source).tag
        assert tag is not None
        large = 5 * MIB + 77
        spans = [(0, 0, large), (large, 5 * MIB + 500, large), (2 * large + 10, 1000, 2000)]
        self.ranges = [
            TakenRange(
                position=position,
                length=length,
                source=self.source,
                offset=offset,
                tag=tag,
                last=self.old[offset + length - 1024 : offset + length],
            )
            for position, offset, length in spans
        ]
        self.content = bytearray(2 * large + 6000)
        self.content[-3990:] = bytes(n % 251 for n in range(3990))
        self.local = folder / "new"
        self.local.write_bytes(self.content)
        for taken in self.ranges:
            self.content[taken.position : taken.end] = self.old[taken.offset : taken.offset + taken.length]

    def upload(self) -> None:
        self.stores.upload(str(self.local), self.target, self.ranges)

    def name(self) -> None:
        deferring = self.stores.deferring(self.target)
        assert deferring is not None
        begun = deferring.begin(str(self.local), self.target, self.ranges)
        assert deferring.held_bytes(begun) == len(self.content)
        staged = f"{_top(self.place)}/.compactor_v7/out/base"
        self.stores.write(f"{staged}/_orc_acid_version", b"2")
        deferring.complete(staged, self.target.rpartition("/")[0], [begun])


WAYS = pytest.mark.parametrize("way", [pytest.param(New.upload, marks=pytest.mark.whole), New.name])


@WAYS
def test_a_file_of_ranges_is_what_was_put_together(place: Place, tmp_path: Path, way: Callable[[New], None]) -> None:
    new = New(place, tmp_path)
    way(new)
    assert new.stores.read(new.target) == new.content


@WAYS
@pytest.mark.parametrize("by_the_store", [False, True])
def test_a_source_that_was_replaced_is_refused(
    place: Place, between: Between, tmp_path: Path, way: Callable[[New], None], by_the_store: bool
) -> None:
    """PROTOCOL 4: the store compares the tag; one that does not (moto's server) is asked for it again."""
    new = New(place, tmp_path)
    new.stores.remove(new.source)
    new.stores.write(new.source, bytes(reversed(new.old)))
    if by_the_store:
        between.fails, between.status = _copies_a_part, 412
    with pytest.raises(BadFile, match=f"{new.source}: it was replaced while it was read"):
        way(new)
    assert nothing_left(new)
    assert any(_copies_a_part(*one) for one in between.seen)


@pytest.mark.whole
def test_another_store_refuses_it_by_itself(tmp_path: Path) -> None:
    """PROTOCOL 4: by the tag in the request, so that no copy of other bytes is ever made."""
    with s3mock(tmp_path, BUCKET) as url:
        new = New(place_in(tmp_path, stores_by(url)), tmp_path)
        new.name()
        assert new.stores.read(new.target) == new.content
        new.stores.remove(new.target.rpartition("/")[0])
        new.ranges = [replace(one, tag='"another"') for one in new.ranges]
        with pytest.raises(BadFile, match=f"{new.source}: it was replaced while it was read") as raised:
            new.name()
        assert "pre-conditions" in str(raised.value.__cause__)
        assert nothing_left(new)


def test_the_tag_is_named_in_each_copy(place: Place, between: Between, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []
    between.asked = lambda name, value: asked.append((name, value)) or value  # type: ignore[func-returns-value]
    new = New(place, tmp_path)
    new.upload()
    tags = [value for name, value in asked if name == "x-amz-copy-source-if-match"]
    assert tags == [new.ranges[0].tag] * 2


@WAYS
def test_other_bytes_than_were_asked_for_are_refused(
    place: Place, between: Between, tmp_path: Path, way: Callable[[New], None]
) -> None:
    """PROTOCOL 4: the ends of ranges are read back, and what has a name by then loses it."""
    new = New(place, tmp_path)
    between.asked = lambda name, value: _one_later(value) if name == "x-amz-copy-source-range" else value
    with pytest.raises(VerificationFailed, match="the store copied the wrong bytes"):
        way(new)
    assert way is New.upload or nothing_left(new)


@pytest.mark.parametrize("status", [501, pytest.param(403, marks=pytest.mark.whole)])
def test_a_store_that_refuses_to_copy_parts_is_sent_them(
    place: Place, between: Between, tmp_path: Path, status: int
) -> None:
    new, tried = New(place, tmp_path), list[str]()

    def is_first(method: str, path: str) -> bool:
        tried.append(path)
        return _copies_a_part(method, path) and tried.count(path) == 1

    between.fails, between.status = is_first, status
    new.name()
    assert new.stores.read(new.target) == new.content


@WAYS
def test_a_copy_that_fails_leaves_nothing(
    place: Place, between: Between, tmp_path: Path, way: Callable[[New], None]
) -> None:
    new = New(place, tmp_path)
    between.fails, between.status = _copies_a_part, 500
    with pytest.raises(StorageError, match="cannot write"):
        way(new)
    between.reset()
    assert nothing_left(new)


def _copies_a_part(method: str, path: str) -> bool:
    """Returns true for the parts of a ``New`` that are copied."""
    return method == "PUT" and any(f"partNumber={number}" in path for number in (1, 2))


def _one_later(span: str) -> str:
    first, last = span.removeprefix("bytes=").split("-")
    return f"bytes={int(first) + 1}-{int(last) + 1}"


@pytest.fixture(
    params=[
        "s3",
        pytest.param("gs", marks=pytest.mark.whole),
        pytest.param("abfs", marks=pytest.mark.whole),
    ]
)
def every(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Place, Far]:
    """A place in each store that takes ranges over, and the line to it, which counts."""
    kind = request.param
    if kind == "s3":
        far: Far = request.getfixturevalue("far")
        return place_in(tmp_path, stores_by(far.url)), far
    far = request.getfixturevalue(f"far_{kind}")
    return place_range(kind, far.url, tmp_path), far


def place_range(kind: str, url: str, folder: Path) -> Place:
    """Returns a place in Google's or Azure's store."""
    if kind == "gs":
        return Place(kind=kind, location=f"gs://{BUCKET}/taken-{folder.name}/t", stores=Stores(gcs_options(url)))
    return Place(kind=kind, location=f"{AZURE}/taken-{folder.name}/t", stores=Stores(azure_options(url)))


@pytest.fixture
def far_gs(gcs_url: str) -> Iterator[Far]:
    with Far(gcs_url) as found:
        yield found


@pytest.fixture
def far_abfs(azure_url: str) -> Iterator[Far]:
    with Far(azure_url) as found:
        yield found


def test_whole_files_and_ranges_are_taken_over_by_every_store_that_can(
    every: tuple[Place, Far], tmp_path: Path
) -> None:
    place, far = every
    new = Whole(place, tmp_path)
    far.reset()
    new.stores.upload(str(new.local), new.target, new.ranges)
    assert far.bytes < MIB
    assert new.stores.read(new.target) == new.content
    assert new.stores.children(new.target.rpartition("/")[0]) == ("bucket_00000",)
    replaced = new.sources[-1]
    new.stores.remove(replaced)
    (tmp_path / "old").write_bytes(bytes(new.ranges[-1].length))
    new.stores.upload(str(tmp_path / "old"), replaced)
    again = f"{_top(place)}/again/bucket_00000"
    with pytest.raises(BadFile, match=f"{replaced}: it was replaced while it was read"):
        new.stores.upload(str(new.local), again, new.ranges)
    assert not new.stores.exists(again)


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["gs", "abfs"])
def test_other_stores_that_refuse_are_sent_the_bytes(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    copies = {"gs": "/compose", "abfs": "comp=block&"}[kind]
    with Between(request.getfixturevalue({"gs": "gcs_url", "abfs": "azure_url"}[kind])) as between:
        place = place_range(kind, between.url, tmp_path)
        new, refused = Whole(place, tmp_path), list[str]()

        def fails(method: str, path: str) -> bool:
            first = copies in path and path not in refused and len(refused) < len(new.ranges)
            if first:
                refused.append(path)
            return first

        between.fails, between.status = fails, 403
        new.stores.upload(str(new.local), new.target, new.ranges)
        assert refused
        assert new.stores.read(new.target) == new.content


class Whole:
    """A new file of several whole files in the store, more than one composition takes, with bytes of its own around."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.stores = place.stores
        self.target = f"{_top(place)}/new/bucket_00000"
        count, size = (3, 6 * MIB) if place.kind == "s3" else (35, 2 * MIB)
        self.sources = [f"{_top(place)}/old/{number}" for number in range(count)]
        self.ranges: list[TakenRange] = []
        position, parts = 0, []
        for number, source in enumerate(self.sources):
            data = hashlib.sha512(b"%d" % number).digest() * (size // 64)
            (folder / "old").write_bytes(data)
            self.stores.upload(str(folder / "old"), source)
            tag = self.stores.status(source).tag
            assert tag is not None
            self.ranges.append(
                TakenRange(position=position, length=size, source=source, offset=0, tag=tag, last=data[-1024:])
            )
            position += size
            parts.append(data)
        self.content = b"".join([*parts, b"the tail"])
        self.local = folder / "new"
        with self.local.open("wb") as file:
            file.seek(position)
            file.write(b"the tail")


def nothing_left(new: New) -> bool:
    top = new.target.rpartition("/")[0]
    return not new.stores.exists(top) and uploads(new.place, _top(new.place)) == []


@pytest.mark.parametrize(
    ("step", "nth"),
    [
        pytest.param(StoreStep.RANGE_TAKEN, 2, id="copying"),
        pytest.param(StoreStep.COMPLETED, 1, id="completed"),
    ],
)
def test_a_worker_that_is_killed_while_the_store_copies(
    site: Site, metastore_url: str, warehouse: Path, place: Place, tmp_path: Path, step: StoreStep, nth: int
) -> None:
    """PROTOCOL 3.4, 6: copied parts cost money until their upload is aborted; a completed file is nobody's before the
    commit."""
    table = wide_table(site, warehouse, deltas=2, stripes=1, stripe_bytes=6 * MIB)
    site = moved(site, table, place.stores, place.location)
    before = read_rows(site, table)
    config = tmp_path / "compactor.toml"
    url = place.stores.options.of_place("s3", BUCKET)["endpoint_url"]
    config.write_text(f'[storage.s3]\nendpoint_url = "{url}"\nkey = "somebody"\nsecret = "something"\n')
    request_compaction(site, table="default.t", type="major")
    die(partial(roles.configured, str(config), roles.worker), metastore_url, step, nth)
    assert read_rows(site, table) == before
    assert uploads(place, _top(place)) != [] or step is StoreStep.COMPLETED
    age(site)
    repair(site)
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert outcome.figures is not None
    assert outcome.figures.bytes_taken_over > 12_000_000
    (run,) = explain(site, "default.t").partitions[0].runs
    assert run["bytes_taken_over"] == outcome.figures.bytes_taken_over
    clean_all(site)
    assert read_rows(site, table) == read_rows(site, table, honours_visibility=False) == before
    assert left(site, table) == tuple(sorted(outcome.output))
    assert uploads(place, _top(place)) == []
