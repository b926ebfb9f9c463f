"""What dry runs and explanations say of slices and of ``compactor.naming.delay`` is what a worker then does."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.compaction.states import CompactionType
from compactor.errors import LockNotGranted
from compactor.rewrite.plan import slices
from compactor.service.answers.explain import explain
from compactor.service.answers.preview import preview
from compactor.service.site import Site
from compactor.service.worker.planning import Foreseen, Manner, foresee, planned, view_now
from tests.support.passes import compact
from tests.support.tables import entity_of, insert, make_table, with_settings

NOT_SLICED = {"slices": 0, "delay": None}


def of_json(found: dict[str, object]) -> dict[str, object]:
    return {key: found[key] for key in NOT_SLICED}


def test_a_compaction_of_many_deltas_says_in_how_many_slices(
    deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(deployment, warehouse)
    for value in range(7):
        insert(deployment, table, [value])
    site = with_settings(deployment, hive_compactor_max_num_delta="3", hive_compactor_delta_num_threshold="2")
    (plain,) = preview(deployment, "default.t", type="major")
    (told,) = preview(site, "default.t", type="major")
    assert (of_json(plain.to_json()), plain.manner.sentences) == (NOT_SLICED, [])
    assert of_json(told.to_json()) == {"slices": 2, "delay": None}  # the seventh delta is read as it is
    assert told.manner.sentences == [
        "2 slices of at most 3 deltas are merged in the staging directory first (hive.compactor.max.num.delta)"
    ]
    (partition,) = explain(site, "default.t").partitions
    assert (partition.surveyed.considered.outcome, partition.manner.slices) == ("major", 2)
    assert of_json(partition.to_json()) == {"slices": 2, "delay": None}
    made: list[int] = []
    condensed = slices.condensed
    monkeypatch.setattr(
        "compactor.service.worker.work.condensed",
        lambda plan, results: made.append(len(plan.slices)) or condensed(plan, results),
    )
    assert compact(site, "major").output == told.outputs
    assert made == [2]


def test_what_the_delay_leaves_is_said(deployment: Site, warehouse: Path) -> None:
    site = with_settings(deployment, compactor_naming_delay="true", hive_compactor_delta_num_threshold="1")
    table = make_table(site, warehouse)
    for value in range(2):
        insert(site, table, [value])
    (all_seen,) = preview(site, "default.t", type="major")
    assert all_seen.manner.delay == "every open transaction sees all that is to be merged"
    [query] = site.metastore.transactions.open("trino", "coordinator")
    insert(site, table, [2])
    (told,) = preview(site, "default.t", type="major")
    left = "write IDs above 2 are left until the transactions that do not see them have ended"
    assert (told.manner.delay, told.highest_write_id, told.inputs) == (left, 2, all_seen.inputs)
    (partition,) = explain(site, "default.t").partitions
    assert of_json(partition.to_json()) == {"slices": 0, "delay": left}
    assert partition.manner.sentences == [f"compactor.naming.delay: {left}"]
    assert compact(site, "major").output == told.outputs
    site.metastore.transactions.commit(query)


def test_where_the_delay_leaves_nothing_a_dry_run_says_so(deployment: Site, warehouse: Path) -> None:
    site = with_settings(deployment, compactor_naming_delay="true")
    table = make_table(site, warehouse)
    [query] = site.metastore.transactions.open("trino", "coordinator")
    for value in range(2):
        insert(site, table, [value])
    target = site.target(entity_of(table))
    with pytest.raises(LockNotGranted) as waits:
        view_now(site, target, CompactionType.MAJOR)
    (told,) = preview(site, "default.t", type="major")
    assert told.nothing == told.manner.delay == str(waits.value)
    assert (told.inputs, told.outputs) == ((), ())
    waiting = Foreseen(manner=Manner(delay=str(waits.value)), nothing=str(waits.value))
    assert foresee(site, target, CompactionType.MAJOR) == waiting
    site.metastore.transactions.commit(query)


def test_a_rebalance_has_neither_slices_nor_delay(deployment: Site, warehouse: Path) -> None:
    """It waits for every reader and reads all at once, whatever the settings say."""
    site = with_settings(deployment, compactor_naming_delay="true", hive_compactor_max_num_delta="2")
    table = make_table(site, warehouse)
    for value in range(5):
        insert(site, table, [value])
    target = site.target(entity_of(table))
    view, delay = view_now(site, target, CompactionType.REBALANCE)
    assert (delay, planned(site, target, view, CompactionType.REBALANCE).slices) == (None, ())
