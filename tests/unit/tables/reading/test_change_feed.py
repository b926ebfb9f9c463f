"""The changes of a table between two versions."""

from __future__ import annotations

import datetime
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import ChangesGone, NotFound, NotSupported, Refused, SnapshotExpired
from compactor.base.ids import WriteId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.requests.request import request_compaction
from compactor.rewrite.full_acid.delete_events import EventSorter, pack_events
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rows.keys import key_block
from compactor.site.site import Site
from compactor.tables import Store, Table
from compactor.tables.reading import change_feed
from compactor.tables.reading.change_feed import _first_events
from compactor.tables.store import named_table
from compactor.worker.under_way import Options
from demo.delta_writer import write_deletes
from tests.support.passes import clean_all, compact
from tests.support.tables import with_settings

Change = tuple[int, str, int | None, str | None]


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    store = Store(site)
    store.create_database("db", str(warehouse))
    created = store.create_table("db.t", {"i": "int", "s": "string"})
    created.append(rows((1, "a"), (2, "b"), (3, "c")))
    return created


def rows(*values: tuple[int | None, str | None]) -> pa.Table:
    return pa.table({"i": pa.array([i for i, _ in values], pa.int32()), "s": [s for _, s in values]})


def changes(table: Table, *range_: int, **options: Any) -> list[Change]:
    feed = table.changes(*range_, **options).read_all().to_pylist()
    listed = [(row["_commit_version"], row["_change_type"], row["i"], row["s"]) for row in feed]
    return sorted(listed, key=str)


def values(table: Table, as_of: int) -> list[int]:
    return sorted(table.scan(as_of=as_of).to_arrow()["i"].to_pylist())


def test_inserts_and_deletes_come_with_their_versions(table: Table) -> None:
    assert table.version() == 1
    table.delete("i = 2")
    table.append(rows((4, "d")))
    assert changes(table, 1) == [(2, "delete", 2, "b"), (3, "insert", 4, "d")]
    assert changes(table, 0, 1) == [(1, "insert", 1, "a"), (1, "insert", 2, "b"), (1, "insert", 3, "c")]
    assert changes(table, 3) == []
    assert [values(table, version) for version in range(4)] == [[], [1, 2, 3], [1, 3], [1, 3, 4]]


def test_the_schema_has_the_change_after_the_columns(table: Table) -> None:
    reader = table.changes(0)
    assert reader.schema.names == ["i", "s", "_change_type", "_commit_version", "_commit_timestamp", "row__id"]
    assert reader.read_all().to_pylist()[1]["row__id"] == {"writeid": 1, "bucketid": 536870912, "rowid": 1}
    narrow = table.changes(0, selected_fields=["S"]).read_all()
    assert narrow.schema.names == ["s", "_change_type", "_commit_version", "_commit_timestamp", "row__id"]


def test_a_key_makes_updates_of_pairs(table: Table) -> None:
    table.append(rows((None, "n")))
    table.update({"s": "'x'"}, "i = 1 or i is null")  # 3
    table.upsert(rows((2, "y"), (9, "z")), ["i"])  # 4
    assert changes(table, 2, key=["i"]) == [
        (3, "delete", None, "n"),
        (3, "insert", None, "x"),
        (3, "update_postimage", 1, "x"),
        (3, "update_preimage", 1, "a"),
        (4, "insert", 9, "z"),
        (4, "update_postimage", 2, "y"),
        (4, "update_preimage", 2, "b"),
    ]
    kinds = {change[1] for change in changes(table, 2, key=["i"], selected_fields=["s", "i"])}
    assert kinds == {"delete", "insert", "update_preimage", "update_postimage"}
    only_keys = table.changes(2, key="i", selected_fields=["s"]).read_all()
    assert "i" not in only_keys.schema.names
    assert only_keys["_change_type"].to_pylist().count("update_postimage") == 2


def test_several_rows_of_a_key_are_no_update(table: Table) -> None:
    table.append(rows((1, "a2")))
    table.update({"s": "'x'"}, "i = 1")
    assert {change[1] for change in changes(table, 2, key=["i"])} == {"delete", "insert"}


