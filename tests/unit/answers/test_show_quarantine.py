from __future__ import annotations

import pytest

from compactor.answers.show_quarantine import QuarantineFilter, QuarantineRow, quarantine_of_table, show_quarantine
from compactor.compaction.entry import Entity
from compactor.compaction.quarantine_rules import Quarantined
from compactor.site.named_tables import Where
from compactor.site.site import Site, own_state

NAMES = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000")


@pytest.fixture
def site(deployment: Site) -> Site:
    for number, (table, partition, until) in enumerate([("t", "p=1", 30), ("t", "p=2", 20), ("u", None, 25)], start=1):
        entity = Entity(database="default", table=table, partition=partition)
        one = Quarantined(entry_id=number, entity=entity, location="/w", since=10, until=until, bytes=7, names=NAMES)
        own_state(deployment).quarantines.keep(deployment.name, one)
    waiting = Quarantined(entry_id=4, entity=Entity(database="default", table="t"), location="/w", since=1, until=2)
    own_state(deployment).quarantines.keep(deployment.name, waiting)
    return deployment


def test_what_is_erased_next_comes_first_and_what_waits_for_its_cleaning_is_left_out(site: Site) -> None:
    assert [row.compactionid for row in show_quarantine(site)] == [2, 3, 1]
    assert [row.compactionid for row in show_quarantine(site, limit=1)] == [2]


def test_a_row_in_json(site: Site) -> None:
    assert show_quarantine(site)[0].to_json() == {
        "compactionid": 2,
        "dbname": "default",
        "tabname": "t",
        "partname": "p=2",
        "directories": list(NAMES),
        "bytes": 7,
        "since": 10,
        "until": 20,
        "location": "/w",
    }


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (QuarantineFilter(where=Where(table="t")), [2, 1]),
        (QuarantineFilter(where=Where(partition="p=1")), [1]),
        (QuarantineFilter(id=3), [3]),
        (QuarantineFilter(where=Where(database="other")), []),
    ],
)
def test_filters(site: Site, wanted: QuarantineFilter, ids: list[int]) -> None:
    assert [row.compactionid for row in show_quarantine(site, wanted)] == ids


def test_by_partition(site: Site) -> None:
    found = quarantine_of_table(site, "default", "t")
    assert {entity.partition: [row.compactionid for row in rows] for entity, rows in found.items()} == {
        "p=1": [1],
        "p=2": [2],
    }
    assert all(isinstance(row, QuarantineRow) for rows in found.values() for row in rows)
