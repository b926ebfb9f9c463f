"""Takes in what other programs tell of the queries that read tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from compactor.service.insight.read_events import Query, queries_of
from compactor.service.site import Site, own_state
from compactor.state.reads import Read

_AT_ONCE = 1000  #: events that are stored in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Numbers of events: in all, of queries that ended and read tables, and of those their reads of tables of this metastore
    that were not stored before."""

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


def import_reads(site: Site, lines: Iterable[str], what: str) -> Imported:
    """Stores the reads that the events in ``lines`` tell of, each once, however often it is told; see ``queries_of``.
    Tables that this metastore does not have are left out, and what is older than is kept.

    Raises:
        BadFile: ``what`` is not as its engine writes it; what came before is stored.
        DatabaseUnavailable: there is no state.
    """
    state, known = own_state(site), set(site.metastore.catalog.names())
    since = site.metastore.now_ms() - site.settings.milliseconds("compactor.reads.retention")
    done, events = Imported(), queries_of(lines, what)
    while some := list(islice(events, _AT_ONCE)):
        queries = [one for one in some if one is not None and one.at >= since]
        reads = [read for one in queries for read in _reads(one) if (read.database, read.table) in known]
        stored = state.reads.add(site.name, reads) if reads else 0
        done = done.plus(Imported(events=len(some), queries=len(queries), stored=stored))
    return done


def _reads(query: Query) -> Iterator[Read]:
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
