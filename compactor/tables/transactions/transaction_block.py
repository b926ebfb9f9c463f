"""Opens a transaction and ends it: ``with transaction(site) as txn:`` commits when the block ends, aborts when it raises."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress

from compactor.base.errors import (
    BadFile,
    CommitUnknown,
    CompactorError,
    Disagreement,
    Refused,
    StorageError,
    TransactionAborted,
    failing_alone,
)
from compactor.base.steps import WriteStep, reach
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.site.heartbeat import Heartbeat, heartbeat_period_ms
from compactor.site.restored_database import doubt_of_programs
from compactor.site.site import Site
from compactor.tables.transactions.numbers_on_disk import must_have_given_all_numbers
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.watch import Watch

log = logging.getLogger(__name__)


class _GivenUp(Exception):
    pass


@contextmanager
def transaction(
    site: Site, user: str | None = None, *, role: str = "writer", writes: Collection[Table] = ()
) -> Iterator[Transaction]:
    """Opens a transaction that commits at the end of the block, or aborts when the block raises.

    Args:
        role: names the holder, as ``compactor show blockers`` lists it.
        writes: tables that it will write, if they are known: they are checked before it draws a number.

    Raises:
        Refused: the mode is observe for all tables, so that the metastore is only read.
        TransactionAborted: it timed out, or another writer of the same rows won.
        CommitUnknown: the answer to the commit was lost; nothing was aborted.
        Disagreement: the metastore was put back to an older copy, perhaps meanwhile; nothing was named.
    """
    if site.metastore.database.read_only:
        raise Refused(
            f"metastore {site.name}: compactor.mode is observe ({site.settings.source('compactor.mode')}), and who reads "
            "rows opens a transaction in the metastore, so that no cleaner removes them meanwhile; set request or more"
        )
    in_doubt = doubt_of_programs(site)
    for table in writes:
        if in_doubt is not None:
            raise Disagreement(f"{table}: nothing is written: {in_doubt}")
        must_have_given_all_numbers(site, table)
    if in_doubt is not None:
        log.warning("what is read may lack rows, and nothing is written: %s", in_doubt)
    transactions, agent = site.metastore.transactions, site.identity(role)
    opening = NewTransaction(user=user or site.user, host=site.host, agent=agent)
    (txn,) = transactions.open_all([opening])
    watch = Watch(site.metastore, txn, agent, site.settings.milliseconds("compactor.read.max.age"))
    period = min(heartbeat_period_ms(site.settings), watch.longest_ms)
    with Heartbeat(transactions, [txn], period, after_beat=watch.check) as heart:
        opened = Transaction(site, txn, opening, heart, watch)
        opened.in_doubt = in_doubt
        with ending(opened, heart, watch, role):
            yield opened


@contextmanager
def ending(opened: Transaction, heart: Heartbeat, watch: Watch, role: str) -> Iterator[None]:
    """Commits ``opened`` at the end of the block, or aborts it when the block raises; raises as ``transaction`` does."""
    site = opened.site
    try:
        yield
        if watch.found is not None:
            raise watch.found
        if opened.created:
            opened.created.make_durable()
        if opened.pending:
            opened.added.make_durable()
            opened.pending.make_durable()
        heart.let_go(opened.id)
        _commit(site, opened, watch)
    except (CommitUnknown, TransactionAborted):
        raise
    except BaseException as error:
        heart.let_go(opened.id)
        lost = _lost(opened) if isinstance(error, BadFile | StorageError) else None
        with suppress(CompactorError):  # the original error says more; a transaction that cannot be aborted times out
            site.metastore.transactions.abort(opened.id, f"the {role} failed", agent=opened.agent)
        if lost is not None:
            raise lost from error
        raise
    finally:
        heart.let_go(opened.id)
        opened.end()
        _tidy(opened)


def _lost(opened: Transaction) -> TransactionAborted | None:
    """Returns that somebody else has ended the transaction: what it has staged is swept then, and that a file is gone says
    nothing to who waits for the commit."""
    try:
        opened.site.metastore.transactions.heartbeat(opened.id)
    except TransactionAborted as error:
        return error
    except CompactorError:
        return None
    return None


def give_up(stack: ExitStack) -> None:
    """Ends what ``stack`` has entered, a transaction without its writes."""
    with suppress(_GivenUp), stack:
        raise _GivenUp


def _commit(site: Site, opened: Transaction, watch: Watch) -> None:
    """Commits; what is staged gets its names in the same critical section."""
    if not opened.pending and not opened.created:
        site.metastore.transactions.commit(opened.id, agent=opened.agent)
        return
    limit = site.settings.milliseconds("hive.txn.timeout") / 2000
    created, added = opened.created.at_commit(opened.id), opened.added.at_commit(opened.id)
    first = [*opened.with_commit, watch.must_hold, *created, *added]
    written = opened.written.writes(opened.pending.directories, opened.added.partitions)
    with site.metastore.transactions.committing(opened.id, written, first, agent=opened.agent):
        if created or added:
            reach(WriteStep.WRITE_PARTITIONS_ADDED)
        reach(WriteStep.WRITE_COMMITTING)
        opened.pending.name(limit)
    reach(WriteStep.WRITE_COMMITTED)


def _tidy(ended: Transaction) -> None:
    """Removes the staging directories; the roles sweep those that stay, as they sweep a compaction's."""
    try:
        with failing_alone(f"transaction {ended.id}"):
            ended.pending.remove_staging()
    except CompactorError as error:
        log.warning("transaction %d: what it staged stays until the next compaction or cleaning: %s", ended.id, error)
