from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import NotSupported
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.site.surveyed_tables import SurveyedTables
from tests.support.many import make_partitions
from tests.support.tables import entity_of, make_table

GONE = Entity(database="default", table="gone")


@pytest.fixture
def tables(deployment: Site) -> SurveyedTables:
    return SurveyedTables(deployment, deployment.metastore.transactions.snapshot(), deployment.moment())


def test_tables_are_found_whatever_was_expected(tables: SurveyedTables, deployment: Site, warehouse: Path) -> None:
    table = entity_of(make_table(deployment, warehouse))
    tables.expect([table, GONE])
    found = tables.load_table(table)
    assert found is not None
    assert (found.table.name, tables.load_table(GONE)) == ("t", None)
    other = entity_of(make_table(deployment, warehouse, "other"))
    assert (tables.exists(other), tables.exists(GONE), tables.exists(replace(GONE, table="never"))) == (
        True,
        False,
        False,
    )


def test_names_in_capitals_are_those_of_the_same_table(
    tables: SurveyedTables, deployment: Site, warehouse: Path
) -> None:
    make_table(deployment, warehouse)
    asked = Entity(database="Default", table="T")
    tables.expect([asked])
    assert tables.exists(asked)


def test_tables_that_cannot_be_read_together_are_read_one_by_one(
    tables: SurveyedTables, deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [entity_of(make_table(deployment, warehouse, name)) for name in ("a", "b")]

    def fails(_names: object) -> dict[tuple[str, str], Table]:
        raise NotSupported("one of them is of another world")

    monkeypatch.setattr(deployment.metastore.catalog, "existing", fails)
    assert tables.resolve_recorded([*here, GONE]) == [*here, GONE]
    assert [tables.exists(one) for one in (*here, GONE)] == [True, True, False]


def test_only_partitions_that_somebody_asks_for_are_read(
    tables: SurveyedTables, deployment: Site, warehouse: Path
) -> None:
    table = make_partitions(deployment.metastore, warehouse, 3, deltas=1, name="parts")
    first, second, third = (Entity(database="default", table="parts", partition=f"p=00000{n}") for n in range(3))
    assert tables.resolve_recorded([first, second]) == [first, second]
    found = tables.load_table(first)
    assert found is not None
    assert set(found.partitions) == {first.partition, second.partition}
    assert tables.partition(replace(first, partition="p=none")) is None
    assert tables.partition(third) is not None
    assert [one.name for one in tables.partitions(table)] == [one.partition for one in (first, second, third)]


def test_a_name_that_was_escaped_twice_means_the_stored_one(
    tables: SurveyedTables, deployment: Site, warehouse: Path
) -> None:
    """PROTOCOL 9: as Hive 4 records a static partition."""
    make_partitions(deployment.metastore, warehouse, 1, deltas=1, name="parts")
    embedded = deployment.metastore.embedded_catalog
    embedded.add_partition(
        deployment.metastore.catalog.table("default", "parts"), ["a b=c"], str(warehouse / "parts" / "p=a b%3Dc")
    )
    stored = Entity(database="default", table="parts", partition="p=a b%3Dc")
    assert tables.resolve_recorded([replace(stored, partition="p=a b%253Dc"), stored]) == [stored]
