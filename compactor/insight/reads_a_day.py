"""The number of reads of each table a day, from reported reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.state.runs import DAY_MS
from compactor.state.state_database import OwnState

HARDLY = 0.1  #: reads a day of a table without reported reads, where other tables have some


@dataclass(frozen=True, slots=True)
class ReadsADay:
    """The reads a day by database and table; empty where no reads are reported."""

    by_table: Mapping[tuple[str, str], float]

    @classmethod
    def since(cls, state: OwnState | None, metastore: str, now: int, days: int) -> ReadsADay:
        """Counts the reads of a metastore's tables in the last ``days`` before ``now`` (epoch ms)."""
        sums = [] if state is None else state.reads.sums(metastore, now - days * DAY_MS)
        return cls({(table.database, table.table): table.queries / days for table in sums})

    def for_table(self, database: str, table: str) -> float:
        """Returns the reads a day of one table; 1 where no reads are reported."""
        return self.by_table.get((database, table), HARDLY) if self.by_table else 1.0
