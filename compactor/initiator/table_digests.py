"""Digests of the inputs of decisions about a table's entities, as one pass has read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from compactor.compaction.decision_reuse import (
    Digests,
    EntityInputs,
    FullRound,
    StoredDecision,
    TableInputs,
    Writes,
    describe_verdict,
    digest_open_ids,
    list_queued_states,
)
from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_scan import CandidateScan
from compactor.metastore.catalog.values import PartitionPlace
from compactor.metastore.queue.entries import Ended
from compactor.metastore.transactions.components import Aborted
from compactor.site.site import VERSION
from compactor.site.surveyed_tables import SurveyedTable, TableName

_NOTHING = Ended()


class TableDigests:
    """The digests of the entities of one table that exists.

    Most entities are ordinary: partitions without queued, failed or aborted work. For them the verdict on the table counts.

    Args:
        writes: recorded writes by the stored names of partitions.
        candidates: the number of the table's candidates, if ``writes`` has only some of them.
    """

    def __init__(
        self,
        scan: CandidateScan,
        name: TableName,
        surveyed: SurveyedTable,
        writes: Mapping[str | None, Writes],
        candidates: int | None = None,
    ) -> None:
        self._scan, self._surveyed, self._writes = scan, surveyed, writes
        self.name = name
        self._ended = scan.past.of_table(name)
        troubled = (partition for partition, ended in self._ended.items() if ended.others)
        self._unusual = {*scan.queue.get(name, ()), *scan.aborted_in(name), *troubled}
        self._newest = scan.txns.high_watermark
        self.round = FullRound(name, len(writes) if candidates is None else candidates, scan.full_round_ms)
        self._is_clear = scan.ground.is_clear(surveyed.table.id)

    def entity(self, partition: str | None) -> Entity:
        """Returns the entity of a partition of this table, or the table itself."""
        return Entity(database=self.name[0], table=self.name[1], partition=partition)

    def digests_of(self, partitions: Iterable[str | None]) -> Iterator[tuple[str | None, str]]:
        """Yields each partition with the digest of its inputs."""
        digests = self.of_table
        ended, writes, places = self._ended, self._writes, self._surveyed.partitions
        for partition in partitions:
            place = places.get(partition) if partition is not None else None
            extra = None if self._is_ordinary(partition, place) else self._entity_inputs(partition)
            where = None if place is None else (place.id, place.location)
            yield partition, digests.for_entity(writes[partition], where, ended.get(partition, _NOTHING).newest, extra)

    def stands(self, known: StoredDecision, partition: str | None, digest: str) -> bool:
        """Returns true if the decision of an earlier pass about a partition stands."""
        if not known.still_holds(digest, self._newest, self._scan.now_ms, self.round.lasting(partition)):
            return False
        return known.open is None or known.open == self.open

    @cached_property
    def of_table(self) -> Digests:
        """The digests of the table as this pass has read it."""
        return Digests(table_inputs(self._scan, self.name, self._surveyed))

    @cached_property
    def open(self) -> str:
        """The digest of the table's open and aborted write IDs."""
        return digest_open_ids(self._surveyed.write_ids)

    def _is_ordinary(self, partition: str | None, place: PartitionPlace | None) -> bool:
        return self._is_clear and place is not None and not place.sort_columns and partition not in self._unusual

    def _entity_inputs(self, partition: str | None) -> EntityInputs:
        scan, entity = self._scan, self.entity(partition)
        return EntityInputs(
            verdict=self._verdict(partition),
            queued=list_queued_states(scan.queued(entity)),
            aborts=_figures(scan.aborts_of(entity)),
            has_old_abort=scan.has_old_abort(entity, self._surveyed.settings),
        )

    def _verdict(self, partition: str | None) -> str:
        return describe_verdict(self._scan.verdict(self.entity(partition), self._surveyed, self._surveyed.settings))


def table_inputs(scan: CandidateScan, name: TableName, surveyed: SurveyedTable) -> TableInputs:
    """Returns what a table contributes to the decisions about its entities."""
    table = surveyed.table
    whole = Entity(database=name[0], table=name[1])
    return TableInputs(
        release=f"{VERSION} {scan.site.metastore.schema_version}",
        id=table.id,
        location=table.location,
        is_insert_only=table.is_insert_only,
        is_partitioned=table.is_partitioned,
        settings=surveyed.settings.digest,
        verdict=describe_verdict(scan.ordinary_verdict(surveyed)),
        unnamed_aborts=_figures(scan.aborts.get(whole) if table.is_partitioned else None),
    )


def _figures(aborts: Aborted | None) -> tuple[int, ...]:
    return () if aborts is None else (aborts.count, aborts.total, aborts.oldest_start)
