"""Reasons not to forget an aborted write yet; the accidents are in tests/integration/roles/test_forgetting.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from compactor.acid.names import Hidden, Quarantine
from compactor.acid.tree import Anchor, Tree
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Request
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE
from compactor.site.proof_of_removal import RemovalProof
from compactor.site.site import Site
from compactor.storage.capabilities import S3, Capabilities
from compactor.storage.local import LocalStorage
from tests.support.accidents import missing, renamed_away
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of
from tests.support.passes import with_storage
from tests.support.tables import insert, make_table

ABORTED, ANOTHER = WriteId(2), WriteId(9)


@pytest.fixture
def site(deployment: Site) -> Site:
    return deployment


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    """A partition with a committed and an aborted delta."""
    made = make_partitioned(site, warehouse)
    add_partition(site, made, 1)
    insert_into(site, made, 1, [1])
    insert_into(site, made, 1, [99], commits=False)
    return made


def delta_of(table: Table) -> Path:
    return Path(table.location) / "p=1" / "delta_0000002_0000002_0000"


def test_a_write_is_named_by_where_it_is(site: Site, table: Table) -> None:
    found = RemovalProof(site).of_table(table, [ABORTED, ANOTHER])
    assert found == {ABORTED: str(delta_of(table))}
    target = site.target(partition_of(table, 1))
    assert RemovalProof(site).of_target(target, [ABORTED, ANOTHER]) == found


def test_a_directory_that_is_no_partition_yet_is_searched(site: Site, table: Table) -> None:
    """PROTOCOL 11.11: a dynamic INSERT died before it registered its partition."""
    insert_into(site, table, 7, [99], commits=False, recorded=False)
    assert RemovalProof(site).of_table(table, [WriteId(3)]).keys() == {3}


@pytest.mark.parametrize(
    "put",
    [
        lambda delta: delta.parent / Hidden(final_name=delta.name, until=TxnId(9_999_999)).name,
        lambda delta: delta.parent / Quarantine(entry_id=5).name / delta.name,
        lambda delta: delta.parent / "_backup" / delta.name,
    ],
    ids=["hidden", "in quarantine", "in a hidden directory"],
)
def test_what_readers_skip_is_searched_too(site: Site, table: Table, put: Callable[[Path], Path]) -> None:
    """PROTOCOL 11.11: somebody may put it back."""
    aside = put(delta_of(table))
    aside.parent.mkdir(exist_ok=True)
    delta_of(table).rename(aside)
    assert RemovalProof(site).of_table(table, [ABORTED]) == {ABORTED: str(aside)}
    assert RemovalProof(site).of_target(site.target(partition_of(table, 1)), [ABORTED]) == {ABORTED: str(aside)}


@pytest.mark.parametrize("what", ["the table", "a partition"])
def test_a_location_that_is_missing_keeps_everything(site: Site, table: Table, what: str) -> None:
    place = Path(table.location) if what == "the table" else Path(table.location) / "p=1"
    with missing(place):
        (why,) = RemovalProof(site).of_table(table, [ANOTHER]).values()
    assert str(place) in why
    assert why.endswith("restore it, or drop the partition")


def test_a_partition_that_was_seen_with_data_is_not_taken_for_empty(site: Site, table: Table) -> None:
    """PROTOCOL 11.11: the table's own directory is there and full, and another one has the partition's place."""
    add_partition(site, table, 2)
    insert_into(site, table, 2, [2])
    first = RemovalProof(site)
    first.of_target(site.target(partition_of(table, 1)), [ABORTED])
    first.remember()
    with renamed_away(Path(table.location) / "p=1"):
        (why,) = RemovalProof(site).of_table(table, [ABORTED]).values()
        assert "is another directory than the one that held data there before" in why
        (why,) = RemovalProof(site).of_target(site.target(partition_of(table, 1)), [ABORTED]).values()
        assert "is another directory than the one that held data there before" in why
    assert RemovalProof(site).of_table(table, [ANOTHER]) == {}


def test_an_empty_partition_of_a_table_that_is_there_is_ordinary(site: Site, table: Table) -> None:
    add_partition(site, table, 2)
    assert RemovalProof(site).of_table(table, [ANOTHER]) == {}


@pytest.mark.parametrize("is_partition", [True, False])
def test_a_link_keeps_everything(site: Site, table: Table, warehouse: Path, is_partition: bool) -> None:
    """PROTOCOL 11.13: it is not followed, whatever it leads to."""
    far = warehouse.parent / "far"
    (far / "delta_0000003_0000003_0000").mkdir(parents=True)
    (Path(table.location) / "p=7").symlink_to(far)
    if is_partition:
        add_partition(site, table, 7)
    (why,) = RemovalProof(site).of_table(table, [ANOTHER]).values()
    assert "p=7: is a link; what it leads to is not looked through" in why


def test_soft_deleted_data_elsewhere_keeps_the_writes_of_its_table(site: Site, table: Table) -> None:
    """PROTOCOL 11.11: the place itself is not entered, since a request's properties are anybody's."""
    soft = {"location": "/somewhere/else"}
    gone = Request(entity=partition_of(table, 7), type=CompactionType.MAJOR, initiator="hms", properties=soft)
    site.metastore.requests.request(gone)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_STATE="r", CQ_NEXT_TXN_ID=1, CQ_HIGHEST_WRITE_ID=1))
    (why,) = RemovalProof(site).of_table(table, [ANOTHER]).values()
    assert "soft-deleted data at /somewhere/else" in why
    assert RemovalProof(site).of_target(site.target(partition_of(table, 1)), [ANOTHER]) == {}


def test_nothing_is_searched_for_nothing(site: Site, table: Table) -> None:
    with missing(Path(table.location)):
        assert RemovalProof(site).of_table(table, []) == {}


def test_only_what_changed_is_stored(site: Site, table: Table) -> None:
    assert site.state is not None
    first = RemovalProof(site)
    first.of_table(table, [ABORTED])
    first.remember()
    known = site.state.sightings.locations(site.name)
    assert list(known) == [table.location]
    again = RemovalProof(site)
    again.of_table(table, [ABORTED])
    again.remember()
    assert site.state.sightings.locations(site.name) == known


class Bucket(LocalStorage):
    """Keys without directories: what is not there is empty."""

    def __init__(self, *full: str) -> None:
        self.full = set(full)

    def capabilities(self, path: str) -> Capabilities:
        return S3

    def tree(self, path: str) -> Tree:
        files: dict[str, int] = {"base_0000001": 1} if path in self.full else {}
        return Tree(anchor=Anchor(volume="s3://b"), directories=tuple(files), files=files)

    def anchor(self, path: str) -> Anchor | None:
        return Anchor(volume="s3://b") if path in self.full else None


def test_an_empty_prefix_needs_another_one_seen_in_its_bucket(site: Site, warehouse: Path) -> None:
    """PROTOCOL 11.11: a store without identities."""
    tables = [make_table(site, warehouse, name) for name in ("t", "other")]
    for one in tables:
        insert(site, one, [1])
    bucket = Bucket(*(one.location for one in tables))
    here: Any = with_storage(site, bucket)
    seen = RemovalProof(here)
    assert [seen.of_table(one, [ABORTED]) for one in tables] == [{}, {}]
    seen.remember()
    bucket.full.remove(tables[0].location)
    assert RemovalProof(here).of_table(tables[0], [ABORTED]) == {}
    bucket.full.clear()
    (why,) = RemovalProof(here).of_table(tables[0], [ABORTED]).values()
    assert "nothing that was seen before is seen on s3://b" in why
