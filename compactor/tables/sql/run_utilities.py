"""Runs statements about compactions, transactions and locks, as the commands of ``compactor`` do."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.answers import show_compactions, show_locks, show_rows
from compactor.answers.explain_locks import locks_of_statement
from compactor.base.errors import CompactionFailed
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.locking.statement_rules import Name, Spec
from compactor.requests import abort
from compactor.requests.request import Enqueued, RebalanceOptions, request_compaction, wait_for
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.tables.sql.named_partitions import stored_name
from compactor.tables.sql.sql_session import Answer, Session, build_list, build_result

_REASON = "aborted by hand (ABORT TRANSACTIONS)"
_REQUESTED = ("table", "compaction", "state", "refused", "errormessage")
_SUCCEEDED = (State.READY_FOR_CLEANING, State.SUCCEEDED)


def compactions(session: Session, statement: Statement, action: parsed_actions.ShowCompactions) -> Answer:
    """Answers SHOW COMPACTIONS."""
    name, partition = _where(session, action.schema, action.table, action.partition)
    words = show_compactions.CompactionWords(
        id=action.id, name=name, partition=partition, pool=action.pool, type=action.type, state=action.status
    )
    entry_filter = show_compactions.find_filter(session.site, words)
    rows = show_compactions.show_compactions(session.site, entry_filter, order=action.order, limit=action.limit)
    return build_list(statement.name, rows, show_compactions.SHOWN, "there are no compactions")


def transactions(session: Session, statement: Statement, action: parsed_actions.ShowTransactions) -> Answer:
    """Answers SHOW TRANSACTIONS."""
    rows = show_rows.show_transactions(session.site)
    return build_list(statement.name, rows, show_rows.TransactionRow.columns(), "no transaction is open or aborted")


def locks(session: Session, statement: Statement, action: parsed_actions.ShowLocks) -> Answer:
    """Answers SHOW LOCKS."""
    name, partition = _where(session, action.schema, action.table, action.partition)
    where = show_locks.find_place(session.site, name, partition)
    if action.extended:
        extended = show_locks.show_locks_extended(session.site, where)
        return build_list(statement.name, extended, show_locks.LockExtended.columns(), "there are no locks")
    rows = show_locks.show_locks(session.site, where)
    return build_list(statement.name, rows, show_locks.LockShown.columns(), "there are no locks")


def _where(
    session: Session, schema: str | None, table: Name | None, spec: Spec | None
) -> tuple[str | None, str | None]:
    """Returns the names of a database or table, and of a partition, as the command line takes them."""
    if table is None:
        return (None if schema is None else f"{schema}.*"), None
    if spec is None:
        return session.full_name(table), None
    return session.full_name(table), stored_name(session.site.metastore.catalog, session.load_table(table), spec)


def abort_transactions(session: Session, statement: Statement, action: parsed_actions.AbortTransactions) -> Answer:
    """Aborts open transactions; if one cannot be aborted, the others still are.

    Raises:
        NotFound, Refused: some could not be aborted; the others are aborted.
    """
    aborted, failed = abort.abort_transactions(session.site, [TxnId(txn) for txn in action.ids], _REASON)
    abort.must_all_be_aborted(failed, aborted)
    rows = [{"txnid": txn, "state": "ABORTED"} for txn in aborted]
    message = "\n".join(f"transaction {txn} is aborted" for txn in aborted)
    return Answer(statement=statement.name, rows=rows, message=message)


def abort_compactions(session: Session, statement: Statement, action: parsed_actions.AbortCompactions) -> Answer:
    """Aborts compactions; if one cannot be aborted, the others still are.

    Raises:
        NotFound, Refused: some could not be aborted; the others are aborted.
    """
    entries, failed = abort.abort_compactions(session.site, action.ids)
    abort.must_all_be_aborted(failed, [entry.id for entry in entries])
    rows = [{"compactionid": entry.id, "state": entry.state.label} for entry in entries]
    message = "\n".join(
        f"compaction {entry.id} is {'stopped' if entry.end is None else 'aborted'}" for entry in entries
    )
    return Answer(statement=statement.name, rows=rows, message=message)


def compact(session: Session, statement: Statement, action: parsed_actions.Compact) -> Answer:
    """Requests a compaction; with AND WAIT, waits for it.

    Raises:
        CompactionFailed: a compaction that was waited for was refused, failed or was aborted.
        WaitTimedOut: hive.compactor.wait.timeout has passed; the compactions continue.
    """
    table = session.load_table(action.table)
    partition = None
    if action.partition is not None:
        partition = stored_name(session.site.metastore.catalog, table, action.partition)
    requested = request_compaction(
        session.site,
        table=str(table),
        partition=partition,
        type=action.type,
        pool=action.pool,
        properties=dict(action.properties),
        rebalance=RebalanceOptions(buckets=action.buckets, order_by=action.order_by),
    )
    ended: Sequence[Entry] = ()
    if action.wait:
        seconds = session.site.settings.milliseconds("hive.compactor.wait.timeout") / 1000
        ended = wait_for(
            session.site, [request.entry_id for request in requested if request.entry_id is not None], seconds
        )
        if failed := [entry for entry in ended if entry.state not in _SUCCEEDED]:
            raise CompactionFailed(
                "; ".join(f"compaction {bad.id} {bad.state.label}: {bad.error or ''}" for bad in failed)
            )
    return Answer(statement=statement.name, rows=_rows(requested, ended), columns=_REQUESTED)


def _rows(requested: Sequence[Enqueued], ended: Sequence[Entry]) -> list[dict[str, object]]:
    by_id = {entry.id: entry for entry in ended}
    rows: list[dict[str, object]] = []
    for request in requested:
        entry = by_id.get(request.entry_id or 0)
        state = None if request.entry_id is None else "enqueued" if entry is None else entry.state.label
        rows.append({**request.to_json(), "state": state, "errormessage": None if entry is None else entry.error})
    return rows


def explain_locks(session: Session, statement: Statement, action: parsed_actions.ExplainLocks) -> Answer:
    """Answers EXPLAIN LOCKS."""
    plan = locks_of_statement(session.site, statement, database=session.database)
    message = "\n".join(["LOCK INFORMATION:", *map(str, plan.locks)])
    return Answer(statement=statement.name, rows=[lock.to_json() for lock in plan.locks], message=message)


def use(session: Session, statement: Statement, action: parsed_actions.Use) -> Answer:
    """Makes a database the current one.

    Raises:
        NotFound: the database does not exist.
    """
    session.site.metastore.catalog.database_location(action.database)
    session.database = action.database
    return build_result(statement.name, f"the current database is {action.database}", database=action.database)
