from __future__ import annotations

from pathlib import Path

from compactor.answers.alarms import raised_alarms
from compactor.answers.readings import take_readings
from compactor.doctor.files_and_metastore_check import check_agreement
from compactor.initiator.initiator import initiate
from compactor.site.finding import Level
from compactor.site.site import Site
from tests.support.tables import insert, make_table


def test_a_disagreement_is_a_finding_and_an_alarm(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 11.1."""
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    initiate(deployment)
    assert [finding.level for finding in check_agreement(deployment)] == [Level.OK]
    (Path(table.location) / "delta_0000009_0000009_0000").mkdir()
    insert(deployment, table, [2])  # what has not changed is not looked at until the next full sweep
    initiate(deployment)
    (finding,) = check_agreement(deployment)
    assert finding.level is Level.FAIL
    assert "delta_0000009_0000009_0000: write ID 9 was never allocated" in finding.found
    (alarm,) = raised_alarms(take_readings(deployment), deployment.settings)
    assert (alarm.name, alarm.level, alarm.value) == ("disagreements", Level.FAIL, 1)
