"""Aborted writes would come back once forgotten: file systems that are away, INSERTs that died early (PROTOCOL 11.11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactor.base.ids import TxnId
from compactor.housekeeper.housekeeper import keep_house
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from tests.support.accidents import can_mount, covered, every_role, forget_components, missing, renamed_away
from tests.support.partitioned import add_partition, insert_into, make_partitioned, values_in
from tests.support.tables import entity_of, insert, make_table, rows_of, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    """Cleans nothing aborted by itself."""
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_forget_grace="0s")


def keen(site: Site) -> Site:
    """Returns a site that removes and forgets as soon as it may."""
    return with_settings(
        site,
        hive_txn_opentxn_timeout="1ms",
        compactor_forget_grace="0s",
        hive_compactor_abortedtxn_threshold="0",
    )


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    made = make_table(site, warehouse)
    insert(site, made, [1])
    insert(site, made, [99], commits=False)
    return made


def values_of(site: Site, table: Table) -> list[int]:
    return [row[-2] for row in rows_of(site, table)]


def accidents() -> list[Any]:
    found = [
        pytest.param(renamed_away, False, True, id="renamed away"),
        pytest.param(renamed_away, True, True, id="renamed away, beside another table"),
        pytest.param(renamed_away, True, False, id="renamed away, no component left"),
        pytest.param(missing, True, False, id="missing"),
    ]
    if can_mount():
        found += [
            pytest.param(covered, False, True, id="another file system"),
            pytest.param(covered, True, False, id="another file system, beside another table, no component left"),
        ]
    return found


@pytest.mark.parametrize(("away", "beside", "has_components"), accidents())
def test_a_file_system_that_is_away_makes_nothing_forgotten(
    site: Site, warehouse: Path, table: Table, away: Callable[[Path], Any], beside: bool, has_components: bool
) -> None:
    """PROTOCOL 11.11: mounted again, the rows of the aborted INSERT were visible for good."""
    if beside:
        insert(site, make_table(site, warehouse, "other"), [5])
    if not has_components:
        forget_components(site)
    every_role(site, 1)  # sees where the data is
    with away(Path(table.location)):
        every_role(keen(site))
    assert values_of(site, table) == [1]
    every_role(keen(site), 1)
    assert values_of(site, table) == [1]


def test_what_was_never_seen_with_data_is_doubted_too(site: Site, table: Table) -> None:
    """PROTOCOL 11.11: the first pass ever may find the file system away."""
    forget_components(site)
    with renamed_away(Path(table.location)):
        every_role(keen(site))
        (why,) = keep_house(keen(site)).kept
    assert "is empty, and nothing that was seen before is seen on file:" in why
    assert values_of(site, table) == [1]


def test_a_table_that_only_ever_held_aborted_writes_is_cleaned_and_forgotten(site: Site, warehouse: Path) -> None:
    """PROTOCOL 11.11: it is empty since we emptied it; nothing else is needed to believe that."""
    made = make_table(site, warehouse)
    insert(site, made, [99], commits=False)
    (txn,) = [one.id for one in site.metastore.transactions.unfinished()]
    every_role(keen(site), 2)
    assert list(Path(made.location).iterdir()) == []
    assert site.metastore.transactions.state(txn) is None


def write_nothing_and_abort(site: Site, table: Table) -> TxnId:
    (txn,) = site.metastore.transactions.open("ann", "h")
    write_id = site.metastore.write_ids.allocate(txn, table.database, table.name)
    site.metastore.write_ids.add_component(txn, entity_of(table), "i", write_id)
    site.metastore.transactions.abort(txn, "died")
    return txn


def test_an_empty_table_needs_a_witness_on_its_volume(site: Site, warehouse: Path) -> None:
    """PROTOCOL 11.11: a place that an earlier pass saw with data, and that is as it was."""
    txn = write_nothing_and_abort(site, make_table(site, warehouse, "never_filled"))
    every_role(keen(site), 2)
    assert site.metastore.transactions.state(txn) == "a"
    witness = make_table(site, warehouse, "witness")
    insert(site, witness, [1])
    insert(site, witness, [2], commits=False)
    every_role(site, 1)
    with renamed_away(Path(witness.location)):
        every_role(keen(site), 2)
    assert site.metastore.transactions.state(txn) == "a"
    every_role(keen(site), 2)
    assert site.metastore.transactions.state(txn) is None


def test_without_a_state_of_our_own_an_empty_location_keeps_everything(site: Site, warehouse: Path) -> None:
    insert(site, make_table(site, warehouse, "witness"), [1])
    txn = write_nothing_and_abort(site, make_table(site, warehouse, "never_filled"))
    every_role(replace(keen(site), state=None), 2)
    assert site.metastore.transactions.state(txn) == "a"


@pytest.mark.parametrize("has_components", [True, False], ids=["components", "none"])
def test_a_dynamic_insert_that_died_before_its_partition_was_registered(
    site: Site, warehouse: Path, has_components: bool
) -> None:
    """PROTOCOL 11.11: forgotten, its rows were visible for ever once another INSERT registered the partition."""
    table = make_partitioned(site, warehouse)
    add_partition(site, table, 1)
    insert_into(site, table, 1, [1])
    insert_into(site, table, 7, [99], commits=False, recorded=False)
    if not has_components:
        forget_components(site)
    every_role(keen(site))
    add_partition(site, table, 7)
    insert_into(site, table, 7, [70])
    assert values_in(site, table, 7) == [70]
    every_role(keen(site))
    assert values_in(site, table, 7) == [70]


def test_a_partition_that_was_dropped_leaves_its_aborted_writes_known(site: Site, warehouse: Path) -> None:
    """PROTOCOL 11.11: its row ready for cleaning ends, and its directory is still there."""
    table = make_partitioned(site, warehouse)
    add_partition(site, table, 1)
    insert_into(site, table, 1, [1])
    insert_into(site, table, 1, [99], commits=False)
    forget_components(site)
    site.metastore.embedded_catalog.drop_partition(table, "p=1")
    every_role(keen(site))
    add_partition(site, table, 1)
    assert values_in(site, table, 1) == [1]


def test_a_partition_elsewhere_is_searched(site: Site, warehouse: Path) -> None:
    table = make_partitioned(site, warehouse)
    far = warehouse.parent / "far" / "seven"
    add_partition(site, table, 7, far)
    insert_into(site, table, 7, [70], location=far)
    insert_into(site, table, 7, [99], commits=False, location=far)
    forget_components(site)
    insert(site, make_table(site, warehouse, "other"), [1])
    every_role(keen(site), 1)
    assert values_in(site, table, 7) == [70]
    with renamed_away(far):
        every_role(keen(site), 2)
    assert values_in(site, table, 7) == [70]
