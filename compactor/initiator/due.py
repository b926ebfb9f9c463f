"""Tables and partitions over one of the initiator's thresholds now, for programs that ask for compactions themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from compactor.base.errors import CompactorError
from compactor.compaction.entry import Entity
from compactor.compaction.states import CompactionType
from compactor.initiator.candidate_scan import DISAGREEMENT, Considered, Scan
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, must_be_compactable
from compactor.site.surveyed_tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A table or partition over a threshold: the type that the initiator would choose, and the sentence that says why."""

    entity: Entity
    type: CompactionType
    because: str

    def to_json(self) -> dict[str, object]:
        return {
            "table": f"{self.entity.database}.{self.entity.table}",
            "partition": self.entity.partition,
            "type": self.type.label.lower(),
            "because": self.because,
        }


def due_in_table(site: Site, table: Table, partition: str | None = None) -> list[Due]:
    """Returns the partitions of ``table`` that are due, or the one of that stored name, by name.

    Thresholds alone count: a table that is paused, that has compaction switched off or that is queued already is due, too.
    Of a partitioned table, partitions with recorded writes or aborted transactions are looked at, as the initiator does.

    Raises:
        Refused: the table is never compacted.
        CompactorError: a directory cannot be looked at; the message says why.
    """
    must_be_compactable(table)
    scan = Scan(site, write=False)
    if partition is not None or not table.partition_keys:
        entities = [Entity(database=table.database, table=table.name, partition=partition)]
    else:
        entities = _candidates(scan, [(table.database, table.name)])
    return _due(scan, entities, strictly=True)


def due_in_database(site: Site, database: str) -> list[Due]:
    """Returns what is due in every table of ``database``, by name; what cannot be looked at is logged and left out."""
    scan = Scan(site, write=False)
    tables = [name for name in scan.candidate_tables() if name[0] == database]
    return _due(scan, _candidates(scan, tables), strictly=False)


def _candidates(scan: Scan, tables: Collection[TableName]) -> list[Entity]:
    recorded = scan.site.metastore.candidates.written(tables)
    names = ((table, {*of_table, *scan.aborted_in(table)}) for table, of_table in recorded.items())
    found = [Entity(database=d, table=t, partition=name) for (d, t), every in names for name in every]
    return scan.tables.meant(found)


def _due(scan: Scan, entities: Collection[Entity], *, strictly: bool) -> list[Due]:
    scan.tables.expect(entities)
    scan.past.expect({(entity.database, entity.table) for entity in entities})
    looked = [_measured(scan, entity) for entity in entities]
    if strictly:
        _must_be_decided(looked)
    due = [one for one in map(_one, looked) if one is not None]
    return sorted(due, key=lambda one: (one.entity.database, one.entity.table, one.entity.partition or ""))


def _measured(scan: Scan, entity: Entity) -> Considered:
    considered = scan.consider(entity)
    return scan.measure(considered) if considered.outcome == "skipped" else considered


def _must_be_decided(looked: Sequence[Considered]) -> None:
    """Raises what kept one of them from being decided.

    Raises:
        CompactorError: something did.
    """
    for one in looked:
        if one.outcome in ("error", DISAGREEMENT):
            raise CompactorError(one.because)


def _one(considered: Considered) -> Due | None:
    decision = considered.decision or considered.measured
    if decision is None or decision.type is None:
        return None
    return Due(entity=considered.entity, type=decision.type, because=decision.because)
