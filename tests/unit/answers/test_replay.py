from __future__ import annotations

from pathlib import Path

import pytest

from compactor.answers.replay import simulate
from compactor.base.errors import BadSetting, NotSupported
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.initiator.initiator import initiate
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from compactor.state.decisions import LOOK
from tests.support.passes import clean_all
from tests.support.tables import insert, make_table, with_settings

NUM = "hive.compactor.delta.num.threshold"


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """Twelve writes, with a pass, a worker and a cleaner after each: more than three deltas are compacted."""
    site = with_settings(deployment, **{NUM.replace(".", "_"): "3"}, hive_compactor_delta_pct_threshold="100")
    table = make_table(site, warehouse)
    for value in range(12):
        insert(site, table, [value])
        initiate(site)
        run_entries(site, list_claimable_ids(site), InProcessRunner())
        clean_all(site)
        _settle(site, minutes_ago=12 - value)
    return site


def _settle(site: Site, minutes_ago: int) -> None:
    """Sets what is recorded of the last minute to times and costs of its own, however fast this machine is: a pass when it
    begins, a run of a second that begins a second later, and what is looked at besides when that has ended."""
    now = site.metastore.now_ms()
    at = now - minutes_ago * 60_000
    with own_state(site).database.write() as conn:
        looked = f"CASE ROLE WHEN '{LOOK}' THEN {at + 3000} ELSE {at} END"
        conn.exec_driver_sql(f"UPDATE COMPACTOR_DECISIONS SET PASS_AT = {looked} WHERE PASS_AT > {now - 60_000}")
        ran = f"ENDED_AT = {at + 2000}, SECONDS = 1.0, CORE_SECONDS = BYTES_BEFORE / 1000.0"
        conn.exec_driver_sql(f"UPDATE COMPACTOR_RUNS SET {ran} WHERE ENDED_AT > {now - 60_000}")


def test_what_really_ran_is_foretold_of_the_settings_as_they_are(site: Site) -> None:
    found = simulate(site, 14, {})
    runs = own_state(site).runs.latest(site.name)
    assert (found.entities, found.passes) == (1, 12)
    assert found.happened.runs == found.present.runs == found.other.runs == len(runs) > 2
    assert (found.happened.majors, found.present.majors) == (1, 1)
    assert found.happened.core_seconds == pytest.approx(sum(run.core_seconds or 0 for run in runs))
    assert found.present.core_seconds == pytest.approx(found.happened.core_seconds, rel=0.5)
    assert found.present.worst == found.happened.worst


def test_other_settings_are_foretold_from_the_same_writes(site: Site) -> None:
    never, eager = simulate(site, 14, {NUM: "100"}).other, simulate(site, 14, {NUM: "1"}).other
    assert (never.runs, never.worst) == (0, 12)
    happened = simulate(site, 14, {}).happened
    assert eager.runs > happened.runs
    assert eager.worst < happened.worst
    assert eager.mean < never.mean


def test_what_is_no_setting_of_a_table_is_refused(site: Site) -> None:
    with pytest.raises(BadSetting, match=r"no\.such"):
        simulate(site, 14, {"no.such": "1"})


def test_nothing_recorded_is_said(deployment: Site) -> None:
    with pytest.raises(NotSupported, match="no pass of the last 7 days"):
        simulate(deployment, 7, {})
