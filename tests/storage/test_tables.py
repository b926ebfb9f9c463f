"""Tables in HDFS and in object stores through initiator, worker and cleaner: their rows stay, and nothing else does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from compactor.acid.names import CLAIM_PREFIX
from compactor.answers.explain import explain
from compactor.base.errors import StorageError
from compactor.cleaner.cleaner import clean
from compactor.compaction.states import State
from compactor.initiator.initiator import initiate
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import TXNS
from compactor.requests.restore import restore
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.publish import quarantine_moves
from compactor.site import lost_workers
from compactor.site.quarantine import erase_due
from compactor.site.site import Site, own_state
from compactor.state.state_tables import QUARANTINES
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from compactor.worker.ending import Outcome, Result
from tests.storage.conftest import KINDS, Place
from tests.support import insert_only
from tests.support.daemons import Between, Hdfs
from tests.support.moved_tables import moved, read_rows
from tests.support.passes import clean_all, compact, settle
from tests.support.tables import delete, entity_of, insert, make_table, with_settings

WHOLE = pytest.mark.whole


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="300ms")


def left(site: Site, table: Table) -> tuple[str, ...]:
    names = site.storage.children(site.target(entity_of(table)).location)
    return tuple(name for name in names if not name.startswith(CLAIM_PREFIX))


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    made = make_table(site, warehouse)
    insert(site, made, range(10))
    insert(site, made, range(10, 20))
    insert(site, made, range(1000, 1002), commits=False)
    delete(site, made, [3, 14])
    insert(site, made, range(20, 30))
    delete(site, made, [4])
    return made


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        *((place, kind) for place in KINDS for kind in ("minor", "major")),
        pytest.param("httpfs", "minor", marks=pytest.mark.whole),
        *(pytest.param("ozone", kind, marks=pytest.mark.whole) for kind in ("minor", "major")),
    ],
    indirect=["place"],
)
def test_a_table_is_compacted_and_cleaned(site: Site, table: Table, place: Place, kind: str) -> None:
    site = moved(site, table, place.stores, place.location)
    before = read_rows(site, table)
    assert len(before) == 30 - 3
    outcome = compact(site, kind, full=True)
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    assert read_rows(site, table) == before
    clean_all(site)
    assert left(site, table) == tuple(sorted(outcome.output))
    assert read_rows(site, table) == read_rows(site, table, honours_visibility=False) == before


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_what_was_replaced_is_kept_where_the_store_renames(site: Site, table: Table, place: Place) -> None:
    """PROTOCOL 11.15: and the compaction can be undone; a store that cannot keep it says so, and nothing is removed."""
    site = with_settings(
        moved(site, table, place.stores, place.location),
        compactor_quarantine="7d",
        hive_txn_opentxn_timeout="1ms",
        hive_compactor_cleaner_retry_retentionTime="1ms",
    )
    before, wanted = set(left(site, table)), read_rows(site, table)
    outcome = compact(site, "major")
    store = site.storage.capabilities(place.location)
    if not store.renames:
        settle()
        (failed,) = clean(site).failed
        assert f"compactor.quarantine is 7d (from flag) and {store.store} cannot keep directories" in failed.because
        assert (set(left(site, table)), read_rows(site, table)) == (before | set(outcome.output), wanted)
        site.metastore.embedded_catalog.set_table_parameter(table, "compactor.quarantine", "0s")
        clean_all(site)
        assert set(left(site, table)) == set(outcome.output)
        return
    clean_all(site)
    assert set(left(site, table)) == {".compactor_quarantine_1", *outcome.output}
    aborted = {"delta_0000003_0000003_0000"}
    held = quarantine_moves.listing(site.storage, site.target(entity_of(table)).location, 1).directories
    assert (set(held), read_rows(site, table)) == (before - aborted, wanted)
    restore(site, "default.t", None, 1, "ann")
    assert set(left(site, table)) == {".compactor_quarantine_1", *(before - aborted)}
    assert read_rows(site, table) == read_rows(site, table, honours_visibility=False) == wanted
    with own_state(site).database.write() as conn:
        conn.execute(update(QUARANTINES).values(UNTIL=1))
    assert [one.entry_id for one in erase_due(site)] == [1]
    assert (set(left(site, table)), read_rows(site, table)) == (before - aborted, wanted)


_FORMATS = ((FileFormat.ORC, "major"), (FileFormat.PARQUET, "minor"), (FileFormat.TEXT, "major"))


@pytest.mark.parametrize(
    ("place", "file_format", "kind"),
    [
        *(
            pytest.param(
                place, *case, marks=[] if case is _FORMATS[turn % 3] or place == "local" else pytest.mark.whole
            )
            for turn, place in enumerate(KINDS)
            for case in _FORMATS
        ),
        *(pytest.param("ozone", *case, marks=pytest.mark.whole) for case in _FORMATS),
    ],
    indirect=["place"],
)
def test_an_insert_only_table_is_compacted_and_cleaned(
    site: Site, warehouse: Path, place: Place, file_format: FileFormat, kind: str
) -> None:
    """Files are read by ranges, put together on this machine's disk, and uploaded once they are proven."""
    table = insert_only.make_insert_only(site, warehouse, file_format)
    for start in (0, 10, 20):
        insert_only.insert(site, table, file_format, range(start, start + 10))
        insert_only.insert(site, table, file_format, range(1000, 1010), commits=start != 10)
    site = moved(site, table, place.stores, place.location)
    before = insert_only.rows_of(site, table, file_format)
    assert len(before) == 50
    outcome = compact(site, kind)
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    assert insert_only.rows_of(site, table, file_format) == before
    clean_all(site)
    assert left(site, table) == tuple(sorted(outcome.output))
    assert insert_only.rows_of(site, table, file_format) == before


