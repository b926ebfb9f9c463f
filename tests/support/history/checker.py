"""Judges a recorded history: everything in it that a metastore must not do."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.history.entries import of_entries
from tests.support.history.locks import of_locks
from tests.support.history.operations import Anomaly, Kind, Operation
from tests.support.history.snapshots import of_snapshots
from tests.support.history.transactions import fates, of_conflicts, of_transactions, of_write_ids


def anomalies(operations: Sequence[Operation], *, semi_shared: bool = False) -> list[Anomaly]:
    """Returns all anomalies; a correct history has none. ``semi_shared``: Hive 3, whose shared writes exclude each
    other.
    """
    known = fates(operations)
    bugs = [op for op in operations if op.error.startswith("BUG")]
    return [
        *(Anomaly(kind=Kind.BUG, about=op.error, proof=(op,)) for op in bugs),
        *of_transactions(operations, known),
        *of_write_ids(operations),
        *of_snapshots(operations, known),
        *of_conflicts(operations, known),
        *of_locks(operations, known, semi_shared=semi_shared),
        *of_entries(operations),
    ]
