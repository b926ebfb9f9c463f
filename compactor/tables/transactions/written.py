"""The tables and partitions that a transaction has written into, for its commit record and its notifications."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.notifications.write_events import Write
from compactor.tables.transactions.pending import PendingDirectory


class Written:
    """The places that a transaction has written into."""

    def __init__(self) -> None:
        self._places: dict[Entity, tuple[WriteId, str]] = {}

    def note(self, entity: Entity, write_id: WriteId, location: str) -> None:
        """Notes a table without partitions, or a partition, whose component is recorded."""
        self._places[entity] = write_id, location

    @property
    def places(self) -> Mapping[Entity, tuple[WriteId, str]]:
        """The write ID and location of each written table or partition."""
        return dict(self._places)

    def take_back(self, before: Mapping[Entity, tuple[WriteId, str]]) -> None:
        """Forgets the places that were noted after ``places`` returned ``before``."""
        self._places = dict(before)

    @property
    def entities(self) -> Collection[Entity]:
        """The written tables and partitions."""
        return self._places.keys()

    def writes(self, staged: Mapping[str, Sequence[PendingDirectory]], added: Collection[Entity]) -> list[Write]:
        """Returns the writes to commit, with their ``staged`` files, by location; entities in ``added`` are new."""
        return [
            Write(
                entity=entity,
                write_id=write_id,
                files={
                    directory.acid.name: [file.name for file in directory.staged.files]
                    for directory in staged.get(location, ())
                },
                is_new=entity in added,
            )
            for entity, (write_id, location) in self._places.items()
        ]
