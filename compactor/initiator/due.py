"""Finds tables and partitions over one of the initiator's thresholds, for other programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from compactor.base.errors import CompactorError
from compactor.compaction.health import Condition
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.initiator.candidate_scan import DISAGREEMENT, CandidateScan, Considered
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, must_be_compactable
from compactor.site.surveyed_tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A table or partition over a threshold, with the type that the initiator would choose and the reason."""

    entity: Entity
    type: CompactionType
    because: str
    deltas: int = 0
    delta_bytes: int = 0

    @property
    def urgency(self) -> tuple[int, int, str, str, str]:
        """The sort key of the most urgent one first: most deltas, then most bytes in deltas, then by name."""
        entity = self.entity
        return -self.deltas, -self.delta_bytes, entity.database, entity.table, entity.partition or ""

    def to_json(self) -> dict[str, object]:
        return {
            "table": f"{self.entity.database}.{self.entity.table}",
            "partition": self.entity.partition,
            "type": self.type.label.lower(),
            "because": self.because,
        }


def due_in_table(site: Site, table: Table, partition: str | None = None) -> list[Due]:
    """Returns the due partitions of ``table``, most urgent first, or only the one with the given name.

    The name is the stored one.

    Only thresholds count: a table is also due if it is paused, excluded from compaction or queued already. Like the
    initiator, this considers only partitions with recorded writes or aborted transactions.

    Raises:
        Refused: the table is never compacted.
        CompactorError: a directory cannot be listed; the message says why.
    """
    must_be_compactable(table)
    scan = CandidateScan(site, write=False)
    if partition is not None or not table.partition_keys:
        entities = [Entity(database=table.database, table=table.name, partition=partition)]
    else:
        entities = _candidates(scan, [(table.database, table.name)])
    return _due(scan, entities, strictly=True)


def due_in_database(site: Site, database: str) -> list[Due]:
    """Returns the due entities in all tables of ``database``, most urgent first.

    Logs and skips those that cannot be listed.
    """
    scan = CandidateScan(site, write=False)
    tables = [name for name in scan.candidate_tables() if name[0] == database]
    return _due(scan, _candidates(scan, tables), strictly=False)


def _candidates(scan: CandidateScan, tables: Collection[TableName]) -> list[Entity]:
    recorded = scan.site.metastore.components.writes(tables)
    names = ((table, {*of_table, *scan.aborted_in(table)}) for table, of_table in recorded.items())
    entities = [Entity(database=d, table=t, partition=name) for (d, t), partitions in names for name in partitions]
    return scan.tables.resolve_recorded(entities)


def _due(scan: CandidateScan, entities: Collection[Entity], *, strictly: bool) -> list[Due]:
    scan.tables.expect(entities)
    scan.past.expect({(entity.database, entity.table) for entity in entities})
    considered = [_measure(scan, entity) for entity in entities]
    if strictly:
        _check_all_decided(considered)
    due = [entry for entry in map(_due_or_none, considered) if entry is not None]
    return sorted(due, key=lambda candidate: candidate.urgency)


def _measure(scan: CandidateScan, entity: Entity) -> Considered:
    considered = scan.consider(entity)
    return scan.measure(considered) if considered.outcome == "skipped" else considered


def _check_all_decided(considered: Sequence[Considered]) -> None:
    """Checks that there is a decision about every candidate.

    Raises:
        CompactorError: there is none about one of them.
    """
    for candidate in considered:
        if candidate.outcome in ("error", DISAGREEMENT):
            raise CompactorError(candidate.because)


def _due_or_none(considered: Considered) -> Due | None:
    decision = considered.decision or considered.measured
    if decision is None or decision.type is None:
        return None
    condition = considered.condition or Condition()
    return Due(
        entity=considered.entity,
        type=decision.type,
        because=decision.because,
        deltas=condition.deltas,
        delta_bytes=condition.delta_bytes,
    )
