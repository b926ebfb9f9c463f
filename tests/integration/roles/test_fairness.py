"""PROTOCOL 10: every candidate is looked at within a bounded number of passes, however many others there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.compaction import portions
from compactor.compaction.queue_entry import Entity
from compactor.initiator import candidate_scan, initiator
from compactor.initiator.initiator import initiate
from compactor.site.site import Site
from compactor.site.threads import SideBySide
from tests.support.tables import insert, make_table

TABLES = 7


class _Killed(BaseException):
    """The error that ends a pass in its middle."""


@pytest.fixture
def written(deployment: Site, warehouse: Path) -> Site:
    for number in range(TABLES):
        insert(deployment, make_table(deployment, warehouse, f"t{number}"), [0])
    return deployment


def passed_over(site: Site) -> list[str]:
    """The tables of one whole pass, in its order."""
    return [considered.entity.table for considered in initiate(site).considered]


def test_no_candidate_is_left_out_whatever_the_page(written: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive's HIVE-30026: with a limit and no total order the same first candidates come again and again."""
    monkeypatch.setattr(portions, "TABLES", 2)
    assert sorted(passed_over(written)) == [f"t{number}" for number in range(TABLES)]


def test_passes_that_are_cut_short_go_on_where_the_last_one_ended(
    written: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass dies after two candidates; after four passes all seven were looked at, and none twice."""
    monkeypatch.setattr(initiator, "RECORD_SIZE", 1)
    monkeypatch.setattr(initiator, "SideBySide", lambda _, name: SideBySide(1, name))  # none is judged ahead
    original = candidate_scan.CandidateScan.consider
    seen: list[str] = []
    left = 0

    def consider(one: candidate_scan.CandidateScan, entity: Entity) -> candidate_scan.Considered:
        nonlocal left
        if left == 0:
            raise _Killed
        left -= 1
        seen.append(entity.table)
        return original(one, entity)

    monkeypatch.setattr(candidate_scan.CandidateScan, "consider", consider)
    for _ in range(3):
        left = 2
        with pytest.raises(_Killed):
            initiate(written)
    left = 2
    assert initiate(written).kept == TABLES - 1
    assert seen == ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]


def test_a_whole_pass_begins_at_the_front(written: Site) -> None:
    expected = [f"t{number}" for number in range(TABLES)]
    first = passed_over(written)
    assert written.state is not None
    written.state.conditions.forget_bases(written.name)
    assert [first, passed_over(written)] == [expected, expected]
