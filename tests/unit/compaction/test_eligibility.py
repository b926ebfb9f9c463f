"""The candidates that the initiator looks at by Hive's rules, and their order."""

from __future__ import annotations

import random

import pytest

from compactor.compaction.eligibility import (
    Candidate,
    Eligible,
    Skipped,
    check_eligibility,
    consecutive_failures,
    no_auto_compaction,
    no_cleanup,
)
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.settings.precedence import Layer, Settings

TABLE = Entity(database="db", table="t")
PART = Entity(database="db", table="t", partition="p=1")
DAY = 86_400_000
NOW = 100 * DAY


def _settings(mode: str = "clean", **values: str) -> Settings:
    layer = {"compactor.mode": mode, **{key.replace("_", "."): text for key, text in values.items()}}
    return Settings.of([Layer(name="flag", values=layer)])


def _entry(id: int, state: State, enqueued: int = NOW - DAY) -> Entry:
    return Entry(id=id, entity=TABLE, state=state, type=CompactionType.MINOR, enqueue_time=enqueued)


def _skipped(candidate: Candidate, settings: Settings | None = None) -> Skipped:
    verdict = check_eligibility(candidate, settings or _settings(), NOW)
    assert isinstance(verdict, Skipped)
    return verdict


@pytest.mark.parametrize("mode", ["request", "compact", "clean"])
def test_eligible(mode: str) -> None:
    assert check_eligibility(Candidate(entity=TABLE), _settings(mode), NOW) == Eligible(observing=False)
    assert check_eligibility(Candidate(entity=PART, is_partitioned=True), _settings(mode), NOW) == Eligible(
        observing=False
    )


def test_mode_observe_still_decides() -> None:
    """DESIGN 2: in mode observe decisions are made and recorded, nothing is requested."""
    assert check_eligibility(Candidate(entity=TABLE), _settings("observe"), NOW) == Eligible(observing=True)


@pytest.mark.parametrize("state", [State.INITIATED, State.WORKING])
def test_already_queued(state: State) -> None:
    """DESIGN 8.3: at most one request is initiated or working."""
    verdict = _skipped(Candidate(entity=TABLE, queued=[_entry(7, state)]))
    assert verdict == Skipped(because=f"compaction 7 of it is already {state.label}")


def test_ready_for_cleaning_does_not_block_a_new_request() -> None:
    assert isinstance(
        check_eligibility(Candidate(entity=TABLE, queued=[_entry(7, State.READY_FOR_CLEANING)]), _settings(), NOW),
        Eligible,
    )


FAILED, GOOD, TOLD = State.FAILED, State.SUCCEEDED, State.DID_NOT_INITIATE


def _history(*states: State) -> list[Entry]:
    """Builds a history with ids from 1, oldest first, in shuffled order."""
    entries = [_entry(number, state) for number, state in enumerate(states, 1)]
    random.Random(0).shuffle(entries)
    return entries


@pytest.mark.parametrize(
    ("states", "stopped"),
    [
        ([FAILED], False),
        ([FAILED, FAILED], True),
        ([GOOD, FAILED, FAILED], True),
        ([FAILED, FAILED, GOOD], False),
        ([FAILED, GOOD, FAILED], False),
        ([FAILED, State.REFUSED, FAILED], True),
        ([FAILED, State.ABORTED, FAILED, TOLD], True),
        ([], False),
    ],
)
def test_failed_threshold(states: list[State], stopped: bool) -> None:
    """The newest two of succeeded and failed are both failed; other states don't count."""
    verdict = check_eligibility(Candidate(entity=TABLE, history=_history(*states)), _settings(), NOW)
    assert isinstance(verdict, Skipped) is stopped


def test_did_not_initiate_is_recorded_once_for_each_run_of_failures() -> None:
    """Hive writes such a row in every cycle; here only the first pass after the newest failure writes one."""
    assert _skipped(Candidate(entity=TABLE, history=_history(FAILED, FAILED))).record
    assert not _skipped(Candidate(entity=TABLE, history=_history(FAILED, FAILED, TOLD))).record
    assert not _skipped(Candidate(entity=TABLE, history=_history(FAILED, FAILED, TOLD, TOLD))).record
    assert _skipped(Candidate(entity=TABLE, history=_history(FAILED, FAILED, TOLD, FAILED))).record


