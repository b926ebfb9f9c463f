from __future__ import annotations

import pytest

from compactor.acid.tree import Anchor, Tree
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.forgetting_aborts import (
    filter_holding,
    filter_past_grace,
    find_reaching_directory,
    write_ids_below,
)
from compactor.settings.precedence import Layer, Settings

ANCHOR = Anchor(volume="file:1")


def held(*directories: str, asked: tuple[int, ...] = (3, 5)) -> dict[WriteId, str]:
    return write_ids_below(Tree(anchor=ANCHOR, directories=directories), [WriteId(w) for w in asked])


@pytest.mark.parametrize(
    ("directory", "found"),
    [
        ("delta_0000003_0000003_0000", {3}),
        ("delete_delta_0000005_0000005", {5}),
        ("delta_0000002_0000004", {3}),
        ("delta_0000001_0000009", {3, 5}),
        ("delta_0000004_0000004", set()),
        ("base_0000005", {5}),
        ("base_0000006", set()),
    ],
)
def test_a_directory_of_an_aborted_writer_keeps_it_from_being_forgotten(directory: str, found: set[int]) -> None:
    """PROTOCOL 8: an aborted transaction is forgotten only when nothing of it exists in storage."""
    assert held(directory) == dict.fromkeys(found, directory)


@pytest.mark.parametrize("directory", ["base_0000005_v0000009", "delta_0000001_0000009_v0000012"])
def test_a_compactions_output_holds_no_aborted_rows(directory: str) -> None:
    assert held(directory) == {}


@pytest.mark.parametrize("directory", ["_tmp", "p=1", "base_x", "delta_5_3", "delta_0000003"])
def test_names_that_are_not_hives_hold_no_write_ids(directory: str) -> None:
    assert held(directory) == {}


def test_directories_at_any_depth_hold_write_ids_hidden_ones_too() -> None:
    """PROTOCOL 11.11"""
    directories = (
        "p=7",
        "p=7/delta_0000003_0000003",
        "p=8/.compactor_obsolete_0_delta_0000005_0000005_0001",
        "_quarantine/base_0000009",
        "p=9/base_0000004_v0000012",
    )
    tree = Tree(anchor=ANCHOR, directories=directories)
    asked = [WriteId(w) for w in (1, 3, 4, 5, 9)]
    assert write_ids_below(tree, asked) == {3: directories[1], 5: directories[2], 9: directories[3]}


def test_no_write_ids_asked_for_none_found() -> None:
    assert held("delta_0000003_0000003", asked=()) == {}


def test_the_grace_time_counts_from_the_first_sight() -> None:
    """PROTOCOL 8, 11.7: TXNS has no time of abort."""
    seen = {TxnId(1): 940_000, TxnId(2): 940_001, TxnId(3): 1_000_000}
    given = {"compactor.forget.grace": "60s"}
    assert filter_past_grace(seen, 1_000_000, Settings.of([Layer(name="flag", values=given)])) == {1}
    assert filter_past_grace(seen, 1_000_000, Settings.of()) == frozenset()


def test_a_directory_that_may_hold_a_write_id_is_found_by_its_range() -> None:
    names = (
        "delta_0000001_0000003",
        "delta_0000003_0000005_v0000012",
        "base_0000003",
        "base_0000004",
        "000000_0",
        "delta_x",
    )
    assert filter_holding(names, [WriteId(3)]) == {"delta_0000001_0000003", "base_0000003"}
    assert filter_holding(names, []) == frozenset()


@pytest.mark.parametrize(
    ("directory", "reaches"),
    [
        ("delta_0000005_0000005_0000", True),
        ("delete_delta_0000004_0000006", True),
        ("base_0000005", True),
        ("base_0000006_v0000012", True),
        ("delta_0000006_0000009_v0000012", True),
        ("delta_0000006_0000006_0000", False),  # another writer, who allocated since
        ("base_0000006", False),  # an INSERT OVERWRITE that began since
        ("base_0000004_v0000012", False),
        ("base_x", False),
        ("p=1", False),
    ],
)
def test_a_write_id_of_just_now_is_in_no_directory_yet(directory: str, reaches: bool) -> None:
    """PROTOCOL 11.12: nor below a compaction, which reaches no open write ID."""
    assert find_reaching_directory([directory], WriteId(5)) == (directory if reaches else None)
