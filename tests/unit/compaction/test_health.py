from __future__ import annotations

import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.compaction.decision import Facts, decide
from compactor.compaction.health import SMALL_FILE, Condition
from compactor.settings.precedence import Settings

MB = 1024 * 1024
LIMITS = {
    "hive.compactor.delta.num.threshold": 10,
    "hive.compactor.delta.pct.threshold": 0.1,
    "hive.compactor.abortedtxn.threshold": 1000,
}


def health(**numbers: int) -> int:
    found = Condition.from_numbers({"files": 1, "base_bytes": 1000 * MB, **LIMITS, **numbers})
    assert found is not None
    return found.health


def test_no_condition_without_a_listing() -> None:
    assert Condition.from_numbers({}) is None
    assert Condition.from_numbers({"aborts": 3}) is None


def test_a_base_alone_is_in_full_health() -> None:
    assert health() == 100


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ({"deltas": 5}, 75),
        ({"deltas": 10}, 50),
        ({"deltas": 90}, 50),
        ({"delta_bytes": 50 * MB}, 75),
        ({"delta_bytes": 500 * MB}, 50),
        ({"aborts": 500}, 95),
        ({"aborts": 9000}, 90),
        ({"files": 20, "small_files": 10}, 90),
    ],
)
def test_at_its_threshold_a_figure_costs_its_maximum(numbers: dict[str, int], wanted: int) -> None:
    assert health(**numbers) == wanted


def test_only_files_that_could_be_joined_count_as_small() -> None:
    """One file per number, all that a compaction leaves, is a small table rather than small files."""

    def small(*files: tuple[str, int]) -> int:
        listed = Listing(files=tuple(FileStatus(path=path, length=length) for path, length in files))
        found = acid_directory(listed, ValidWriteIdList.parse(""), ValidTxnList.parse(""))
        return Facts.from_directory(found).small_files

    base, delta = "base_0000001/bucket_0000", "delta_0000002_0000002_0000/bucket_0000"
    assert small((f"{base}0", 9), (f"{base}1", 9)) == 0
    assert small((f"{base}0", 9), (f"{base}1", 9), (f"{delta}0", 9)) == 1
    assert small((f"{base}0", SMALL_FILE), (f"{delta}0", 9)) == 1
    assert small((f"{base}0", SMALL_FILE), (f"{delta}0", SMALL_FILE)) == 0


def test_deletes_cost_by_their_share_of_the_bytes() -> None:
    found = Condition.from_numbers({"files": 2, "base_bytes": 900, "delta_bytes": 100, "delete_bytes": 100} | LIMITS)
    assert found is not None
    assert (found.bytes, found.delete_ratio, found.health) == (1000, 0.1, 30)
    assert Condition(files=0).delete_ratio == 0


def test_the_worst_health_is_zero() -> None:
    assert health(deltas=99, delta_bytes=1000 * MB, delete_bytes=900 * MB, files=999, small_files=999, aborts=9999) == 0


def test_a_threshold_of_zero_is_reached_by_anything() -> None:
    numbers = {"files": 1, "hive.compactor.delta.num.threshold": 0}
    assert (Condition.from_numbers(numbers | {"deltas": 1}) or Condition()).health == 50
    assert (Condition.from_numbers(numbers) or Condition(health=0)).health == 100


def test_the_condition_comes_from_a_decisions_numbers() -> None:
    facts = Facts(base_bytes=100, delta_bytes=4, deltas=2, files=3, small_files=3, delete_bytes=2, has_base=True)
    found = Condition.from_numbers(decide(facts, Settings.of()).numbers)
    assert found is not None
    assert (found.deltas, found.files, found.small_files, found.delete_bytes) == (2, 3, 3, 2)
    assert SMALL_FILE == 16 * MB
