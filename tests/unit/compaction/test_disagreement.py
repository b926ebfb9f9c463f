"""Numbers in names that the metastore cannot have given (PROTOCOL 11.3)."""

from __future__ import annotations

import pytest

from compactor.base.errors import Disagreement
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.disagreement import Numbers, must_agree

NUMBERS = Numbers(
    newest=TxnId(9), next_write_id=WriteId(5), compactions={TxnId(6): True, TxnId(7): False}, own=TxnId(9)
)


@pytest.mark.parametrize(
    "name",
    [
        "delta_0000004_0000004_0000",
        "base_0000004",
        "base_-9223372036854775808_v0000006",
        "delta_0000001_0000004_v0000006",
        "base_0000004_v0000003",  # committed, and its row in TXNS purged since
        ".compactor_v9",
        "p=1",
        "delta_5_3",  # the planner refuses it by name
    ],
)
def test_what_the_metastore_can_have_given(name: str) -> None:
    must_agree("/t", [name], NUMBERS)


def test_on_hive_3_a_number_in_a_name_is_not_this_metastores() -> None:
    numbers = Numbers(newest=TxnId(9), next_write_id=WriteId(5), own=TxnId(9), has_visibility=False)
    must_agree("/t", ["base_0000004_v0000010", "base_0000004_v0000009"], numbers)
    with pytest.raises(Disagreement, match="write ID 5 was never allocated"):
        must_agree("/t", ["base_0000005_v0000010"], numbers)


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("delta_0000005_0000005_0000", r"write ID 5 was never allocated \(the table's next one is 5\)"),
        ("delete_delta_0000002_0000006", "write ID 6 was never allocated"),
        ("base_0000012", "write ID 12 was never allocated"),
        ("base_0000004_v0000010", r"transaction 10 was never opened \(the newest is 9\)"),
        ("base_0000004_v0000009", "transaction 9 was opened just now, by the process that found this name"),
        ("delta_0000001_0000004_v0000007", "transaction 7 is not a compaction"),
    ],
)
def test_what_it_cannot_have_given(name: str, because: str) -> None:
    with pytest.raises(Disagreement, match=f"/t/{name}: {because}.*; either the metastore is older.*MSCK REPAIR TABLE"):
        must_agree("/t", ["delta_0000001_0000001_0000", name], NUMBERS)
