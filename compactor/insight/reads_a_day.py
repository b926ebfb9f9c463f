"""The reads of tables a day, as far as any are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.state.runs import DAY_MS
from compactor.state.store import OwnState

HARDLY = 0.1  #: reads a day of a table of which none is told, while others are


@dataclass(frozen=True, slots=True)
class ReadsADay:
    """The reads a day of tables, by database and name; none at all where nobody tells of reads."""

    told: Mapping[tuple[str, str], float]

    @classmethod
    def since(cls, state: OwnState | None, metastore: str, now: int, days: int) -> ReadsADay:
        """Counts those of a metastore's tables in the last ``days`` before ``now`` (epoch ms)."""
        sums = [] if state is None else state.reads.sums(metastore, now - days * DAY_MS)
        return cls({(one.database, one.table): one.queries / days for one in sums})

    def of(self, database: str, table: str) -> float:
        """Returns those of a table; 1 of each, if nobody tells of reads."""
        return self.told.get((database, table), HARDLY) if self.told else 1.0
