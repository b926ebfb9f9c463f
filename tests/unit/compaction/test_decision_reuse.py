from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.decision import AbortCleanup, Major, NotNeeded
from compactor.compaction.decision_reuse import (
    Digests,
    EntityInputs,
    FullRound,
    StoredDecision,
    TableInputs,
    Writes,
    describe_verdict,
    digest_open_ids,
    restore_decision,
)
from compactor.compaction.eligibility import Eligible, Skipped

TABLE = TableInputs(
    release="compactor-1 4.0.0",
    id=1,
    location="/t",
    is_insert_only=False,
    is_partitioned=True,
    settings="s",
    verdict="eligible",
    unnamed_aborts=(),
)
WRITES, PLACE, ENDED, EXTRA = Writes(2, 30), (7, "/t/p=1"), 4, EntityInputs("eligible", [(5, "r")], (1, 9, 100), False)
DECIDED = StoredDecision("digest", None, TxnId(9), "notneeded", 1000)


@pytest.mark.parametrize(
    "other",
    [
        {"release": "compactor-2 4.0.0"},
        {"id": 2},  # dropped and made anew
        {"location": "/u"},
        {"is_insert_only": True},
        {"is_partitioned": False},
        {"settings": "t"},
        {"verdict": "skip: no_auto_compaction"},
        {"unnamed_aborts": (1, 9, 100)},
    ],
    ids=str,
)
def test_whatever_of_a_table_changes_changes_every_digest(other: dict[str, Any]) -> None:
    assert _digest() != _digest(replace(TABLE, **other))


def test_no_input_of_a_table_is_left_out() -> None:
    """One of the cases above for each."""
    assert set(TableInputs.__slots__) == {
        *("release", "id", "location", "is_insert_only", "is_partitioned", "settings", "verdict", "unnamed_aborts")
    }


@pytest.mark.parametrize(
    "other",
    [
        {"writes": Writes(3, 41)},  # written
        {"writes": Writes(1, 20)},  # cleaned
        {"writes": Writes(2, 31)},  # both
        {"writes": Writes(2, 30, 1)},  # two others with the same sum
        {"place": (8, "/t/p=1")},  # dropped and made anew
        {"place": (7, "/elsewhere")},
        {"place": None},
        {"ended": 5},
        {"extra": None},
        {"extra": EXTRA._replace(verdict="skip: it failed")},
        {"extra": EXTRA._replace(queued=[(5, "w")])},
        {"extra": EXTRA._replace(queued=[(5, "r"), (6, "i")])},
        {"extra": EXTRA._replace(aborts=(2, 19, 100))},
        {"extra": EXTRA._replace(aborts=(1, 10, 100))},
        {"extra": EXTRA._replace(has_old_abort=True)},
    ],
    ids=str,
)
def test_whatever_of_an_entity_changes_changes_its_digest(other: dict[str, Any]) -> None:
    assert _digest() == _digest()
    assert _digest() != _digest(**other)


def test_a_decision_stands_while_its_digest_is_the_same() -> None:
    assert DECIDED.still_holds("digest", TxnId(9), now=1001, lasting=2)
    assert not DECIDED.still_holds("other", TxnId(9), now=1001, lasting=2)


def test_a_decision_that_is_too_old_does_not_stand() -> None:
    assert not DECIDED.still_holds("digest", TxnId(9), now=1002, lasting=2)


def test_a_decision_of_a_later_time_does_not_stand() -> None:
    """The clock was set back."""
    assert not DECIDED.still_holds("digest", TxnId(9), now=999, lasting=2)


def test_a_decision_from_the_future_of_the_database_does_not_stand() -> None:
    """A backup was restored: what follows may get the numbers again that the digest is made of (PROTOCOL 11.2)."""
    assert not DECIDED.still_holds("digest", TxnId(8), now=1001, lasting=2)


@given(candidates=st.integers(0, 100_000), period=st.integers(2, 10**9), partition=st.none() | st.text())
def test_a_full_round_lasts_its_period_at_most_and_half_of_it_at_least(
    candidates: int, period: int, partition: str | None
) -> None:
    full_round = FullRound(("d", "t"), candidates, period)
    assert period / 2 <= full_round.lasting(partition) <= period
    assert full_round.shortest <= full_round.lasting(partition)


def test_a_full_round_spreads_the_tables_and_the_partitions_of_a_large_one() -> None:
    period = 3_600_000
    small = {FullRound(("d", f"t{number}"), 10, period).lasting("p=1") for number in range(100)}
    large = FullRound(("d", "t"), 8000, period)
    assert len(small) > 90
    assert len({FullRound(("d", "t"), 10, period).lasting(f"p={number}") for number in range(100)}) == 1
    assert len({large.lasting(f"p={number}") for number in range(1000)}) == 9


def test_without_a_period_no_decision_lasts() -> None:
    assert FullRound(("d", "t"), 1, 0).lasting(None) <= 0


def test_open_and_aborted_write_ids_have_a_digest_of_their_own() -> None:
    ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(5))
    others = (
        replace(ids, high_watermark=WriteId(6)),
        replace(ids, open=frozenset({WriteId(3)})),
        replace(ids, aborted=frozenset({WriteId(3)})),
    )
    assert len({digest_open_ids(one) for one in (ids, *others)}) == 4


def test_a_stored_decision_is_what_it_was() -> None:
    found = restore_decision("major", "so many", ("x",))
    assert isinstance(found, Major)
    assert (found.because, found.flips) == ("so many", ("x",))
    assert isinstance(restore_decision("abortcleanup", "", ()), AbortCleanup)
    assert isinstance(restore_decision("notneeded", "", ()), NotNeeded)
    assert restore_decision("skipped", "", ()) is None


@pytest.mark.parametrize(
    ("outcome", "is_due"),
    [("minor", True), ("major", True), ("cleanonly", True), ("abortcleanup", True), ("notneeded", False)],
)
def test_what_asks_for_something_is_due(outcome: str, is_due: bool) -> None:
    assert DECIDED._replace(outcome=outcome).is_due is is_due


def test_a_verdict_is_a_text_of_all_that_it_says() -> None:
    texts = {
        describe_verdict(Eligible(observing=False)),
        describe_verdict(Skipped(because="x")),
        describe_verdict(Skipped(because="y")),
        describe_verdict(Skipped(because="x", record=True)),
    }
    assert len(texts) == 4


def test_rows_under_two_names_are_added() -> None:
    assert Writes(1, 10, 100).plus(Writes(2, 5, 13)) == Writes(3, 15, 113)


def _digest(
    table: TableInputs = TABLE,
    writes: Writes = WRITES,
    place: tuple[int, str] | None = PLACE,
    ended: int = ENDED,
    extra: EntityInputs | None = EXTRA,
) -> str:
    return Digests(table).for_entity(writes, place, ended, extra)
