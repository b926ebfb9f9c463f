"""The rules for removing obsolete directories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compactor.acid.directory import AcidDirectory
from compactor.base.errors import BadName
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.cleaning import (
    Clean,
    CleaningFacts,
    Drop,
    Wait,
    cleanup_delay,
    list_removable,
    may_clean,
    retry_retention,
)
from compactor.compaction.queue_entry import WAITS, Entity, Entry
from compactor.compaction.states import NEXT, CompactionType, State
from compactor.settings.precedence import Layer, Settings

DEFAULTS = Settings.of()
DELAYED = Settings.of([Layer(name="flag", values={"hive.compactor.delayed.cleanup.enabled": "true"})])
COMMITTED = 1_000_000
READY = Entry(
    id=7,
    entity=Entity(database="db", table="t"),
    state=State.READY_FOR_CLEANING,
    type=CompactionType.MAJOR,
    txn_id=TxnId(50),
    next_txn_id=TxnId(60),
    commit_time=COMMITTED,
    highest_write_id=WriteId(9),
)
UNSTAMPED = replace(READY, next_txn_id=None, commit_time=None)


def _may(
    entry: Entry = READY,
    lowest: int = 100,
    state: str | None = "c",
    *,
    now: int = COMMITTED + 1,
    settings: Settings = DEFAULTS,
    newest: int | None = None,
    **facts: Any,
) -> Clean | Wait | Drop:
    found = CleaningFacts(
        lowest_open=TxnId(lowest),
        txn_state=state,
        now_ms=now,
        newest_at_first_sight=None if newest is None else TxnId(newest),
        **facts,
    )
    return may_clean(entry, found, settings)


@pytest.mark.parametrize(("lowest", "clean"), [(61, True), (60, False), (59, False), (100, True)])
def test_the_gate_is_strict(lowest: int, clean: bool) -> None:
    """PROTOCOL 7.1: the newest transaction at the commit may still read replaced directories (Hive ignores it)."""
    verdict = _may(lowest=lowest)
    if clean:
        assert verdict == Clean()
    else:
        assert isinstance(verdict, Wait)
        assert verdict.holder == lowest


def test_a_stamp_that_hive_wrote_too_early_counts_as_missing() -> None:
    """PROTOCOL 7.1: Hive 4.2 commits without TXN_LOCK_TBL, so transaction 61 may have opened between stamp and commit."""
    assert _may(lowest=61) == Clean()
    for lowest, newest in ((61, 61), (61, 90)):
        verdict = _may(lowest=lowest, newest=newest, stamped_early=True)
        assert isinstance(verdict, Wait)
        assert verdict.holder == 61
    assert _may(lowest=62, newest=61, stamped_early=True) == Clean()
    verdict = _may(lowest=100, stamped_early=True)
    assert isinstance(verdict, Wait)
    assert verdict.remember_newest


def test_a_row_waits_while_its_own_transaction_is_open() -> None:
    """PROTOCOL 7.4: Hive marks a rebalance ready before it commits."""
    verdict = _may(state="o")
    assert isinstance(verdict, Wait)
    assert verdict.holder == 50


def test_a_row_of_an_aborted_transaction_fails() -> None:
    """PROTOCOL 6: in Hive such a row stays in the queue forever and blocks the table; here it ends."""
    expected = Drop(state=State.FAILED, error="compaction transaction 50 aborted", aborted=True)
    assert _may(state="a") == expected
    assert _may(UNSTAMPED, state="a", lowest=1) == expected


@pytest.mark.parametrize("stamp", [{"next_txn_id": TxnId(60)}, {"commit_time": 5, "next_txn_id": TxnId(60)}])
def test_a_stamped_row_without_a_txns_row_has_committed(stamp: dict[str, int]) -> None:
    """PROTOCOL 7.4."""
    assert _may(replace(UNSTAMPED, **stamp), state=None) == Clean()  # type: ignore[arg-type]


@pytest.mark.parametrize("type_", [CompactionType.MAJOR, CompactionType.MINOR])
def test_an_unstamped_row_without_a_txns_row_is_refused(type_: CompactionType) -> None:
    """PROTOCOL 7.4: nothing proves the commit, so neither its inputs nor its outputs are touched."""
    verdict = _may(replace(UNSTAMPED, type=type_), state=None, rebalance_committed=True)
    assert isinstance(verdict, Drop)
    assert (verdict.state, verdict.aborted) == (State.REFUSED, False)


def test_rebalance_without_stamps() -> None:
    """PROTOCOL 7.1, 7.4: Hive never stamps it; once storage proves it, it waits for transactions open at first sight."""
    rebalance = replace(UNSTAMPED, type=CompactionType.REBALANCE)
    assert isinstance(_may(rebalance, state=None), Drop)
    unseen = _may(rebalance, state=None, rebalance_committed=True)
    assert isinstance(unseen, Wait)
    assert unseen.remember_newest
    assert isinstance(_may(rebalance, 80, None, rebalance_committed=True, newest=80), Wait)
    assert _may(rebalance, 81, None, rebalance_committed=True, newest=80) == Clean()


def test_a_stamp_takes_precedence_over_first_sight() -> None:
    assert _may(lowest=61, newest=99) == Clean()


def test_row_of_hive_3_without_transaction() -> None:
    row = replace(UNSTAMPED, txn_id=None)
    verdict = _may(row, state=None)
    assert isinstance(verdict, Wait)
    assert verdict.remember_newest
    assert _may(row, 81, None, newest=80) == Clean()


@pytest.mark.parametrize(("after", "clean"), [(299_999, False), (300_000, False), (300_001, True)])
def test_delayed_cleanup(after: int, clean: bool) -> None:
    assert isinstance(_may(now=COMMITTED + after, settings=DELAYED), Clean) is clean
    assert _may(now=COMMITTED) == Clean()
    assert cleanup_delay(DEFAULTS) == 0
    assert cleanup_delay(DELAYED) == 300_000


def test_back_off_counts_from_the_last_attempt() -> None:
    """Hive counts from the commit, so that an old row is tried in every cycle."""
    tried = COMMITTED + 10_000_000
    row = replace(READY, cleaner_start=tried, retry_retention=300_000)
    waiting = _may(row, now=tried + 300_000)
    assert isinstance(waiting, Wait)
    assert waiting.because.startswith("cleaning failed (the reason is not known); tried again from 1970-01-01T")
    assert _may(row, now=tried + 300_001) == Clean()


def test_a_row_that_waits_has_not_failed() -> None:
    """It tells what waits, for what, and until which time of day."""
    what = "delta_3_3: written by transactions that were first seen aborted within compactor.forget.grace"
    row = replace(READY, cleaner_start=1_795_794_056_157, retry_retention=3_600_000, error=f"{WAITS}{what}")
    assert _may(row, now=1_795_794_056_157) == Wait(because=f"{what}; it is cleaned from 2026-11-27T16:40:56Z on")
    assert _may(replace(row, error="no space"), now=1_795_794_056_157) == Wait(
        because="cleaning failed (no space); tried again from 2026-11-27T16:40:56Z on"
    )
    delayed = _may(now=COMMITTED, settings=DELAYED)
    assert isinstance(delayed, Wait)
    assert delayed.because.startswith("hive.compactor.delayed.cleanup.enabled is true; it is cleaned from ")


def test_cleaner_start_alone_causes_no_back_off() -> None:
    assert _may(replace(READY, cleaner_start=COMMITTED + 10**9)) == Clean()
    assert _may(replace(READY, cleaner_start=-1, retry_retention=300_000), now=COMMITTED + 300_001) == Clean()


def test_no_cleanup() -> None:
    verdict = _may(forbidden_by="partition")
    assert isinstance(verdict, Drop)
    assert (verdict.state, verdict.aborted) == (State.REFUSED, False)
    assert "no_cleanup of the partition" in (verdict.error or "")


def test_table_is_gone() -> None:
    assert _may(exists=False) == Drop(state=State.SUCCEEDED)


def test_gate_comes_before_everything_that_ends_a_row() -> None:
    assert isinstance(_may(lowest=60, exists=False), Wait)
    assert isinstance(_may(lowest=60, forbidden_by="table"), Wait)


@pytest.mark.parametrize("exists", [True, False])
def test_a_row_that_is_left_to_hive_waits_for_it(exists: bool) -> None:
    """PROTOCOL 7.4."""
    soft = replace(READY, properties={"location": "file:/wh/t.v5", "ifPurge": "true"})
    for row in (soft, replace(READY, is_iceberg=True), replace(READY, type=CompactionType.SMART_OPTIMIZE)):
        verdict = _may(row, exists=exists)
        assert isinstance(verdict, Wait)
        assert row.left_to is not None
        assert row.left_to in verdict.because


def test_abort_cleanup_waits_for_no_reader() -> None:
    """Aborted rows are invisible to every reader; such a row has no transaction of its own."""
    row = replace(UNSTAMPED, txn_id=None, type=CompactionType.ABORT_CLEANUP)
    assert _may(row, lowest=1, state=None) == Clean()
    assert isinstance(_may(replace(row, retry_retention=300_000, enqueue_time=COMMITTED), 1, None), Wait)


@pytest.mark.parametrize("state", [s for s in State if s is not State.READY_FOR_CLEANING])
def test_other_states_are_left_alone(state: State) -> None:
    assert isinstance(_may(replace(READY, state=state)), Wait)


def test_every_outcome_is_in_the_transition_table() -> None:
    """DESIGN 8.4."""
    for verdict in (_may(state="a"), _may(exists=False), _may(forbidden_by="table"), _may(UNSTAMPED, state=None)):
        assert isinstance(verdict, Drop)
        assert verdict.state in NEXT[State.READY_FOR_CLEANING]


def test_removable() -> None:
    directory = AcidDirectory(obsolete=("delta_2", "000000_0"), aborted=("delta_1", "delta_2"))
    assert list_removable(directory) == ("000000_0", "delta_1", "delta_2")
    assert list_removable(AcidDirectory()) == ()


def test_nothing_is_removed_beside_an_unparsable_name() -> None:
    """DESIGN 8.7: an unparsable directory leads to an error that names it, and nothing is lost."""
    with pytest.raises(BadName, match="base_x"):
        list_removable(AcidDirectory(obsolete=("delta_1_1",), unparsable=("base_x",)))


def test_the_wait_doubles_up_to_a_bound() -> None:
    waits = []
    retention = 0
    for _ in range(8):
        retention = retry_retention(retention, DEFAULTS)
        waits.append(retention // 1000)
    assert waits == [300, 600, 1200, 2400, 4800, 9600, 9600, 9600]


def test_wait_without_doubling() -> None:
    settings = Settings.of([Layer(name="flag", values={"hive.compactor.cleaner.retry.maxattempts": "0"})])
    assert retry_retention(0, settings) == retry_retention(300_000, settings) == 300_000
