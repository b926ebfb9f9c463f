"""A pass reads only tables that have changed, and considers only candidates that have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compactor.acid.listing import Listing
from compactor.base.errors import DatabaseUnavailable
from compactor.compaction.states import State
from compactor.initiator import table_changes
from compactor.initiator.candidate_page import CandidatePage
from compactor.initiator.fresh_look import look_at
from compactor.initiator.initiator import InitiatorPass, initiate
from compactor.initiator.table_changes import TableChanges
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.components import Components
from compactor.requests.request import request_compaction
from compactor.site.site import Site, own_state
from compactor.state.seen_conditions import Conditions
from compactor.storage.local import LocalStorage
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of
from tests.support.passes import with_storage
from tests.support.tables import insert, make_table, with_settings

HOUR_MS = 3_600_000


class Listed(LocalStorage):
    """Keeps the names of the directories that are listed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def listing(self, path: str) -> Listing:
        self.names.append(path.rpartition("/")[2])
        return super().listing(path)


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_storage(with_settings(deployment, hive_txn_opentxn_timeout="1ms"), Listed())


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    """Three partitions, and a second table, all remembered."""
    table = make_partitioned(site, warehouse)
    for value in (1, 2, 3):
        add_partition(site, table, value)
        insert_into(site, table, value, [value])
    insert(site, make_table(site, warehouse, "u"), [1])
    initiate(site)
    assert names(initiate(site)) == set()
    listed(site)
    return table


def names(done: InitiatorPass) -> set[str]:
    return {str(candidate.entity) for candidate in done.considered}


def listed(site: Site) -> list[str]:
    assert isinstance(site.storage, Listed)
    before = site.storage.names[:]
    site.storage.names.clear()
    return before