def test_both_readings_of_a_key_use_one_listing(site: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two listings a compaction could change the order of files, and updates are known by their places."""
    store = Store(site)
    store.create_database("db", str(warehouse))
    created = store.create_table("db.p", {"i": "int", "s": "string", "k": "int"}, partitioned_by=["k"])
    created.append(rows((1, "a"), (2, "b")), partition={"k": 7})
    created.update({"s": "'x'"}, "i = 1")
    listed: list[str] = []
    listing = type(site.storage).listing

    def count(storage: Any, place: str, *arguments: Any, **options: Any) -> Any:
        listed.append(place)
        return listing(storage, place, *arguments, **options)

    monkeypatch.setattr(type(site.storage), "listing", count)
    pairs = created.changes(1, key=["k", "i"]).read_all()
    assert sorted(pairs["_change_type"].to_pylist()) == ["update_postimage", "update_preimage"]
    assert [place.rpartition("/")[2] for place in listed] == ["k=7"]


def test_keys_are_equal_as_in_joins(site: Site, table: Table) -> None:
    """Times beyond nanoseconds and zeros of both signs are found, and names of columns do not matter."""
    created = Store(site).create_table("db.k", {"position": "timestamp", "is_insert": "double", "s": "string"})
    old = datetime.datetime(2500, 1, 1)
    zero = pa.table({"position": pa.array([old], pa.timestamp("us")), "is_insert": [0.0], "s": ["a"]})
    created.append(zero)
    created.upsert(zero.set_column(1, "is_insert", pa.array([-0.0])), ["is_insert"])
    for form in ("us", "parts"):
        images = created.changes(1, key=["Position", "is_insert"], timestamps=form).read_all()["_change_type"]
        assert sorted(images.to_pylist()) == ["update_postimage", "update_preimage"]


def test_columns_that_are_called_like_those_of_the_feed_are_refused(site: Site, table: Table) -> None:
    created = Store(site).create_table("db.k", {"i": "int", "_commit_Version": "int"})
    created.append(pa.table({"i": [1], "_commit_version": [7]}))
    with pytest.raises(NotSupported, match="column _commit_version has the name of a column of the feed"):
        created.changes(0)
    with pytest.raises(NotSupported, match="column _commit_version has the name"):
        created.changes(0, selected_fields=["i"], key=["_commit_version"])
    assert created.changes(0, selected_fields=["i"], key=["i"]).read_all()["i"].to_pylist() == [1]


def test_a_net_feed_leaves_out_what_came_and_went(table: Table) -> None:
    table.append(rows((4, "d"), (5, "e")))
    table.delete("i in (1, 4)")
    assert changes(table, 1, net=True) == [(2, "insert", 5, "e"), (3, "delete", 1, "a")]
    assert changes(table, 1, 2, net=True) == [(2, "insert", 4, "d"), (2, "insert", 5, "e")]
    assert changes(table, 2, net=True) == [(3, "delete", 1, "a"), (3, "delete", 4, "d")]


def test_what_a_write_deletes_of_its_own_is_not_shown(site: Site, table: Table) -> None:
    with Store(site).transaction() as txn:
        loaded = txn.load_table("db.t")
        loaded.append(rows((4, "d"), (5, "e")))
        loaded.delete("i in (1, 4)")
    assert changes(table, 1) == changes(table, 1, net=True) == [(2, "delete", 1, "a"), (2, "insert", 5, "e")]


def test_a_late_commit_belongs_to_a_later_version(site: Site, table: Table) -> None:
    with Store(site).transaction() as txn:
        late = txn.load_table("db.t")
        late.append(rows((4, "late")))
        assert late.version() == 1
        assert late.scan().count() == 4
        assert late.scan(as_of=1).count() == 3
        table.append(rows((5, "e")))
        assert table.version() == 1
        assert changes(table, 1) == []
        with pytest.raises(Refused, match=r"version 3 .*expected a version from 0 to 1.* write 2 has not ended yet"):
            table.changes(1, 3)
    assert table.version() == 3
    assert changes(table, 1) == [(2, "insert", 4, "late"), (3, "insert", 5, "e")]


def test_an_overwrite_that_is_not_committed_hides_no_version(site: Site, table: Table) -> None:
    with Store(site).transaction() as txn:
        loaded = txn.load_table("db.t")
        loaded.overwrite(rows((9, "new")))
        assert loaded.scan().count() == 1
        assert values(loaded, 1) == [1, 2, 3]


def test_aborted_writes_are_in_no_feed(site: Site, table: Table) -> None:
    with suppress(ZeroDivisionError), Store(site).transaction() as txn:
        txn.load_table("db.t").append(rows((4, "d")))
        txn.load_table("db.t").delete("i = 1")
        raise ZeroDivisionError
    assert table.version() == 2
    assert changes(table, 1) == []
    assert changes(table, 0, 2, net=True) == changes(table, 0, 1)


@pytest.mark.parametrize("replace", ["major", "overwrite", "rebalance"])
def test_replaced_directories_end_the_feed(site: Site, table: Table, replace: str) -> None:
    table.delete("i = 2")
    if replace == "overwrite":
        table.overwrite(rows((7, "g")))
    else:
        compact(site, replace, table="db.t")
    first = 2 if replace == "major" else 3
    for _ in range(2):
        with pytest.raises(SnapshotExpired, match=rf"version 1 can no longer be read: .*/t/base_.* is {first}$"):
            table.scan(as_of=1).to_arrow()
        with pytest.raises(
            ChangesGone, match=rf"since version 1 are no longer complete: .*since version {first}:"
        ) as gone:
            table.changes(1)
        assert gone.value.first_version == first
        table.append(rows((8, "h")))
        assert changes(table, first, first + 1) == [(first + 1, "insert", 8, "h")]
        clean_all(site)


def test_a_minor_ends_the_feed_within_its_range(site: Site, table: Table) -> None:
    table.append(rows((4, "d")))
    table.delete("i = 4")
    compact(site, "minor", table="db.t")
    table.delete("i = 1")  # 4
    for version in (1, 2):
        with pytest.raises(SnapshotExpired, match=r"delta_0000001_0000003_v.* merged .* that can be read is 3$"):
            table.scan(as_of=version).to_arrow()
        with pytest.raises(ChangesGone, match="up to version"):
            table.changes(0, version, net=True)
    with pytest.raises(ChangesGone):  # the row 4 came and went without a trace
        table.changes(0)
    assert [change[:3] for change in changes(table, 0, net=True)] == [(1, "insert", 2), (1, "insert", 3)]
    assert changes(table, 3) == [(4, "delete", 1, "a")]
    assert values(table, 3) == [1, 2, 3]


def test_the_version_to_continue_from_can_be_read(site: Site, table: Table) -> None:
    """One partition is replaced by version 2, and a minor of the other has merged the versions 1 to 4."""
    parted = Store(site).create_table("db.p", {"i": "int", "p": "int"}, partitioned_by=["p"])
    parted.append(pa.table({"i": [1, 2], "p": [1, 2]}))
    parted.overwrite(pa.table({"i": [3]}), partition={"p": 1})
    for number in (4, 5):
        parted.append(pa.table({"i": [number], "p": [2]}))
    request_compaction(site, table="db.p", partition="p=2", type="minor")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    for range_ in ((0, 0), (0, 4), (1, 2)):
        with pytest.raises(ChangesGone) as gone:
            parted.changes(*range_)
        assert gone.value.first_version == 4
    assert values(parted, 4) == [2, 3, 4, 5]
    assert parted.changes(4).read_all().num_rows == 0


def test_only_partitions_that_are_read_must_be_whole(site: Site, table: Table) -> None:
    parted = Store(site).create_table("db.p", {"i": "int", "p": "int"}, partitioned_by=["p"])
    parted.append(pa.table({"i": [1, 2], "p": [1, 2]}))
    parted.overwrite(pa.table({"i": [3]}), partition={"p": 1})
    assert parted.scan("p = 2", as_of=1).to_arrow().to_pylist() == [{"i": 2, "p": 2}]
    with pytest.raises(SnapshotExpired, match="/p/p=1/base_0000002"):
        parted.scan(as_of=1).to_arrow()


def test_rows_of_equal_row_ids_in_two_partitions_are_not_confused(site: Site, table: Table) -> None:
    parted = Store(site).create_table("db.p", {"i": "int", "p": "int"}, partitioned_by=["p"])
    parted.append(pa.table({"i": [1, 2], "p": [1, 2]}))
    parted.delete("i = 2")
    deleted = parted.changes(1).read_all().to_pylist()
    assert [(row["i"], row["p"], row["_change_type"]) for row in deleted] == [(2, 2, "delete")]


def test_only_the_first_delete_of_a_row_is_a_change(site: Site, table: Table, warehouse: Path) -> None:
    """Two writers that lock nothing may both delete a row."""
    table.delete("i = 1")
    table.delete("i = 2")
    (first,) = warehouse.glob("t/delete_delta_0000002_*")
    (second,) = warehouse.glob("t/delete_delta_0000003_*")
    shutil.copyfile(first / "bucket_00000", second / "bucket_00000")  # its events say that write 2 has deleted row 1
    assert changes(table, 1) == [(2, "delete", 1, "a")]
    assert changes(table, 2) == []


def test_a_row_that_a_smaller_write_id_deletes_is_never_shown(site: Site, table: Table, warehouse: Path) -> None:
    """Hive allocates a write ID before it waits for its lock, and then reads what was committed meanwhile."""
    with Store(site).transaction() as txn:
        txn.load_table("db.t").append(rows((4, "d")))  # 2
        table.append(rows((5, "e"), (6, "f")))  # 3
    stored = named_table(site, "db.t")
    deleted = pa.Table.from_pylist([{"writeid": 3, "bucketid": 536870912, "rowid": 0}])
    write_deletes(str(warehouse / "t"), stored.row_type, deleted, write_id=WriteId(2), statement_id=1)
    assert [values(table, version) for version in (1, 2, 3)] == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 6]]
    for net in (False, True):
        assert changes(table, 1, 2, net=net) == [(2, "insert", 4, "d")]
        assert changes(table, 2, 3, net=net) == [(3, "insert", 6, "f")]
        assert changes(table, 1, net=net) == [(2, "insert", 4, "d"), (3, "insert", 6, "f")]


def test_stripes_without_a_deleted_row_are_not_decoded(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base holds the rows of two writes, each in stripes of their own."""
    table.append(rows((4, "d")))
    request_compaction(site, table="db.t", type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner(), Options(small_stripe_bytes=0))
    table.delete("i = 4")
    decoded: list[int] = []
    keys = change_feed.stripe_keys
    monkeypatch.setattr(change_feed, "stripe_keys", lambda file, stripe: decoded.append(stripe) or keys(file, stripe))
    assert changes(table, 2) == [(3, "delete", 4, "d")]
    assert decoded == [1]


def test_first_events_are_found_across_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "_EVENTS", 2)
    sorter = EventSorter(str(tmp_path))

    def add(events: Sequence[tuple[int, int]]) -> None:
        row_ids = np.array([row for row, _ in events], np.int64)
        ones = np.ones(len(events), np.int64)
        sorter.add(
            pack_events(key_block(ones, ones.astype(np.int32), row_ids), np.array([c for _, c in events], np.int64))
        )

    add([(1, 9), (2, 5), (2, 3), (2, 8)])
    add([(2, 7), (3, 4), (3, 6), (4, 6)])
    events = _first_events(sorter.finish(), ValidWriteIdList(table=None, high_watermark=WriteId(4)))
    assert list(zip(events.keys["row_id"].tolist(), events.current.tolist(), strict=True)) == [(1, 9), (4, 6)]


