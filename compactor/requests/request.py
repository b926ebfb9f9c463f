"""ALTER TABLE ... COMPACT: puts requests into the queue, and waits for them."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from compactor.base.errors import CompactorError, NotSupported, Refused
from compactor.base.identities import initiator_id
from compactor.compaction.order_by import OrderBy, format_order_by
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import ENDED_BADLY, TERMINAL, CompactionType, State, parse_type
from compactor.initiator.due import due_in_table
from compactor.metastore.catalog.values import Table
from compactor.settings.precedence import with_request
from compactor.site.mode import must_write
from compactor.site.named_tables import find_table
from compactor.site.restored_database import must_not_be_older
from compactor.site.site import Site, ground_of, must_be_compactable
from compactor.worker.file_formats import file_format_of, must_suit
from compactor.worker.rebalance_view import must_be_possible

log = logging.getLogger(__name__)
_AT_ONCE = 1000  #: requests that one transaction enqueues
_FIRST_POLL_S, _LONGEST_POLL_S = 0.2, 5.0
AUTO = "auto"  #: the type that the initiator would choose, major where nothing is due
_DIGITS = 24  #: of a run's digest in CQ_INITIATOR_ID, which has 128 characters
_Reasons: TypeAlias = dict[
    Entity, tuple[str, CompactionType | None]
]  #: the reason, and the type that the initiator would choose
#: States of a request of somebody else that a run waits for; it may have been compacted since it was refused.
_JOINED = (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The request of one partition: the id of its row, or the reason why it was refused."""

    entity: Entity
    entry_id: int | None = None
    refused: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"table": str(self.entity), "compaction": self.entry_id, "refused": self.refused}


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceOptions:
    """The options of a rebalance: the number of files, and an order such as ``a desc, b``."""

    buckets: int | None = None
    order_by: str | None = None


class WaitTimedOut(CompactorError):
    """The wait timed out while requests are still in progress; they continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWords:
    """A request as a person or a program words it.

    ``partition`` is the name that Hive stores, or ``k=v,k=v``; None means every partition of ``table``.
    """

    table: str
    partition: str | None = None
    type: str = "major"
    pool: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    rebalance: RebalanceOptions = RebalanceOptions()


def request_compaction(
    site: Site,
    *,
    table: str,
    partition: str | None = None,
    type: str = "major",
    pool: str | None = None,
    properties: Mapping[str, str] | None = None,
    rebalance: RebalanceOptions = RebalanceOptions(),
) -> list[Enqueued]:
    """Enqueues a person's request; see ``request_as``."""
    words = RequestWords(
        table=table, partition=partition, type=type, pool=pool, properties=properties or {}, rebalance=rebalance
    )
    return request_as(site, words)


def request_as(
    site: Site, words: RequestWords, who: str = "manual", *, without: Collection[Entity] = ()
) -> list[Enqueued]:
    """Enqueues the table, or the partition; without one, every partition.

    Thresholds do not apply. A partition that is queued already is returned as refused; the others are enqueued.

    Args:
        who: the end of the initiator's id in the rows, without ``-``; ``manual`` for a person.
        without: tables or partitions that are left out, since the same requester has requested them.

    Raises:
        NotFound: no such table or partition.
        Refused: the table can't be compacted, or nothing at all was enqueued.
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
        BadSetting: a property is not a setting, or not one that a request may set.
    """
    kind = parse_type(words.type)
    buckets, order_by = words.rebalance.buckets, words.rebalance.order_by
    if kind is not CompactionType.REBALANCE and (order_by or buckets is not None):
        raise Refused(f"{words.table}: only a rebalance takes buckets and ORDER BY; ask for a rebalance")
    table = find_table(site.metastore.catalog, words.table)
    settings = site.settings_for(table)
    requested = with_request(settings, words.properties)
    must_suit(table, requested.output_class, site.metastore.dialect.layout)
    entities = [entity for entity in entities_of(site, table, words.partition) if entity not in without]
    _must_be_compactable(site, table, entities)
    overlapping = _overlapping(site, table, entities)
    order: tuple[OrderBy, ...] = ()
    if kind is CompactionType.REBALANCE:
        order = must_be_possible(table, buckets=buckets, order_by=order_by)
    must_write(settings, words.table)
    must_not_be_older(site, polling=True)
    requests = [
        Request(
            entity=entity,
            type=kind,
            initiator=initiator_id(site.host, who),
            pool=words.pool or settings.text("hive.compactor.worker.pool") or None,
            properties=words.properties,
            order_by=format_order_by(order),
            buckets=buckets,
        )
        for entity in entities
        if entity not in overlapping
    ]
    results = [Enqueued(entity=entity, refused=why) for entity, why in overlapping.items()]
    for start in range(0, len(requests), _AT_ONCE):
        results += _enqueue(site, requests[start : start + _AT_ONCE])
    if not without and all(r.refused is not None for r in results):
        raise Refused("; ".join(r.refused or "" for r in results) or f"{words.table}: it has no partitions")
    return results