@contextmanager
def recording(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> Iterator[list[Any]]:
    """Yields the first argument of each call of a method."""
    calls: list[Any] = []
    original = getattr(owner, method)

    def call(self: Any, first: Any, *others: Any, **options: Any) -> Any:
        calls.append(first)
        return original(self, first, *others, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, call)
        yield calls


def between(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, act: Callable[[], object]) -> None:
    """Lets ``act`` happen before the next call of a method."""
    original = getattr(owner, method)

    def call(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, method, original)
        act()
        return original(*args, **options)

    monkeypatch.setattr(owner, method, call)


def move(site: Site, location: Path) -> None:
    location.mkdir(exist_ok=True)
    part = "SELECT SD_ID FROM PARTITIONS WHERE PART_NAME = 'p=2'"
    run(site, f"UPDATE SDS SET LOCATION = '{location}' WHERE SD_ID = ({part})")


def run(site: Site, statement: str) -> None:
    with site.metastore.database.write() as conn:
        assert conn.exec_driver_sql(statement).rowcount == 1


def test_a_table_that_has_not_changed_is_not_read(site: Site, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(site, site.metastore.catalog.table("default", "u"), [2])
    with recording(monkeypatch, Components, "writes") as written:
        done = initiate(site)
    assert (names(done), done.kept, written) == ({"default.u"}, 3, [[("default", "u")]])


def test_of_a_large_table_only_what_has_changed_is_compared(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_into(site, table, 2, [5])
    with recording(monkeypatch, Conditions, "stored_decisions") as whole:
        done = initiate(site)
    assert (names(done), done.kept, listed(site), whole) == ({"default.t/p=2"}, 3, ["p=2"], [])
    assert (names(initiate(site)), initiate(site).kept) == (set(), 4)


def test_a_transaction_that_commits_late_is_seen(site: Site, table: Table) -> None:
    """Its id is smaller than those that the passes before have seen."""
    (txn,) = site.metastore.transactions.open("slow", "h")
    write_id = site.metastore.write_ids.allocate(txn, "default", "t")
    site.metastore.write_ids.add_component(txn, partition_of(table, 1), "i", write_id)
    insert_into(site, table, 2, [5])
    initiate(site)
    initiate(site)
    site.metastore.transactions.commit(txn)
    assert "default.t/p=1" in names(initiate(site))


def test_other_partitions_under_the_same_ids_are_seen(site: Site, table: Table) -> None:
    """A database that was restored hands out the same ids again."""
    run(site, "UPDATE COMPLETED_TXN_COMPONENTS SET CTC_PARTITION = 'p=2' WHERE CTC_PARTITION = 'p=3'")
    assert names(initiate(site)) == {"default.t/p=2"}


def test_other_writes_with_the_same_sum_of_ids_are_seen(site: Site, table: Table) -> None:
    """Redundant rows are removed, a late transaction and a new one commit."""
    for _ in range(2):
        insert_into(site, table, 2, [5])
    initiate(site)
    rows = "SELECT {}(CTC_TXNID) FROM COMPLETED_TXN_COMPONENTS WHERE CTC_PARTITION = 'p=2'"
    with site.metastore.database.read() as conn:
        first, last = (conn.exec_driver_sql(rows.format(end)).scalar_one() for end in ("min", "max"))
    run(site, f"UPDATE COMPLETED_TXN_COMPONENTS SET CTC_TXNID = {first} - 1 WHERE CTC_TXNID = {first}")
    run(site, f"UPDATE COMPLETED_TXN_COMPONENTS SET CTC_TXNID = {last} + 1 WHERE CTC_TXNID = {last}")
    assert names(initiate(site)) == {"default.t/p=2"}


@pytest.mark.parametrize("reading", [1, 2])
def test_without_sums_everything_is_considered(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    """The database may stop statements that take long."""
    original, calls = table_changes.read_table_sums, 0

    def read(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == reading:
            raise DatabaseUnavailable("canceling statement due to statement timeout")
        return original(*args)

    insert_into(site, table, 2, [5])
    with monkeypatch.context() as patch:
        patch.setattr(table_changes, "read_table_sums", read)
        done = initiate(site)
    assert (names(done), done.kept, calls) == ({"default.t/p=2"}, 3, reading)
    insert_into(site, table, 3, [5])
    assert names(initiate(site)) == {"default.t/p=3"}


def test_a_candidate_without_a_stored_decision_is_considered_again(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was considered, but the state could not be written."""
    insert_into(site, table, 2, [5])

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the state is full")

    with monkeypatch.context() as patch:
        patch.setattr(Conditions, "record", fail)
        assert names(initiate(site)) == {"default.t/p=2"}
    assert names(initiate(site)) == {"default.t/p=2"}
    assert names(initiate(site)) == set()


@pytest.mark.parametrize("method", ["_read_known", "_read_whole"])
def test_a_change_that_is_undone_before_the_next_pass_is_noticed(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """A partition is elsewhere while a pass decides about it, and back when the next one compares sums."""
    if method == "_read_whole":
        own_state(site).conditions.forget_bases(site.name)
    insert_into(site, table, 2, [5])
    between(monkeypatch, CandidatePage, method, lambda: move(site, Path(table.location).parent / "elsewhere"))
    assert "elsewhere" in {*map(str, listed(site))} or "default.t/p=2" in names(initiate(site))
    assert listed(site)[-1:] != ["p=2"]
    move(site, Path(table.location, "p=2"))
    assert "default.t/p=2" in names(initiate(site))
    assert "p=2" in listed(site)


@pytest.mark.parametrize("point", [(TableChanges, "claim"), (CandidatePage, "sort_out"), (CandidatePage, "remember")])
def test_two_passes_at_once_do_not_remember_the_older_decision(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch, point: tuple[type, str]
) -> None:
    """The pass that began first stores its decision last; the next pass does not rely on what either has remembered."""
    due = with_storage(
        with_settings(site, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="1"), Listed()
    )
    insert_into(due, table, 2, [5])

    def write_and_pass() -> None:
        insert_into(due, table, 3, [6])
        initiate(due)

    between(monkeypatch, *point, write_and_pass)
    initiate(due)
    requested = {entry.entity.partition for entry in due.metastore.entries.queue()}
    initiate(due)
    assert {*requested, *(entry.entity.partition for entry in due.metastore.entries.queue())} == {"p=2", "p=3"}


def test_a_pause_after_failures_is_found_by_its_end(site: Site, table: Table) -> None:
    for _ in range(2):
        request_compaction(site, table="default.t", partition="p=2", type="major")
        entry = site.metastore.claims.claim("compactor-test", "test", pool_timeout_ms=0)
        assert entry is not None
        site.metastore.claims.finish(entry, State.FAILED, "by a test")
    initiate(site)
    initiate(site)  # the first has noted in the history that it has not initiated one
    assert names(initiate(site)) == set()
    state = own_state(site)
    row = state.conditions.for_entities(site.name, [partition_of(table, 2)])[partition_of(table, 2)]
    week = 7 * 24 * HOUR_MS
    assert row.look_at is not None
    assert 0 < row.look_at - site.metastore.now_ms() <= week
    assert state.conditions.due_for_a_look(site.name, row.look_at) == [row.entity]


def test_what_another_role_has_looked_at_is_considered_again(site: Site, table: Table) -> None:
    """Its look has replaced the decision, and no pass may reuse it."""
    look_at(site, partition_of(table, 2))
    assert names(initiate(site)) == {"default.t/p=2"}
    assert names(initiate(site)) == set()


def test_what_is_no_candidate_is_looked_at_once(site: Site, table: Table) -> None:
    add_partition(site, table, 4)
    look_at(site, partition_of(table, 4))
    assert own_state(site).conditions.due_for_a_look(site.name, site.metastore.now_ms())
    initiate(site)
    assert own_state(site).conditions.due_for_a_look(site.name, site.metastore.now_ms()) == []


def test_a_pass_that_dies_leaves_nothing_remembered(site: Site, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    insert_into(site, table, 2, [5])

    def die() -> None:
        raise KeyboardInterrupt

    between(monkeypatch, CandidatePage, "remember", die)
    with pytest.raises(KeyboardInterrupt):
        initiate(site)
    assert ("default", "t") not in own_state(site).memories.read(site.name)
    insert_into(site, table, 3, [5])
    assert names(initiate(site)) == {"default.t/p=3"}


def test_names_in_another_form_are_never_remembered(site: Site, warehouse: Path) -> None:
    """Hive records a static partition's name escaped twice."""
    table = make_partitioned(site, warehouse, "s", "string")
    add_partition(site, table, "a:b")
    insert_into(site, table, "a%3Ab", [1], under="a%253Ab")
    for _ in range(3):
        done = initiate(site)
        assert len(done.considered) + done.kept == 1
    assert ("default", "s") not in own_state(site).memories.read(site.name)
    insert_into(site, table, "a%3Ab", [2], under="a%253Ab")
    assert names(initiate(site)) == {"default.s/p=a%3Ab"}


def test_a_table_with_a_name_in_another_case_is_considered_in_full(site: Site, table: Table) -> None:
    insert_into(site, table, 2, [5])
    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPLETED_TXN_COMPONENTS SET CTC_PARTITION = 'P=2' WHERE CTC_PARTITION = 'p=2'")
    initiate(site)
    assert ("default", "t") not in own_state(site).memories.read(site.name)
    insert_into(site, table, 2, [6])
    assert names(initiate(site)) == {"default.t/p=2"}


def test_sorted_partitions_are_found_under_a_name_in_another_case(site: Site, table: Table) -> None:
    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPLETED_TXN_COMPONENTS SET CTC_TABLE = 'T' WHERE CTC_TABLE = 't'")
        part = "SELECT SD_ID, 'a', 1, 0 FROM PARTITIONS WHERE PART_NAME = 'p=1'"
        conn.exec_driver_sql(f'INSERT INTO SORT_COLS (SD_ID, COLUMN_NAME, "ORDER", INTEGER_IDX) {part}')
    initiate(site)
    assert ("default", "T") not in own_state(site).memories.read(site.name)