def test_a_row_that_is_missing_ends_the_feed(table: Table, warehouse: Path) -> None:
    table.append(rows((4, "d")))
    table.delete("i = 4")
    (lost,) = warehouse.glob("t/delta_0000002_*")
    (other,) = warehouse.glob("t/delta_0000001_*")
    shutil.copyfile(other / "bucket_00000", lost / "bucket_00000")
    with pytest.raises(ChangesGone, match=r"1 rows in .* were deleted since version 2, but only 0 of them") as gone:
        table.changes(2).read_all()
    assert gone.value.first_version == 3


def test_rows_whose_file_is_missing_end_the_feed(site: Site, table: Table, warehouse: Path) -> None:
    created = Store(site).create_table("db.b", {"i": "int"}, clustered_by=(["i"], 3))
    created.append(pa.table({"i": range(12)}))
    created.delete("i < 12")
    files = sorted(warehouse.glob("b/delta_*/bucket_*"))
    assert len(files) == 3
    files[1].unlink()
    for net in (False, True):
        with pytest.raises(ChangesGone, match=r"rows in .* were deleted since version 1, but only 0 of them"):
            created.changes(1, net=net).read_all()
    assert created.changes(2).read_all().num_rows == 0


def test_a_version_that_is_not_final_is_named_with_what_it_waits_for(site: Site, table: Table) -> None:
    """A write is open in one partition while another partition is replaced."""
    created = Store(site).create_table("db.p", {"i": "int", "p": "int"}, partitioned_by=["p"])
    created.append(pa.table({"i": [1, 2], "p": [1, 2]}))
    with Store(site).transaction() as txn:
        txn.load_table("db.p").append(pa.table({"i": [3]}), partition={"p": 2})
        created.overwrite(pa.table({"i": [4]}), partition={"p": 1})
        with pytest.raises(SnapshotExpired, match=r"that can be read is 3, once write 2 has ended$"):
            created.scan(as_of=created.version()).to_arrow()
        with pytest.raises(ChangesGone, match=r"as of version 3, once write 2 has ended, and continue"):
            created.changes(1)
    with pytest.raises(SnapshotExpired, match=r"that can be read is 3$"):
        created.scan(as_of=1).to_arrow()
    assert values(created, 3) == [2, 3, 4]