def request_again(site: Site, entry_id: int) -> Enqueued:
    """Enqueues the request of a row of the history again, with its pool and properties.

    Raises:
        NotFound: there is no such row.
        Refused: it has not ended or was not a request, or it cannot be enqueued now.
    """
    entry = site.metastore.entries.get(entry_id)
    if not entry.can_be_requested_again:
        raise Refused(
            f"compaction {entry_id} is {entry.state.label}; only one that failed, was refused or was aborted can be "
            "requested again"
        )
    (enqueued,) = request_compaction(
        site,
        table=f"{entry.entity.database}.{entry.entity.table}",
        partition=entry.entity.partition,
        type=entry.type.label,
        pool=entry.pool,
        properties=entry.properties,
        rebalance=RebalanceOptions(buckets=entry.buckets, order_by=entry.order_by),
    )
    return enqueued


def entities_of(site: Site, table: Table, partition: str | None) -> list[Entity]:
    """Returns the entities that a request means: one partition, all partitions, or the table itself."""
    if partition is not None:
        names: list[str | None] = [site.metastore.catalog.resolve_partition(table, partition)]
    elif table.partition_keys:
        names = [p.name for p in site.metastore.catalog.partitions(table)]
    else:
        names = [None]
    return [Entity(database=table.database, table=table.name, partition=name) for name in names]


def _must_be_compactable(site: Site, table: Table, entities: Sequence[Entity]) -> None:
    """Refuses tables and partitions of a kind that a worker refuses.

    Of several partitions, each worker checks its own.

    Raises:
        Refused: the table, or the only requested partition, is of a kind that is never compacted.
    """
    must_be_compactable(table)
    if len(entities) == 1:
        target = site.target(entities[0])
        must_be_compactable(table, target.partition)
        try:
            file_format_of(site, target)
        except NotSupported as error:
            raise Refused(str(error)) from error


def _overlapping(site: Site, table: Table, entities: Sequence[Entity]) -> dict[Entity, str]:
    """Returns the partitions whose directories overlap another's, each with the reason.

    Raises:
        Refused: the table's own directory does.
    """
    ground = ground_of(site)
    if (why := ground.refusal(table.id, None)) is not None:
        raise Refused(why)
    return {entity: why for entity in entities if (why := ground.refusal(table.id, entity.partition)) is not None}


def _enqueue(site: Site, requests: Sequence[Request]) -> list[Enqueued]:
    site.metastore.claim_token.get_or_create()  # so that a backup from before the first compaction has it
    answers = site.metastore.requests.request_all(requests)
    return [
        Enqueued(entity=request.entity, refused=f"{request.entity}: {answer}")
        if isinstance(answer, Refused)
        else Enqueued(entity=request.entity, entry_id=answer)
        for request, answer in zip(requests, answers, strict=True)
    ]


