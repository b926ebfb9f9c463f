"""Directories that files and metastore contradict each other about."""

from __future__ import annotations

from pathlib import Path

from compactor.compaction.disagreement import DoubtKind
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.in_doubt import in_doubt
from compactor.site.site import Site
from tests.support.tables import insert, leave_manifest, make_table


def test_one_directory_may_raise_several_doubts(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    (Path(table.location) / "base_0000007_v0000099").mkdir()
    (one,) = in_doubt(deployment, table)
    assert one.kinds == {DoubtKind.WRITE_ID, DoubtKind.NEVER_OPENED}
    assert one.because == (
        "write ID 7 was never allocated (the table's next one is 2); transaction 99 was never opened (the newest is 1)"
    )


def test_an_output_whose_inputs_are_there_is_in_no_doubt(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 11.5: repair hides it."""
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    (txn,) = deployment.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    named = Path(table.location) / f"base_0000001_v{txn:07d}"
    named.mkdir()
    deployment.metastore.transactions.abort(txn, "by hand")
    leave_manifest(table, txn, named.name)
    assert in_doubt(deployment, table) == []
    (Path(table.location) / f".compactor_v{txn}" / "manifest.json").unlink()
    (named / "bucket_00000").write_bytes(b"no ORC")
    (one,) = in_doubt(deployment, table)
    assert (one.name, one.kinds, one.files, one.bytes) == (named.name, {DoubtKind.ONLY_COPY}, 1, 6)
    assert one.unreadable is not None


def test_a_running_compaction_is_in_no_doubt(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    (txn,) = deployment.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    (Path(table.location) / f"base_0000001_v{txn:07d}").mkdir()
    assert in_doubt(deployment, table) == []