@pytest.mark.parametrize(
    ("retry", "age", "stopped"),
    [
        ("7d", 7 * DAY - 1, True),
        ("7d", 7 * DAY, False),
        ("1d", 2 * DAY, False),
        ("0", 99 * DAY, True),
        ("-1", DAY, True),
    ],
)
def test_a_failed_table_is_tried_again_after_the_retry_time(retry: str, age: int, stopped: bool) -> None:
    settings = _settings(hive_compactor_initiator_failed_retry_time=retry)
    history = [_entry(1, FAILED, NOW - 99 * DAY), _entry(2, FAILED, NOW - age)]
    verdict = check_eligibility(Candidate(entity=TABLE, history=history), settings, NOW)
    assert isinstance(verdict, Skipped) is stopped


def test_failed_threshold_of_zero_is_off() -> None:
    settings = _settings(hive_compactor_initiator_failed_compacts_threshold="0")
    assert isinstance(
        check_eligibility(Candidate(entity=TABLE, history=_history(FAILED, FAILED)), settings, NOW), Eligible
    )


def test_failures_in_a_row_are_the_newest() -> None:
    assert [e.id for e in consecutive_failures(_history(FAILED, GOOD, FAILED, FAILED), 2)] == [4, 3]
    assert consecutive_failures(_history(FAILED, GOOD, FAILED, FAILED), 3) == ()


def test_dropped_and_non_transactional_tables_are_skipped() -> None:
    assert "not in the metastore" in _skipped(Candidate(entity=PART, exists=False)).because
    assert _skipped(Candidate(entity=PART, never="db.t: is external")).because == "db.t: is external"


@pytest.mark.parametrize(
    ("table", "database", "where"),
    [
        ({"no_auto_compaction": "true"}, {}, "table"),
        ({"NO_AUTO_COMPACTION": "TRUE"}, {}, "table"),
        ({"No_Auto_Compaction": " true "}, {}, "table"),
        ({"no_auto_compaction": "false"}, {}, None),
        ({"no_auto_compaction": "yes"}, {}, None),
        ({}, {"no_auto_compaction": "true"}, "database"),
        ({"no_auto_compaction": "false"}, {"NO_AUTO_COMPACTION": "true"}, "database"),
        ({"no_auto_compaction": "true"}, {"no_auto_compaction": "false"}, None),
        ({}, {}, None),
    ],
)
def test_no_auto_compaction(table: dict[str, str], database: dict[str, str], where: str | None) -> None:
    """The database's key, if it is there at all, decides whatever the table says."""
    assert no_auto_compaction(table, database) == where
    verdict = check_eligibility(
        Candidate(entity=TABLE, table_parameters=table, database_parameters=database), _settings(), NOW
    )
    if where is None:
        assert isinstance(verdict, Eligible)
    else:
        assert verdict == Skipped(because=f"no_auto_compaction of the {where} is true")


def test_no_cleanup() -> None:
    assert no_cleanup({"NO_CLEANUP": "true"}, {}) == "table"
    assert no_cleanup({"no_cleanup": "false"}, {"no_cleanup": "True"}) == "partition"
    assert no_cleanup({}, {}) is None


def test_tables_waiting_for_replication_are_skipped() -> None:
    pending = {"hive.repl.first.inc.pending": "true"}
    assert "the database waits" in _skipped(Candidate(entity=TABLE, database_parameters=pending)).because
    assert "the table waits" in _skipped(Candidate(entity=TABLE, table_parameters=pending)).because


def test_insert_only_tables_can_be_switched_off() -> None:
    settings = _settings(hive_compactor_compact_insert_only="false")
    assert "insert-only" in _skipped(Candidate(entity=TABLE, is_insert_only=True), settings).because
    assert isinstance(check_eligibility(Candidate(entity=TABLE, is_insert_only=True), _settings(), NOW), Eligible)


def test_a_dynamic_partition_write_is_left_to_its_partitions() -> None:
    candidate = Candidate(entity=TABLE, is_partitioned=True)
    assert "dynamic-partition" in _skipped(candidate).because
    old_abort = Candidate(entity=TABLE, is_partitioned=True, has_old_abort=True)
    assert isinstance(check_eligibility(old_abort, _settings(), NOW), Eligible)


def test_the_first_reason_in_hives_order_wins() -> None:
    everything = Candidate(
        entity=TABLE,
        exists=False,
        is_insert_only=True,
        is_partitioned=True,
        table_parameters={"no_auto_compaction": "true"},
        queued=[_entry(9, State.WORKING)],
        history=_history(FAILED, FAILED),
    )
    assert "already working" in _skipped(everything).because
