"""Answers about compactions, transactions and locks, and requests: each the verb of the command line behind it."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.answers import show, show_compactions, show_locks
from compactor.answers.explain_locks import locks_of_statement
from compactor.base.errors import CompactionFailed
from compactor.base.ids import TxnId
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.locking.accesses import Name, Spec
from compactor.requests import abort
from compactor.requests.request import Enqueued, RebalanceOptions, request_compaction, wait_for
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.sql.answer import Answer, done, listed
from compactor.tables.sql.named_partitions import stored_name
from compactor.tables.sql.sql_session import Session

_REASON = "aborted by hand (ABORT TRANSACTIONS)"
_REQUESTED = ("table", "compaction", "state", "refused", "errormessage")
_SUCCEEDED = (State.READY_FOR_CLEANING, State.SUCCEEDED)


def compactions(session: Session, statement: Statement, asked: parsed_actions.ShowCompactions) -> Answer:
    """Answers SHOW COMPACTIONS."""
    name, partition = _where(session, asked.schema, asked.table, asked.partition)
    words = show_compactions.CompactionWords(
        id=asked.id, name=name, partition=partition, pool=asked.pool, type=asked.type, state=asked.status
    )
    wanted = show_compactions.find_filter(session.site, words)
    rows = show_compactions.show_compactions(session.site, wanted, order=asked.order, limit=asked.limit)
    return listed(statement.name, rows, show_compactions.SHOWN, "there are no compactions")


def transactions(session: Session, statement: Statement, asked: parsed_actions.ShowTransactions) -> Answer:
    """Answers SHOW TRANSACTIONS."""
    rows = show.show_transactions(session.site)
    return listed(statement.name, rows, show.TransactionRow.columns(), "no transaction is open or aborted")


def locks(session: Session, statement: Statement, asked: parsed_actions.ShowLocks) -> Answer:
    """Answers SHOW LOCKS."""
    name, partition = _where(session, asked.schema, asked.table, asked.partition)
    where = show_locks.find_place(session.site, name, partition)
    if asked.extended:
        extended = show_locks.show_locks_extended(session.site, where)
        return listed(statement.name, extended, show_locks.LockExtended.columns(), "there are no locks")
    rows = show_locks.show_locks(session.site, where)
    return listed(statement.name, rows, show_locks.LockShown.columns(), "there are no locks")


def _where(
    session: Session, schema: str | None, table: Name | None, spec: Spec | None
) -> tuple[str | None, str | None]:
    """Returns the name of a database or table as the command line takes it, and a partition's."""
    if table is None:
        return (None if schema is None else f"{schema}.*"), None
    if spec is None:
        return session.full(table), None
    return session.full(table), stored_name(session.site.metastore.catalog, session.found(table), spec)


def abort_transactions(session: Session, statement: Statement, asked: parsed_actions.AbortTransactions) -> Answer:
    """Aborts open transactions; one that cannot be aborted keeps none of the others from it.

    Raises:
        NotFound, Refused: for those that could not be; the others are aborted.
    """
    aborted, failed = abort.abort_transactions(session.site, [TxnId(txn) for txn in asked.ids], _REASON)
    abort.must_all_be_aborted(failed, aborted)
    rows = [{"txnid": txn, "state": "ABORTED"} for txn in aborted]
    said = "\n".join(f"transaction {txn} is aborted" for txn in aborted)
    return Answer(statement=statement.name, rows=rows, said=said)


def abort_compactions(session: Session, statement: Statement, asked: parsed_actions.AbortCompactions) -> Answer:
    """Aborts compactions; one that cannot be aborted keeps none of the others from it.

    Raises:
        NotFound, Refused: for those that could not be; the others are aborted.
    """
    entries, failed = abort.abort_compactions(session.site, asked.ids)
    abort.must_all_be_aborted(failed, [entry.id for entry in entries])
    rows = [{"compactionid": entry.id, "state": entry.state.label} for entry in entries]
    said = "\n".join(f"compaction {entry.id} is {'stopped' if entry.end is None else 'aborted'}" for entry in entries)
    return Answer(statement=statement.name, rows=rows, said=said)


def compact(session: Session, statement: Statement, asked: parsed_actions.Compact) -> Answer:
    """Requests a compaction, and waits for it if it is asked for.

    Raises:
        CompactionFailed: one that was waited for was refused, failed or was aborted.
        WaitTimedOut: hive.compactor.wait.timeout is over; they continue.
    """
    found = session.found(asked.table)
    partition = None
    if asked.partition is not None:
        partition = stored_name(session.site.metastore.catalog, found, asked.partition)
    requested = request_compaction(
        session.site,
        table=str(found),
        partition=partition,
        type=asked.type,
        pool=asked.pool,
        properties=dict(asked.properties),
        rebalance=RebalanceOptions(buckets=asked.buckets, order_by=asked.order_by),
    )
    ended: Sequence[Entry] = ()
    if asked.wait:
        seconds = session.site.settings.milliseconds("hive.compactor.wait.timeout") / 1000
        ended = wait_for(session.site, [one.entry_id for one in requested if one.entry_id is not None], seconds)
        if failed := [entry for entry in ended if entry.state not in _SUCCEEDED]:
            raise CompactionFailed("; ".join(f"compaction {e.id} {e.state.label}: {e.error or ''}" for e in failed))
    return Answer(statement=statement.name, rows=_rows(requested, ended), columns=_REQUESTED)


def _rows(requested: Sequence[Enqueued], ended: Sequence[Entry]) -> list[dict[str, object]]:
    by_id = {entry.id: entry for entry in ended}
    rows: list[dict[str, object]] = []
    for one in requested:
        entry = by_id.get(one.entry_id or 0)
        state = None if one.entry_id is None else "enqueued" if entry is None else entry.state.label
        rows.append({**one.to_json(), "state": state, "errormessage": None if entry is None else entry.error})
    return rows


def explain_locks(session: Session, statement: Statement, asked: parsed_actions.ExplainLocks) -> Answer:
    """Answers EXPLAIN LOCKS."""
    found = locks_of_statement(session.site, statement, database=session.database)
    said = "\n".join(["LOCK INFORMATION:", *map(str, found.locks)])
    return Answer(statement=statement.name, rows=[lock.to_json() for lock in found.locks], said=said)


def use(session: Session, statement: Statement, asked: parsed_actions.Use) -> Answer:
    """Makes a database the current one.

    Raises:
        NotFound: there is none of this name.
    """
    session.site.metastore.catalog.database_location(asked.database)
    session.database = asked.database
    return done(statement.name, f"the current database is {asked.database}", database=asked.database)
