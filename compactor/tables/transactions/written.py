"""The tables and partitions that a transaction has written into, as its commit records and tells them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.notifications.write_events import Write
from compactor.tables.transactions.pending import PendingDirectory


class Written:
    """The places that one transaction has written into."""

    def __init__(self) -> None:
        self._places: dict[Entity, tuple[WriteId, str]] = {}

    def note(self, entity: Entity, write_id: WriteId, location: str) -> None:
        """Takes note of a table without partitions, or of a partition, whose component is recorded."""
        self._places[entity] = write_id, location

    @property
    def places(self) -> Mapping[Entity, tuple[WriteId, str]]:
        """All of them, with write IDs and locations."""
        return dict(self._places)

    def take_back(self, before: Mapping[Entity, tuple[WriteId, str]]) -> None:
        """Forgets what was noted since ``places`` was ``before``."""
        self._places = dict(before)

    @property
    def entities(self) -> Collection[Entity]:
        """All of them."""
        return self._places.keys()

    def writes(self, staged: Mapping[str, Sequence[PendingDirectory]], added: Collection[Entity]) -> list[Write]:
        """Returns all of it, with the files among ``staged``, by location, and with those of ``added`` as new ones."""
        return [
            Write(
                entity=entity,
                write_id=write_id,
                files={one.acid.name: [file.name for file in one.staged.files] for one in staged.get(location, ())},
                is_new=entity in added,
            )
            for entity, (write_id, location) in self._places.items()
        ]
