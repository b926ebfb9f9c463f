"""Imports events of other programs about queries that read tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from compactor.base.errors import BadFile
from compactor.insight.read_events import ReadQuery, parse_queries
from compactor.site.site import Site, own_state
from compactor.state.read_counts import Read

_AT_ONCE = 1000  #: events that are stored in one transaction
_AHEAD_MS = 86_400_000  #: tolerance for an engine's clock, and for times without a zone


class TooManyEvents(BadFile):
    """A request has more events than allowed; none is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Counts of an import.

    ``events`` were read, ``queries`` of them are queries that ended and read tables, and ``stored`` are the new reads of
    tables of this metastore.
    """

    events: int = 0
    queries: int = 0
    stored: int = 0

    def to_json(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}

    def plus(self, other: Imported) -> Imported:
        return Imported(
            events=self.events + other.events,
            queries=self.queries + other.queries,
            stored=self.stored + other.stored,
        )


def import_reads(site: Site, lines: Iterable[str], what: str, *, most: int | None = None) -> Imported:
    """Stores the reads in the events of ``lines``, each once even if reported repeatedly.

    See ``parse_queries``.

    Skips tables that this metastore does not have, and reads older than ``compactor.reads.retention``.

    Args:
        most: the largest number of events; with it, all are read before any is stored.

    Raises:
        BadFile: ``what`` is malformed, or a query ended in the future. Without ``most``, earlier events are stored.
        TooManyEvents: there are more than ``most`` events.
        DatabaseUnavailable: there is no state.
    """
    state, now = own_state(site), site.metastore.now_ms()
    since = now - site.settings.milliseconds("compactor.reads.retention")
    done, events = Imported(), parse_queries(lines, what, latest=now + _AHEAD_MS)
    if most is not None:
        first_events = list(islice(events, most + 1))
        if len(first_events) > most:
            raise TooManyEvents(f"{what}: more than {most} events; send fewer at once, or use `compactor reads import`")
        events = iter(first_events)
    known = set(site.metastore.catalog.names())
    while batch := list(islice(events, _AT_ONCE)):
        queries = [query for query in batch if query is not None and query.at >= since]
        reads = [read for query in queries for read in _reads_of(query) if (read.database, read.table) in known]
        stored = state.reads.add(site.name, reads) if reads else 0
        done = done.plus(Imported(events=len(batch), queries=len(queries), stored=stored))
    return done


def _reads_of(query: ReadQuery) -> Iterator[Read]:
    for database, table in query.tables:
        yield Read(
            database=database,
            table=table,
            engine=query.engine,
            query=query.id,
            like=query.like,
            at=query.at,
            seconds=query.seconds,
            files=query.files,
            bytes=query.bytes,
        )
