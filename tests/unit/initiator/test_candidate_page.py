"""Whatever a decision depends on, the next pass considers it again if that has changed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.acid.listing import Listing
from compactor.base.ids import TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.pool_policy import PoolPolicy, Window
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.initiator.initiator import InitiatorPass, initiate, look_again
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import Site
from compactor.state.seen_conditions import Conditions
from compactor.state.stored_overrides import Override
from compactor.state.table_memories import TableMemories
from compactor.storage.local import LocalStorage
from tests.support.far_store import OthersMeet, count_as_far
from tests.support.kept_tables import KeptTables
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of
from tests.support.passes import clean_all, with_storage
from tests.support.tables import insert, make_table, with_settings

ALL = {"p=1", "p=2", "p=3"}
HOUR_MS = 3_600_000


class Counting(LocalStorage):
    """Keeps the names of the directories that are listed."""

    def __init__(self) -> None:
        self.listed: list[str] = []

    def listing(self, path: str) -> Listing:
        self.listed.append(path.rpartition("/")[2])
        return super().listing(path)


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_storage(with_settings(deployment, hive_txn_opentxn_timeout="1ms"), Counting())


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    """Three partitions with two deltas each, of which the first has two aborted transactions without a directory."""
    return kept_tables.get(site, warehouse, make_three_partitions)


def make_three_partitions(site: Site, warehouse: Path) -> Table:
    table = make_partitioned(site, warehouse)
    for value in (1, 2, 3):
        add_partition(site, table, value)
        for row in (1, 2):
            insert_into(site, table, value, [row])
    abort(site, partition_of(table, 1), count=2)
    return table


def abort(site: Site, entity: Entity, count: int = 1) -> None:
    for txn in site.metastore.transactions.open("ann", "h", count=count):
        write_id = site.metastore.write_ids.allocate(txn, entity.database, entity.table)
        site.metastore.write_ids.add_component(txn, entity, "i", write_id)
        site.metastore.transactions.abort(txn, "died")


def run_sql(site: Site, statement: str) -> None:
    with site.metastore.database.write() as conn:
        assert conn.exec_driver_sql(statement).rowcount


def considered(done: InitiatorPass) -> set[str | None]:
    return {one.entity.partition for one in done.considered}


def listed(site: Site) -> list[str]:
    assert isinstance(site.storage, Counting)
    found = site.storage.listed[:]
    site.storage.listed.clear()
    return found


def settle(site: Site) -> None:
    """Runs passes until everything is remembered."""
    initiate(site)
    initiate(site)
    listed(site)
    done = initiate(site)
    assert (done.kept, considered(done), listed(site)) == (3, set(), [])


def override(site: Site, table: Table) -> None:
    assert site.state is not None
    one = Override(database="default", table="t", key="hive.compactor.delta.num.threshold", value="7", by="ann")
    site.state.overrides.keep(site.name, one)


def other_place(site: Site, table: Table) -> None:
    elsewhere = Path(table.location).parent / "elsewhere"
    Path(table.location, "p=1").rename(elsewhere)
    run_sql(site, f"UPDATE SDS SET LOCATION = '{elsewhere}' WHERE LOCATION LIKE '%/p=1'")


def neighbour(site: Site, table: Table) -> None:
    """Another transactional table whose directory lies in that of a partition."""
    inside = make_table(site, Path(table.location).parent, "u")
    run_sql(site, f"UPDATE SDS SET LOCATION = '{table.location}/p=1/u' WHERE LOCATION = '{inside.location}'")


def sorted_from_now_on(site: Site, table: Table) -> None:
    run_sql(
        site,
        'INSERT INTO SORT_COLS (SD_ID, COLUMN_NAME, "ORDER", INTEGER_IDX) '
        "SELECT SD_ID, 'b', 1, 0 FROM PARTITIONS WHERE PART_NAME = 'p=1'",
    )


def made_anew(site: Site, table: Table) -> None:
    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        number = conn.exec_driver_sql("SELECT PART_ID FROM PARTITIONS WHERE PART_NAME = 'p=1'").scalar_one()
        for rows in ("PARTITION_KEY_VALS", "PARTITION_PARAMS", "PARTITIONS"):
            conn.exec_driver_sql(f"UPDATE {rows} SET PART_ID = PART_ID + 1000 WHERE PART_ID = {number}")


def property_of(key: str, value: str) -> Callable[[Site, Table], object]:
    return lambda site, table: site.metastore.embedded_catalog.set_table_parameter(table, key, value)


EVENTS: dict[str, tuple[Callable[[Site, Table], object], set[str | None]]] = {
    "written": (lambda site, table: insert_into(site, table, 1, [3]), {"p=1"}),
    "cleaned": (
        lambda site, table: run_sql(
            site,
            "DELETE FROM COMPLETED_TXN_COMPONENTS WHERE CTC_PARTITION = 'p=1' AND CTC_TXNID = "
            "(SELECT min(CTC_TXNID) FROM COMPLETED_TXN_COMPONENTS WHERE CTC_PARTITION = 'p=1')",
        ),
        {"p=1"},
    ),
    "aborted": (lambda site, table: abort(site, partition_of(table, 2)), {"p=2"}),
    "aborted once more": (lambda site, table: abort(site, partition_of(table, 1)), {"p=1"}),
    "forgotten": (
        lambda site, table: run_sql(
            site, "DELETE FROM TXN_COMPONENTS WHERE TC_TXNID = (SELECT min(TC_TXNID) FROM TXN_COMPONENTS)"
        ),
        {"p=1"},
    ),
    "an abort grows old": (
        lambda site, table: run_sql(site, f"UPDATE TXNS SET TXN_STARTED = TXN_STARTED - {13 * HOUR_MS}"),
        {"p=1"},
    ),
    "aborted in whatever partition": (
        lambda site, table: insert_into(site, table, 3, [9], commits=False, recorded=False),
        {None, *ALL},
    ),
    "requested": (
        lambda site, table: request_compaction(site, table="default.t", partition="p=2", type="major"),
        {"p=2"},
    ),
    "not initiated": (
        lambda site, table: site.metastore.requests.did_not_initiate(partition_of(table, 2), "by a test"),
        {"p=2"},
    ),
    "threshold of the table": (property_of("compactorthreshold.hive.compactor.delta.num.threshold", "7"), ALL),
    "switched off": (property_of("no_auto_compaction", "true"), ALL),
    "kind of table": (property_of("transactional_properties", "insert_only"), ALL),
    "switched off for the database": (
        lambda site, table: site.metastore.embedded_catalog.set_database_parameter(
            "default", "no_auto_compaction", "true"
        ),
        ALL,
    ),
    "override": (override, ALL),
    "partition moved": (other_place, {"p=1"}),
    "table moved": (
        lambda site, table: run_sql(site, "UPDATE SDS SET LOCATION = LOCATION || '/' WHERE SD_ID = 1"),
        ALL,
    ),
    "partition made anew": (made_anew, {"p=1"}),
    "another table in its directory": (neighbour, ALL),
    "partition dropped": (lambda site, table: site.metastore.embedded_catalog.drop_partition(table, "p=1"), set()),
    "sorted": (sorted_from_now_on, {"p=1"}),
    "by a person's hand": (look_again, ALL),
}


@pytest.mark.parametrize("event", EVENTS)
def test_what_has_changed_is_considered_again(site: Site, table: Table, event: str) -> None:
    settle(site)
    act, wanted = EVENTS[event]
    act(site, table)
    assert considered(initiate(site)) == wanted


@pytest.mark.parametrize(
    "values",
    [
        {"hive_compactor_delta_num_threshold": "7"},
        {"compactor_mode": "request"},
        {"compactor_paused": "true"},
    ],
    ids=str,
)
def test_other_settings_of_the_site_are_a_reason_to_look(site: Site, table: Table, values: dict[str, str]) -> None:
    settle(site)
    other = with_settings(site, hive_txn_opentxn_timeout="1ms", **values)
    assert considered(initiate(other)) == ALL


def test_off_peak_hours_are_a_reason_to_look(site: Site, table: Table) -> None:
    settle(site)
    always = (Window(days=frozenset(range(7)), begin=0, end=24 * 60),)
    policy = PoolPolicy(name="default", off_peak=always, off_peak_settings={"hive.compactor.delta.num.threshold": "7"})
    assert considered(initiate(replace(site, pools={"default": policy}))) == ALL


def test_a_pause_after_failures_ends_with_time(site: Site, table: Table) -> None:
    for _ in range(2):
        (asked,) = request_compaction(site, table="default.t", partition="p=2", type="major")
        claimed = site.metastore.claims.claim("compactor-test", "test", pool_timeout_ms=0)
        assert claimed is not None
        site.metastore.claims.finish(claimed, State.FAILED, "by a test")
        assert claimed.id == asked.entry_id
    settle(site)
    run_sql(site, "UPDATE COMPLETED_COMPACTIONS SET CC_ENQUEUE_TIME = 1 WHERE CC_STATE = 'f'")
    done = initiate(site)
    assert (considered(done), listed(site)) == ({"p=2"}, ["p=2"])


def test_every_state_of_a_compaction_is_a_reason_to_look(site: Site, table: Table) -> None:
    settle(site)
    request_compaction(site, table="default.t", partition="p=2", type="major")
    assert considered(initiate(site)) == {"p=2"}
    assert considered(initiate(site)) == set()
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    assert considered(initiate(site)) == {"p=2"}
    assert considered(initiate(site)) == set()
    clean_all(site)
    assert considered(initiate(site)) == set(), "it is no candidate any longer"
    assert initiate(site).kept == 2


def test_what_waits_for_open_transactions_is_looked_at_when_they_end(site: Site, table: Table) -> None:
    """The end of a transaction elsewhere in the table lets directories count that were left out."""
    (txn,) = site.metastore.transactions.open("ann", "h")
    write_id = site.metastore.write_ids.allocate(txn, "default", "t")
    site.metastore.write_ids.add_component(txn, partition_of(table, 3), "i", write_id)
    insert_into(site, table, 2, [3])
    settle(site)
    site.metastore.transactions.abort(txn, "by a test")
    assert considered(initiate(site)) == {"p=2", "p=3"}


def test_a_compaction_that_nobody_sees_yet_is_looked_at_in_each_pass(site: Site, table: Table) -> None:
    """Hive's worker marks its entry before its transaction commits."""
    settle(site)
    (txn,) = site.metastore.transactions.open("hive", "h", type=TxnType.COMPACTION)
    Path(table.location, "p=2", f"base_0000003_v{txn:07d}").mkdir()
    look_again(site, table)
    initiate(site)
    assert considered(initiate(site)) == {"p=2"}


