"""Takes in what other programs tell of the queries that read tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from compactor.base.errors import BadFile
from compactor.insight.read_events import Query, queries_of
from compactor.site.site import Site, own_state
from compactor.state.read_counts import Read

_AT_ONCE = 1000  #: events that are stored in one transaction
_AHEAD_MS = 86_400_000  #: by which an engine's clock may be ahead, or its times without a zone be those of another zone


class TooManyEvents(BadFile):
    """More events are told at once than one request may hold; none is stored."""


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


def import_reads(site: Site, lines: Iterable[str], what: str, *, most: int | None = None) -> Imported:
    """Stores the reads that the events in ``lines`` tell of, each once, however often it is told; see ``queries_of``.
    Tables that this metastore does not have are left out, and what is older than is kept.

    Args:
        most: the largest number of events; with it, all are read before any is stored.

    Raises:
        BadFile: ``what`` is not as its engine writes it, or a query ended in the future. Without ``most``, what came before
            is stored.
        TooManyEvents: there are more than ``most`` events.
        DatabaseUnavailable: there is no state.
    """
    state, now = own_state(site), site.metastore.now_ms()
    since = now - site.settings.milliseconds("compactor.reads.retention")
    done, events = Imported(), queries_of(lines, what, latest=now + _AHEAD_MS)
    if most is not None:
        told = list(islice(events, most + 1))
        if len(told) > most:
            raise TooManyEvents(f"{what}: more than {most} events; send fewer at once, or use `compactor reads import`")
        events = iter(told)
    known = set(site.metastore.catalog.names())
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