def test_the_initiator_and_explain_see_it(site: Site, table: Table, place: Place) -> None:
    site = with_settings(moved(site, table, place.stores, place.location), hive_compactor_delta_num_threshold="3")
    (considered,) = initiate(site).considered
    assert (considered.entity, considered.entry_id) == (entity_of(table), 1)
    (told,) = explain(site, "default.t").partitions
    # readers read five deltas, not the one of the write that was not committed
    assert (told.surveyed.location, told.surveyed.content.deltas) == (place.location, 5)


def test_a_reader_hinders_only_what_is_named_file_by_file(site: Site, table: Table, place: Place) -> None:
    """PROTOCOL 5: several files on a store without directory rename are named under EXCLUSIVE, tried; 7.3: and removed
    under it."""
    site = moved(site, table, place.stores, place.location)
    before = read_rows(site, table)
    reader = site.metastore.transactions.open("reader", site.host)[0]
    request = site.target(entity_of(table)).lock(LockType.SHARED_READ)
    assert site.metastore.locks.try_acquire(reader, [request], "reader", site.host)
    outcome = compact(site)
    if place.kind in ("local", "hdfs"):
        assert outcome.result is Result.COMPACTED
        site.metastore.transactions.commit(reader)
        return
    assert outcome.result is Result.WAITING
    assert "has no rename, so 2 files are named one by one under an exclusive lock" in outcome.message
    assert not [name for name in left(site, table) if name.startswith(("base", "_"))]
    assert read_rows(site, table, honours_visibility=False) == before
    site.metastore.transactions.commit(reader)
    assert again(site).result is Result.COMPACTED
    reader = site.metastore.transactions.open("reader", site.host)[0]
    assert site.metastore.locks.try_acquire(reader, [request], "reader", site.host)
    settle()
    done = clean(site)
    assert not done.cleaned
    assert done.waiting
    site.metastore.transactions.commit(reader)
    clean_all(site)
    assert len(left(site, table)) == 1
    assert read_rows(site, table) == before


def again(site: Site) -> Outcome:
    """Works once more on the request that is in the queue."""
    from compactor.batches.assembly import list_claimable_ids
    from compactor.batches.driver import run_entries
    from compactor.rewrite.run.runner import InProcessRunner

    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    return outcome


def failed_without_a_trace(site: Site, table: Table, outcome: Outcome, before: list[tuple[Any, ...]]) -> None:
    assert outcome.result is Result.FAILED
    assert not [name for name in left(site, table) if name.startswith(("base", "_"))]
    assert read_rows(site, table) == read_rows(site, table, honours_visibility=False) == before