@pytest.mark.parametrize("grace", ["0s", "1h"])
def test_aborted_directories_are_looked_at_in_each_pass(site: Site, table: Table, grace: str) -> None:
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_forget_grace=grace)
    insert_into(site, table, 2, [9], commits=False)
    initiate(site)
    assert considered(initiate(site)) == {"p=2"}


def test_errors_and_disagreements_are_looked_at_in_each_pass(site: Site, table: Table) -> None:
    Path(table.location, "p=2", "delta_0000099_0000099_0000").mkdir()
    Path(table.location, "p=3").rename(Path(table.location, "away"))
    for _ in range(2):
        outcomes = {one.entity.partition: one.outcome for one in initiate(site).considered}
    assert outcomes == {"p=2": "disagreement", "p=3": "error"}


def test_a_full_look_comes_after_some_check_intervals(site: Site, table: Table) -> None:
    period = 300_000 * 12
    for age, expected in ((period // 2 - 60_000, set()), (period, ALL)):
        look_again(site)
        settle(site)
        let_decisions_grow_old(site, age)
        assert considered(initiate(site)) == expected


def let_decisions_grow_old(site: Site, by_ms: int) -> None:
    assert site.state is not None
    with site.state.database.write() as conn:
        conn.exec_driver_sql(f"UPDATE COMPACTOR_CONDITIONS SET SEEN_AT = SEEN_AT - {by_ms}")
        conn.exec_driver_sql(
            f"UPDATE COMPACTOR_TABLE_MEMORIES SET MADE_AT = MADE_AT - {by_ms}, LOOK_AT = LOOK_AT - {by_ms}"
        )


def test_an_older_copy_of_the_database_is_looked_at(site: Site, table: Table) -> None:
    """PROTOCOL 11.2: after a restore numbers are given again, and what they are the digests of is something else."""
    settle(site)
    assert site.state is not None
    with site.state.database.write() as conn:
        for table in ("COMPACTOR_CONDITIONS", "COMPACTOR_TABLE_MEMORIES"):
            conn.exec_driver_sql(f"UPDATE {table} SET NEWEST_TXN_ID = NEWEST_TXN_ID + 1000")
    assert considered(initiate(site)) == ALL


def test_a_decision_that_stands_and_is_due_asks_again(site: Site, table: Table) -> None:
    """Nothing is listed for it; the worker decides again anyway."""
    due = with_settings(site, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="1")
    observing = with_settings(
        due, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="1", compactor_mode="observe"
    )
    first, second = initiate(observing), initiate(observing)
    assert [(one.outcome, one.because) for one in second.considered] == [
        (one.outcome, one.because) for one in first.considered
    ]
    assert len(listed(site)) == 3
    assert (second.kept, site.metastore.entries.queue()) == (0, [])


def test_what_was_asked_for_again_is_requested(site: Site, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was refused or lost does not need a write to be made again."""
    due = with_settings(site, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="1")
    due = with_storage(due, Counting())
    assert len(initiate(due).enqueued) == 3
    run_sql(due, "DELETE FROM COMPACTION_QUEUE")
    listed(due)
    assert (len(initiate(due).enqueued), listed(due)) == (3, [])


def test_a_pass_looks_at_everything_if_nothing_can_be_read_of_the_last(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(site)

    def fail(*_: object) -> None:
        raise RuntimeError("the state is away")

    monkeypatch.setattr(Conditions, "stored_decisions", fail)
    monkeypatch.setattr(TableMemories, "read", fail)
    assert considered(initiate(site)) == ALL


def test_a_table_without_partitions_is_remembered_too(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse, "plain")
    insert(site, table, [1])
    assert (len(initiate(site).considered), initiate(site).kept) == (1, 1)
    insert(site, table, [2])
    assert (len(initiate(site).considered), initiate(site).kept) == (1, 1)


def test_a_bad_setting_of_one_table_ends_no_pass(site: Site, table: Table, warehouse: Path) -> None:
    other = make_table(site, warehouse, "u")
    insert(site, other, [1])
    wrong = Layer(name="hive-site.xml", values={"hive.compactor.initiator.failed.compacts.threshold": "many"})
    bad = replace(site, settings=Settings.of([wrong]))
    for _ in range(2):
        assert [one.outcome for one in initiate(bad).considered] == ["error"] * 4


def test_transactions_are_numbers(site: Site, table: Table) -> None:
    initiate(site)
    assert site.state is not None
    decided = site.state.conditions.stored_decisions(site.name, [("default", "t")])["default", "t"]
    assert {one.newest_txn for one in decided.values()} == {TxnId(site.metastore.transactions.newest())}


def test_candidates_are_listed_side_by_side(deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that answers slowly is waited for once for several candidates, not once for each."""
    tables = [make_table(deployment, warehouse, name) for name in ("t", "u", "v")]
    for table in tables:
        insert(deployment, table, [1])
    count_as_far(monkeypatch)
    meeting = OthersMeet(len(tables))

    class Meeting(LocalStorage):
        def listing(self, path: str) -> Listing:
            meeting.wait()
            return super().listing(path)

    considered = initiate(with_storage(deployment, Meeting())).considered
    assert [(one.entity.table, one.outcome) for one in considered] == [(name, "notneeded") for name in ("t", "u", "v")]