def test_versions_that_are_no_numbers_are_refused(table: Table) -> None:
    for version in ("1", 1.0, None):
        with pytest.raises(Refused, match=rf"version {version!r} is not available: expected a whole number"):
            table.changes(version)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="version '1'"):
        table.scan(as_of="1")  # type: ignore[arg-type]
    assert table.scan(as_of=np.int64(1)).count() == 3  # type: ignore[arg-type]


def test_versions_that_do_not_exist_are_refused(table: Table) -> None:
    for version in (-1, 2):
        with pytest.raises(Refused, match=rf"version {version} is not available: expected a version from 0 to 1"):
            table.scan(as_of=version).to_arrow()
    with pytest.raises(Refused, match="cannot end with version 0"):
        table.changes(1, 0)
    with pytest.raises(NotFound, match="no column 'k'"):
        table.changes(0, key=["k"])


def test_nested_columns_are_no_key(site: Site, table: Table) -> None:
    nested = Store(site).create_table("db.n", {"i": "int", "l": "array<int>"})
    with pytest.raises(NotSupported, match="column l cannot identify rows"):
        nested.changes(0, key=["l"])


def test_commits_have_times_until_they_are_forgotten(site: Site, table: Table) -> None:
    now = time.time() * 1000
    (at,) = {row["_commit_timestamp"] for row in table.changes(0).read_all().to_pylist()}
    assert abs(at.timestamp() * 1000 - now) < 3_600_000
    compact(site, "major", table="db.t")
    clean_all(site)
    assert {row["_commit_timestamp"] for row in table.changes(1).read_all().to_pylist()} == set()


def test_an_error_names_the_version_to_continue_from(site: Site, table: Table) -> None:
    table.append(rows((4, "d")))
    compact(site, "major", table="db.t")
    with pytest.raises(ChangesGone) as gone:
        table.changes(0)
    version = gone.value.first_version
    assert re.search(rf"read the table as of version {version}, and continue from there", str(gone.value))
    assert values(table, version) == [1, 2, 3, 4]
    assert changes(table, version) == []