def wait_for(
    site: Site,
    ids: Sequence[int],
    timeout_s: float,
    progress: Callable[[Sequence[Entry]], None] = lambda entries: None,
) -> list[Entry]:
    """Waits until every entry has been compacted (or has ended otherwise), and returns them.

    Raises:
        WaitTimedOut: ``timeout_s`` passed before.
    """
    deadline = time.monotonic() + timeout_s
    poll = _FIRST_POLL_S
    while True:
        entries = [site.metastore.entries.get(i) for i in ids]
        progress(entries)
        open_ones = [e for e in entries if e.state not in TERMINAL and e.state is not State.READY_FOR_CLEANING]
        if not open_ones:
            return entries
        if time.monotonic() + poll > deadline:
            waiting = ", ".join(f"{e.id} is {e.state.label}" for e in open_ones)
            raise WaitTimedOut(f"waited {timeout_s:.0f} s: compaction {waiting}; it continues in the background")
        time.sleep(poll)
        poll = min(poll * 2, _LONGEST_POLL_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedOnce:
    """A table or partition with the id of its request, and the reason for the request."""

    entity: Entity
    entry_id: int
    type: str
    because: str

    def to_json(self) -> dict[str, object]:
        return {
            "table": f"{self.entity.database}.{self.entity.table}",
            "partition": self.entity.partition,
            "compaction": self.entry_id,
            "type": self.type,
            "because": self.because,
        }


def request_once(
    site: Site, words: RequestWords, run: str, *, only_if_due: bool = True, most: int | None = None
) -> list[RequestedOnce]:
    """Makes the requests of ``run`` that it has not made yet, and returns all of them.

    Returns nothing if nothing is due.

    A partition that somebody else has queued is not queued twice: the existing row is returned, and remembered for the
    next try of ``run``.

    Args:
        words: the type may be ``auto``.
        run: a task of a run of a scheduler, by its name, run and map index.
        only_if_due: requests only entities over a threshold.
        most: the most requests that the caller can take; the most urgent ones are made.

    Raises:
        NotFound: no such table or partition.
        Refused: the table is never compacted, a request is refused, or ``most`` is exceeded by what is not only due.
        CompactorError: a directory cannot be looked at.
    """
    table = find_table(site.metastore.catalog, words.table)
    ended_before = frozenset(entry.id for entry in _list_queued(site, table, (State.READY_FOR_CLEANING,)))
    reasons = _find_reasons(site, table, words, only_if_due=only_if_due)
    earlier = _requests_of_run(site, table, run)
    kept = [_kept_request(entry) for entry in earlier.values() if entry.state not in ENDED_BADLY]
    kept_entities = {request.entity for request in kept}
    repeated: _Reasons = {
        entity: ("it was asked for again", entry.type)
        for entity, entry in earlier.items()
        if entry.state in ENDED_BADLY
    }
    new = {entity: why for entity, why in (repeated | reasons).items() if entity not in kept_entities}
    chosen = list(new.items())
    if most is not None and len(kept) + len(chosen) > most:
        if not only_if_due:
            raise Refused(
                f"{words.table}: {len(kept) + len(chosen)} partitions are requested, but the scheduler takes {most} at a "
                "time; name a partition, or request only what is due"
            )
        chosen = chosen[: max(0, most - len(kept))]
        log.info("%s: the %d most urgent are requested; the others wait for the next run", words.table, len(chosen))
    return [*kept, *(_request(site, words, run, entity, why, ended_before) for entity, why in chosen)]


def initiator_of_run(run: str) -> str:
    """Returns the end of the initiator's id in the requests of a task of a run."""
    return f"run.{_digest(run)[:_DIGITS]}"


def list_earlier(site: Site, words: RequestWords, run: str) -> list[Entry]:
    """Returns the requests for this table of an earlier try of ``run`` that have not failed.

    That try made them or waited for them.

    Raises:
        NotFound: no such table.
    """
    table = find_table(site.metastore.catalog, words.table)
    return [entry for entry in _requests_of_run(site, table, run).values() if entry.state not in ENDED_BADLY]


def _digest(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()


def _requests_of_run(site: Site, table: Table, run: str) -> Mapping[Entity, Entry]:
    """Returns the newest request for each entity that the run has made or waited for."""
    entries = site.metastore.entries
    name = (table.database, table.name)
    every = [*entries.queue(database=table.database, table=table.name), *entries.history(table=name)]
    awaited = frozenset(() if site.state is None else site.state.awaited.list_of_run(site.name, _digest(run)))
    who = f"-{initiator_of_run(run)}"
    mine = [entry for entry in every if entry.id in awaited or (entry.initiator_id or "").endswith(who)]
    return {entry.entity: entry for entry in sorted(mine, key=lambda entry: entry.id)}


def _kept_request(entry: Entry) -> RequestedOnce:
    because = "it was asked for already"
    return RequestedOnce(entity=entry.entity, entry_id=entry.id, type=entry.type.label.lower(), because=because)


def _find_reasons(site: Site, table: Table, words: RequestWords, *, only_if_due: bool) -> _Reasons:
    """Returns the entities to compact, with the reason and the initiator's type, if any."""
    partition = None
    if words.partition is not None:
        [partition] = [entity.partition for entity in entities_of(site, table, words.partition)]
    due = due_in_table(site, table, partition) if only_if_due or words.type == AUTO else []
    reasons: _Reasons = {
        due_entity.entity: (due_entity.because, due_entity.type)
        for due_entity in due
        if due_entity.type is not CompactionType.ABORT_CLEANUP
    }
    if only_if_due:
        return reasons
    return {entity: reasons.get(entity, ("it was asked for", None)) for entity in entities_of(site, table, partition)}


def _request(
    site: Site,
    words: RequestWords,
    run: str,
    entity: Entity,
    reason: tuple[str, CompactionType | None],
    ended_before: Collection[int],
) -> RequestedOnce:
    """Requests a compaction, or joins the one that somebody else has queued.

    It joins none of ``ended_before``.
    """
    because, chosen = reason
    kind = words.type if words.type != AUTO else (chosen or CompactionType.MAJOR).label.lower()
    try:
        (enqueued,) = request_as(site, replace(words, partition=entity.partition, type=kind), initiator_of_run(run))
    except Refused:
        queued = _list_queued(site, find_table(site.metastore.catalog, words.table), _JOINED)
        entry = next((e for e in queued if e.entity == entity and e.id not in ended_before), None)
        if entry is None:
            raise
        if site.state is not None:
            site.state.awaited.remember(site.name, _digest(run), [entry.id])
        by = f"it is queued already: {entry.initiator_id or 'by somebody'} asked for it"
        return RequestedOnce(entity=entity, entry_id=entry.id, type=entry.type.label.lower(), because=by)
    assert enqueued.entry_id is not None  # a refusal of the only one is raised
    return RequestedOnce(entity=entity, entry_id=enqueued.entry_id, type=kind, because=because)


def _list_queued(site: Site, table: Table, states: Collection[State]) -> list[Entry]:
    return site.metastore.entries.queue(database=table.database, table=table.name, states=states)
