"""The demo's tables with a few flights, through the real writer, reader and metastore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.compaction.states import State
from compactor.initiator.initiator import initiate
from compactor.site.site import Site
from demo import flights, tables
from demo.demo_folder import DemoPaths
from demo.measure import digest_rows, measure

ROOT = Path(__file__).parents[3]


def few_flights() -> pa.Table:
    """Two flights on each of 28 days of January; one a day never left, one of UA was early."""
    columns: dict[str, list[object]] = {name: [] for name in (*flights.COLUMNS, flights.PARTITION_KEY)}
    for day in range(1, 29):
        for carrier, left, delay in (("UA", 600, -5), ("AA", None, None)):
            row: dict[str, object] = dict.fromkeys(columns)
            row |= {"month": 1, "day": day, "carrier": carrier, "dep_time": left, "arr_delay": delay, "flight": day}
            for name, value in row.items():
                columns[name].append(value)
    types = {name: pa.int32() if kind == "int" else pa.string() for name, kind in flights.COLUMNS.items()}
    return pa.table({name: pa.array(values, types.get(name, pa.int32())) for name, values in columns.items()})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = DemoPaths(folder=tmp_path_factory.mktemp("tables") / "demo")
    place.make()
    with place.site() as site, pytest.MonkeyPatch.context() as patch:
        patch.setattr(flights, "read_flights", few_flights)
        tables.load(site, ROOT / "tests" / "fixtures", place.warehouse, 1, lambda text: None)
        yield site


def test_a_partition_has_thirty_to_sixty_directories(site: Site) -> None:
    found = measure(site, "demo", "flights")
    assert found.partitions == 1
    # 28 loads, a delete, an update with both kinds; and of the three that aborted a load, an update and a delete
    assert found.directories == 28 + 1 + 2 + 1 + 2 + 1


def test_readers_see_the_corrections_and_nothing_of_what_aborted(site: Site) -> None:
    assert measure(site, "demo", "flights").rows == 2 * 28 - 1
    aborted = [
        t for t in range(1, site.metastore.transactions.newest() + 1) if site.metastore.transactions.state(t) == "a"
    ]
    assert len(aborted) >= 3


def test_fixture_tables_are_unchanged(site: Site) -> None:
    rows = {one.name: measure(site, "demo", one.name).rows for one in tables.FIXTURE_TABLES}
    expected = {
        one.name: len((ROOT / "tests" / "fixtures" / one.step / "expected.tsv").read_text("utf-8").splitlines())
        for one in tables.FIXTURE_TABLES
    }
    assert rows == expected


def test_the_initiator_takes_what_is_due_and_leaves_the_rest(site: Site) -> None:
    """A property above or below the default threshold decides, as the demo says."""
    initiate(site)
    queued = {e.entity for e in site.metastore.entries.queue(states=(State.INITIATED,))}
    assert queued == set(tables.list_due(1))
    assert not queued & set(tables.BY_HAND)


def test_the_checksum_does_not_depend_on_the_order_of_reading() -> None:
    rows = pa.table({"writeid": [1, 1], "bucketid": [7, 7], "rowid": [0, 1], "a": ["x", "y"]})
    assert digest_rows([rows]) == digest_rows([rows.take([1, 0])])
    assert digest_rows([rows]) != digest_rows([rows.slice(1)])
    other = rows.set_column(3, "a", pa.array(["x", "z"]))
    assert digest_rows([rows]) != digest_rows([other])
    moved = rows.set_column(2, "rowid", pa.array([0, 2]))
    assert digest_rows([rows]) != digest_rows([moved])