@pytest.fixture
def hdfs_place(cluster: Hdfs, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    from tests.storage.conftest import hdfs_options

    stores = Stores(hdfs_options(cluster.url))
    location = f"{cluster.location}/{request.node.originalname}-{tmp_path.name}/t"
    stores.make_directories(location, like=f"{cluster.location}/")
    return Place(kind="hdfs", location=location, stores=stores)


@pytest.mark.whole
def test_a_data_node_that_goes_while_it_is_written_to(
    site: Site, table: Table, hdfs_place: Place, cluster: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 3.4: a write that fails half way publishes nothing."""
    site = moved(site, table, hdfs_place.stores, hdfs_place.location)
    before = read_rows(site, table)
    store = hdfs_place.stores.store_of(hdfs_place.location)
    upload = type(store).upload

    def breaks(self: Any, *given: Any) -> None:
        cluster.data_node.end()
        upload(self, *given)

    monkeypatch.setattr(type(store), "upload", breaks)
    outcome = compact(site)
    monkeypatch.undo()
    cluster.data_node.start()
    cluster.data_node.until(cluster.can_write)
    assert "cannot write" in outcome.message
    failed_without_a_trace(site, table, outcome, before)
    assert compact(site).result is Result.COMPACTED
    assert read_rows(site, table) == before


@pytest.fixture(scope="session")
def s3_between(s3_url: str) -> Iterator[Between]:
    with Between(s3_url) as found:
        yield found


@pytest.fixture
def between(s3_between: Between) -> Between:
    """One proxy for all tests, since a new address costs a new client; reset for each of them."""
    s3_between.reset()
    return s3_between


@pytest.fixture
def s3_place(between: Between, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    options = {"endpoint_url": between.url, "key": "somebody", "secret": "something"}
    impatient = {
        "retries": {"max_attempts": 0}
    }  # a failure is one at once: the client's own pauses are not ours to test
    stores = Stores(StoreOptions.from_tables({"s3": {**options, "config_kwargs": impatient}}))
    location = f"s3://warehouse/{request.node.originalname}-{tmp_path.name}/t"
    return Place(kind="s3", location=location, stores=stores)


def _puts(method: str, path: str, *parts: str) -> bool:
    return method == "PUT" and all(part in path for part in parts)


def completes(method: str, path: str) -> bool:
    """Returns true if a request completes an upload into the base: it names the file."""
    return method == "POST" and "/t/base_" in path and "uploadId=" in path


@pytest.mark.parametrize(
    ("full", "passes", "is_it"),
    [
        pytest.param(False, 1, lambda method, path: "partNumber=" in path, id="part"),
        pytest.param(False, 0, lambda method, path: _puts(method, path, "/out/"), id="staging", marks=WHOLE),
        pytest.param(False, 1, completes, id="completing", marks=WHOLE),
        pytest.param(False, 0, lambda method, path: _puts(method, path, "/t/base_", "_orc_acid_version"), id="side"),
        pytest.param(True, 1, lambda method, path: _puts(method, path, "/attempts/"), id="full-upload", marks=WHOLE),
        pytest.param(True, 1, lambda method, path: _puts(method, path, "/out/"), id="full-staging", marks=WHOLE),
        pytest.param(True, 1, lambda method, path: _puts(method, path, "/t/base_"), id="full-naming", marks=WHOLE),
    ],
)
def test_a_server_that_fails_half_way(
    site: Site,
    table: Table,
    s3_place: Place,
    between: Between,
    full: bool,
    passes: int,
    is_it: Callable[[str, str], bool],
) -> None:
    """PROTOCOL 3.4, 5: whatever fails, nothing is named, and what was completed or copied is taken back."""
    site = moved(site, table, s3_place.stores, s3_place.location)
    before = read_rows(site, table)
    let_pass = [passes]

    def fails(asked: str, path: str) -> bool:
        if not is_it(asked, path):
            return False
        let_pass[0] -= 1
        return let_pass[0] < 0

    between.fails = fails
    outcome = compact(site, full=full)
    between.fails = lambda method, path: False
    assert let_pass[0] < 0
    failed_without_a_trace(site, table, outcome, before)
    assert uploads(s3_place, s3_place.stores.resolve(s3_place.location)) == []
    assert compact(site, full=full).result is Result.COMPACTED
    assert read_rows(site, table) == before


def test_rows_are_sent_once_and_never_copied(site: Site, table: Table, s3_place: Place, between: Between) -> None:
    """Uploads are begun under their final keys and completed by naming; what tells of the directory comes last."""
    site = moved(site, table, s3_place.stores, s3_place.location)
    between.seen.clear()
    outcome = compact(site)
    assert outcome.result is Result.COMPACTED
    sent = [(method, path) for method, path in between.seen if method in ("PUT", "POST") and "delete" not in path]
    data = [(method, path) for method, path in sent if "bucket_" in path]
    assert data
    assert all("/t/base_" in path and ("uploads" in path or "uploadId=" in path) for _, path in data)
    named = [path for method, path in sent if completes(method, path)]
    assert len(named) == 2
    side = [path for method, path in sent if "/t/base_" in path and "_orc_acid_version" in path]
    assert sent.index(("PUT", side[0])) > max(sent.index(("POST", path)) for path in named)
    assert uploads(s3_place, s3_place.stores.resolve(s3_place.location)) == []


def test_attempts_that_nobody_names_are_aborted(
    site: Site, table: Table, s3_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A speculative attempt uploads to the same key; only what the driver accepted is completed."""
    site = moved(site, table, s3_place.stores, s3_place.location)
    before = read_rows(site, table)
    store = s3_place.stores.store_of("s3://x")
    begin = type(store).begin  # type: ignore[attr-defined]
    monkeypatch.setattr(type(store), "begin", lambda self, *named: begin(self, *named) and begin(self, *named))
    assert compact(site).result is Result.COMPACTED
    assert read_rows(site, table) == before
    assert uploads(s3_place, s3_place.stores.resolve(s3_place.location)) == []


@pytest.mark.whole
def test_an_upload_that_a_rule_of_the_bucket_aborted_is_noticed(
    site: Site, table: Table, s3_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is named, or while it is."""
    from compactor.rewrite.publish import naming, stage

    site = moved(site, table, s3_place.stores, s3_place.location)
    before = read_rows(site, table)
    top = s3_place.stores.resolve(s3_place.location)
    store: Any = s3_place.stores.store_of(top)
    for module, act, said in (
        (stage, "check_staged", "has 0 bytes, "),
        (naming, "name_directories", "cannot complete"),
    ):
        real = getattr(module, act)

        def aborted(*arguments: Any, real: Callable[..., None] = real) -> None:
            (last,) = store._uploads(top, f"{uploads(s3_place, top)[-1]}")
            store._abort(top, last["Key"], last["UploadId"])
            real(*arguments)

        monkeypatch.setattr(module, act, aborted)
        outcome = compact(site)
        monkeypatch.undo()
        assert said in outcome.message
        failed_without_a_trace(site, table, outcome, before)
        assert uploads(s3_place, top) == []
    assert compact(site).result is Result.COMPACTED


def test_a_completion_whose_answer_was_lost_is_no_failure(s3_place: Place, tmp_path: Path) -> None:
    """The client asks again, and the store knows no such upload any more."""
    local = tmp_path / "f"
    local.write_bytes(b"rows")
    top = s3_place.stores.resolve(s3_place.location)
    store: Any = s3_place.stores.store_of(top)
    upload = store.begin(str(local), f"{top}/base_0000001_v0000009/f")
    assert (store.held_bytes(upload), store.exists(upload.path)) == (4, False)
    store._complete(upload)
    store._complete(upload)
    assert store.read(upload.path) == b"rows"


def test_the_tag_of_a_part_may_be_quoted_once_and_not_the_next_time(
    s3_place: Place, between: Between, tmp_path: Path
) -> None:
    """As by Ozone's gateway."""
    local = tmp_path / "f"
    local.write_bytes(b"rows")
    top = s3_place.stores.resolve(s3_place.location)
    store: Any = s3_place.stores.store_of(top)
    between.headers = lambda method, name, value: value.strip('"') if name.lower() == "etag" else value
    upload = store.begin(str(local), f"{top}/base_0000001_v0000009/f")
    assert (store.held_bytes(upload), '"' in upload.parts[0]) == (4, False)
    with pytest.raises(StorageError, match="holds other parts than were sent"):
        store.held_bytes(replace(upload, parts=("0" * 32,)))


def test_only_uploads_of_dead_workers_are_abandoned(s3_place: Place, tmp_path: Path) -> None:
    """Others write by parts below the same location, and names of Hive's own compactions have transactions too."""
    local = tmp_path / "f"
    local.write_bytes(b"rows")
    top = s3_place.stores.resolve(s3_place.location)
    store: Any = s3_place.stores.store_of(top)
    names = ("base_0000005_v0000007/b", "delta_0000001_0000002_v0000008/b", "delta_0000003_0000003_0000/b", "x/b", "b")
    for name in names:
        store.begin(str(local), f"{top}/{name}")
    store.abandon(top, lambda txn: txn == 7)
    assert {key.partition("/t/")[2] for key in uploads(s3_place, top)} == set(names[1:])
    store.abandon(top, lambda txn: True)
    assert {key.partition("/t/")[2] for key in uploads(s3_place, top)} == set(names[2:])


@pytest.mark.parametrize("after", [pytest.param(0, marks=WHOLE), 1, pytest.param(2, marks=WHOLE)])
def test_a_worker_that_dies_between_two_completions(site: Site, table: Table, s3_place: Place, after: int) -> None:
    """PROTOCOL 6 and 7.2: whatever it completed is taken away, and what it didn't is aborted; the next pass goes on."""
    site = moved(site, table, s3_place.stores, s3_place.location)
    before = read_rows(site, table)
    top = s3_place.stores.resolve(s3_place.location)
    process = os.fork()
    if process == 0:
        _die_naming(site, after)
    _, status = os.waitpid(process, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert len(uploads(s3_place, top)) == 2 - after
    assert read_rows(site, table) == before  # by visibility
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=0))
    (repaired,) = lost_workers.repair(site)
    assert repaired.result is State.INITIATED
    assert uploads(s3_place, top) == []
    assert not [name for name in left(site, table) if name.startswith(("base", "_"))]
    assert read_rows(site, table, honours_visibility=False) == before
    assert again(site).result is Result.COMPACTED
    assert read_rows(site, table) == before


def _die_naming(site: Site, after: int) -> None:
    """Compacts, and is killed when ``after`` files have their names."""
    try:
        store = type(site.storage.store_of("s3://x"))  # type: ignore[attr-defined]
        complete, done = store._complete, []

        def dies(self: Any, upload: Any) -> None:
            if len(done) == after:
                os.kill(os.getpid(), signal.SIGKILL)
            complete(self, upload)
            done.append(upload)

        def one_by_one(act: Callable[[Any], None], many: Sequence[Any]) -> None:
            for one in many:
                act(one)

        store._complete, store._each = dies, staticmethod(one_by_one)
        if after == 2:
            store._copy = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
        compact(site)
    finally:
        os._exit(1)


def test_what_was_named_half_is_taken_away_alone_before_the_request_goes_on(
    site: Site, table: Table, s3_place: Place, between: Between
) -> None:
    """PROTOCOL 7.2: without rename under EXCLUSIVE, and until then the entry isn't queued again."""
    site = moved(site, table, s3_place.stores, s3_place.location)
    before = read_rows(site, table)
    named: list[str] = []

    def fails(method: str, path: str) -> bool:
        if completes(method, path):
            named.append(path)
            return len(named) > 1
        return bool(named) and method in ("POST", "DELETE")

    between.fails = fails
    outcome = compact(site)
    between.fails = lambda method, path: False
    assert outcome.result is Result.FAILED
    assert "the next pass tries again" in outcome.message
    assert [name for name in left(site, table) if name.startswith("base")]
    reader = site.metastore.transactions.open("reader", site.host)[0]
    request = site.target(entity_of(table)).lock(LockType.SHARED_READ)
    assert site.metastore.locks.try_acquire(reader, [request], "reader", site.host)
    assert lost_workers.repair(site) == ()
    assert site.metastore.entries.queue()[0].state is State.WORKING
    site.metastore.transactions.commit(reader)
    (repaired,) = lost_workers.repair(site)
    assert repaired.result is State.INITIATED
    assert not [name for name in left(site, table) if name.startswith(("base", "_"))]
    assert uploads(s3_place, s3_place.stores.resolve(s3_place.location)) == []
    assert read_rows(site, table, honours_visibility=False) == before
    assert again(site).result is Result.COMPACTED
    assert read_rows(site, table) == before


@pytest.mark.parametrize("act", ["upload", "begin"])
def test_an_upload_by_parts_that_fails_is_aborted(
    s3_place: Place, between: Between, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """PROTOCOL 3.4: no key appears, and no part goes on costing, whether the store's client sends the parts or we do."""
    from compactor.base.errors import StorageError
    from compactor.storage import s3

    monkeypatch.setattr(s3, "UPLOAD_PART_BYTES", 5 << 20)
    monkeypatch.setattr(s3, "PARTS", replace(s3.PARTS, sent=5 << 20))
    local = tmp_path / "big"
    local.write_bytes(bytes(11 << 20))
    top = s3_place.stores.resolve(s3_place.location)
    between.fails = lambda method, path: "partNumber=2" in path
    with pytest.raises(StorageError, match="cannot write"):
        getattr(s3_place.stores.store_of(top), act)(str(local), f"{top}/f")
    between.fails = lambda method, path: False
    assert not s3_place.stores.exists(f"{top}/f")
    assert uploads(s3_place, top) == []
    s3_place.stores.upload(str(local), f"{top}/f")
    assert s3_place.stores.length(f"{top}/f") == 11 << 20
    assert any("partNumber=3" in path for _, path in between.seen)


def test_uploads_of_dead_workers_are_aborted_with_their_directory(s3_place: Place) -> None:
    """PROTOCOL 6: uploads of a dead worker are aborted."""
    top = s3_place.stores.resolve(s3_place.location)
    store: Any = s3_place.stores.store_of(top)
    for name in (".compactor_v7/attempts/a/rows", ".compactor_v77/attempts/a/rows"):
        store._call(top, "create_multipart_upload", Key=f"{top.removeprefix('s3://warehouse/')}/{name}")
    s3_place.stores.remove(f"{top}/.compactor_v7")
    (kept,) = uploads(s3_place, top)
    assert ".compactor_v77" in kept
    s3_place.stores.remove(f"{top}/.compactor_v77")
    assert uploads(s3_place, top) == []


def uploads(place: Place, top: str) -> list[str]:
    store: Any = place.stores.store_of(top)
    found = store._call(top, "list_multipart_uploads", Prefix=top.removeprefix("s3://warehouse/"))
    return [upload["Key"] for upload in found.get("Uploads", ())]


@pytest.mark.parametrize("whole_bytes", [1 << 20, 1 << 30], ids=["parts", "whole"])
def test_an_object_is_copied_within_the_store_and_one_too_large_for_one_request_by_parts(
    s3_place: Place, between: Between, monkeypatch: pytest.MonkeyPatch, whole_bytes: int
) -> None:
    """PROTOCOL 3.4: the driver copies server-side; no byte of it passes here."""
    from compactor.storage import s3

    monkeypatch.setattr(s3, "WHOLE_COPY_BYTES", whole_bytes)
    monkeypatch.setattr(s3, "COPY_PART_BYTES", 5 << 20)
    top = s3_place.stores.resolve(s3_place.location)
    content = bytes(range(256)) * (6 << 12)
    s3_place.stores.write(f"{top}/a/f", content)
    between.seen.clear()
    s3_place.stores.rename(f"{top}/a", f"{top}/b")
    assert [path for method, path in between.seen if method == "GET" and path.endswith("/f")] == []
    assert any("partNumber=2" in path for _, path in between.seen) is (whole_bytes < len(content))
    assert s3_place.stores.read(f"{top}/b/f") == content
    assert not s3_place.stores.exists(f"{top}/a")
