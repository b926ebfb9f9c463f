"""The critical section of a single compaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from sqlalchemy import Engine, event

from compactor.base.errors import LostClaim
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entry
from compactor.metastore.metastore import Metastore
from compactor.metastore.queue.commit_section import Commits, Committing, EntryCommit


@contextmanager
def committing(
    metastore: Metastore,
    entry: Entry,
    worker_id: str,
    txn: TxnId,
    *,
    table_id: int,
    partition_id: int | None,
    location: str,
) -> Iterator[Committing]:
    """Runs ``committing_all`` for one entry.

    Raises:
        LostClaim: it may not be committed; nothing is changed.
    """
    commit = EntryCommit(
        entry=entry, worker_id=worker_id, txn=txn, table_id=table_id, partition_id=partition_id, location=location
    )
    with metastore.commits.committing_all([commit]) as found:
        held = found[entry.id]
        if isinstance(held, LostClaim):
            raise held
        yield held


@dataclass(slots=True)
class Sections:
    """The number of entries of each critical section, and the statements sent to any database while names were given."""

    entries: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def watched_sections() -> Iterator[Sections]:
    """Yields a record of the critical sections of the block."""
    seen, inside = Sections(), [False]
    committing_all = Commits.committing_all

    @contextmanager
    def watched(self: Commits, commits: Sequence[EntryCommit]) -> Iterator[Mapping[int, Committing | LostClaim]]:
        with committing_all(self, commits) as found:
            seen.entries.append(len(commits))
            inside[0] = True
            try:
                yield found
            finally:
                inside[0] = False

    def see(conn: object, cursor: object, statement: str, *rest: object) -> None:
        if inside[0]:
            seen.asked.append(statement)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Commits, "committing_all", watched)
        event.listen(Engine, "before_cursor_execute", see)
        try:
            yield seen
        finally:
            event.remove(Engine, "before_cursor_execute", see)
