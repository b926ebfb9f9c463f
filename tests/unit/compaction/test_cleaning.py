"""When obsolete directories may go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.acid.directory import AcidDirectory
from compactor.compaction.cleaning import Clean, Drop, Wait, delayed_cleanup, may_clean, removable, retry_retention
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import NEXT, CompactionType, State
from compactor.errors import BadName
from compactor.ids import TxnId, WriteId
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
    exists: bool = True,
    forbidden_by: str | None = None,
    rebalance_committed: bool = False,
    newest: int | None = None,
) -> Clean | Wait | Drop:
    return may_clean(
        entry,
        TxnId(lowest),
        state,
        now_ms=now,
        settings=settings,
        exists=exists,
        forbidden_by=forbidden_by,
        rebalance_committed=rebalance_committed,
        newest_at_first_sight=None if newest is None else TxnId(newest),
    )


@pytest.mark.parametrize(("lowest", "clean"), [(61, True), (60, False), (59, False), (100, True)])
def test_gate_is_strict(lowest: int, clean: bool) -> None:
    """PROTOCOL 7.1: the newest transaction at the commit may still read what was replaced (Hive lets it through)."""
    verdict = _may(lowest=lowest)
    if clean:
        assert verdict == Clean()
    else:
        assert isinstance(verdict, Wait)
        assert verdict.holder == lowest


def test_own_transaction_still_open() -> None:
    """PROTOCOL 7.4: Hive marks a rebalance ready before it commits."""
    verdict = _may(state="o")
    assert isinstance(verdict, Wait)
    assert verdict.holder == 50


def test_own_transaction_aborted() -> None:
    """PROTOCOL 6: such a row stays in Hive's queue for ever and blocks the table; here it ends."""
    expected = Drop(state=State.FAILED, error="compaction transaction 50 aborted", aborted=True)
    assert _may(state="a") == expected
    assert _may(UNSTAMPED, state="a", lowest=1) == expected


@pytest.mark.parametrize("stamp", [{"next_txn_id": TxnId(60)}, {"commit_time": 5, "next_txn_id": TxnId(60)}])
def test_transaction_row_gone_with_a_stamp_has_committed(stamp: dict[str, int]) -> None:
    """PROTOCOL 7.4."""
    assert _may(replace(UNSTAMPED, **stamp), state=None) == Clean()  # type: ignore[arg-type]


@pytest.mark.parametrize("type_", [CompactionType.MAJOR, CompactionType.MINOR])
def test_transaction_row_gone_without_a_stamp_is_refused(type_: CompactionType) -> None:
    """PROTOCOL 7.4: nothing proves the commit, so neither its inputs nor its outputs are touched."""
    verdict = _may(replace(UNSTAMPED, type=type_), state=None, rebalance_committed=True)
    assert isinstance(verdict, Drop)
    assert (verdict.state, verdict.aborted) == (State.REFUSED, False)


def test_rebalance_without_stamps() -> None:
    """PROTOCOL 7.1, 7.4: Hive never stamps it; proven by storage it waits for those open at first sight."""
    rebalance = replace(UNSTAMPED, type=CompactionType.REBALANCE)
    assert isinstance(_may(rebalance, state=None), Drop)
    unseen = _may(rebalance, state=None, rebalance_committed=True)
    assert isinstance(unseen, Wait)
    assert unseen.remember_newest
    assert isinstance(_may(rebalance, 80, None, rebalance_committed=True, newest=80), Wait)
    assert _may(rebalance, 81, None, rebalance_committed=True, newest=80) == Clean()


def test_a_stamp_is_believed_over_first_sight() -> None:
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
    assert delayed_cleanup(DEFAULTS) == 0
    assert delayed_cleanup(DELAYED) == 300_000


def test_back_off_counts_from_the_last_try() -> None:
    """Hive counts from the commit, so that an old row is tried in every cycle."""
    tried = COMMITTED + 10_000_000
    row = replace(READY, cleaner_start=tried, retry_retention=300_000)
    waiting = _may(row, now=tried + 300_000)
    assert isinstance(waiting, Wait)
    assert waiting.because.startswith("its last cleaning failed")
    assert _may(row, now=tried + 300_001) == Clean()


def test_cleaner_start_alone_is_no_back_off() -> None:
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


def test_soft_deleted_location() -> None:
    """PROTOCOL 7.4: a row with a location and no table is a case of its own, under the same gate."""
    row = replace(READY, properties={"location": "file:/wh/t.v5", "ifPurge": "true"})
    assert _may(row, exists=False) == Clean(location="file:/wh/t.v5")
    assert isinstance(_may(row, lowest=60, exists=False), Wait)


def test_abort_cleanup_waits_for_nobody() -> None:
    """Aborted rows are invisible to every reader; such a row has no transaction of its own."""
    row = replace(UNSTAMPED, txn_id=None, type=CompactionType.ABORT_CLEANUP)
    assert _may(row, lowest=1, state=None) == Clean()
    assert isinstance(_may(replace(row, retry_retention=300_000, enqueue_time=COMMITTED), 1, None), Wait)


@pytest.mark.parametrize("state", [s for s in State if s is not State.READY_FOR_CLEANING])
def test_other_states_are_left_alone(state: State) -> None:
    assert isinstance(_may(replace(READY, state=state)), Wait)


def test_fates_are_on_the_transition_table() -> None:
    """DESIGN 8.4."""
    for verdict in (_may(state="a"), _may(exists=False), _may(forbidden_by="table"), _may(UNSTAMPED, state=None)):
        assert isinstance(verdict, Drop)
        assert verdict.state in NEXT[State.READY_FOR_CLEANING]


def test_removable() -> None:
    directory = AcidDirectory(obsolete=("delta_2", "000000_0"), aborted=("delta_1", "delta_2"))
    assert removable(directory) == ("000000_0", "delta_1", "delta_2")
    assert removable(AcidDirectory()) == ()


def test_nothing_is_removed_beside_a_name_nobody_understands() -> None:
    """DESIGN 8.7: an unparsable directory ends in an error that names it, with nothing lost."""
    with pytest.raises(BadName, match="base_x"):
        removable(AcidDirectory(obsolete=("delta_1_1",), unparsable=("base_x",)))


def test_wait_doubles_up_to_a_bound() -> None:
    waits = []
    retention = 0
    for _ in range(8):
        retention = retry_retention(retention, DEFAULTS)
        waits.append(retention // 1000)
    assert waits == [300, 600, 1200, 2400, 4800, 9600, 9600, 9600]


def test_wait_without_doubling() -> None:
    settings = Settings.of([Layer(name="flag", values={"hive.compactor.cleaner.retry.maxattempts": "0"})])
    assert retry_retention(0, settings) == retry_retention(300_000, settings) == 300_000
