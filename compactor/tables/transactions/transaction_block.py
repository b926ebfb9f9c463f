"""Opens and ends transactions.

``with transaction(site) as txn:`` commits when the block ends, aborts if it raises.
"""

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
from compactor.tables.transactions.numbers_on_disk import must_know_all_numbers
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.watch import Watch

log = logging.getLogger(__name__)


class _GivenUp(Exception):
    pass


@contextmanager
def transaction(
    site: Site, user: str | None = None, *, role: str = "writer", writes: Collection[Table] = ()
) -> Iterator[Transaction]:
    """Opens a transaction; the end of the block commits it, an exception aborts it.

    Args:
        role: names the holder in ``compactor show blockers``.
        writes: tables that it will write, if they are known; they are checked before it allocates a number.

    Raises:
        Refused: the mode is observe for all tables, so that the metastore must not be written.
        TransactionAborted: it timed out, or another writer of the same rows won.
        CommitUnknown: the answer to the commit was lost; nothing was aborted.
        Disagreement: the metastore was restored from an older copy, perhaps meanwhile; nothing was published.
    """
    if site.metastore.database.read_only:
        raise Refused(
            f"metastore {site.name}: compactor.mode is observe ({site.settings.source('compactor.mode')}), but a reader "
            "must open a transaction in the metastore, so that no cleaner removes its rows meanwhile; set request or more"
        )
    in_doubt = doubt_of_programs(site)
    for table in writes:
        if in_doubt is not None:
            raise Disagreement(f"{table}: nothing is written: {in_doubt}")
        must_know_all_numbers(site, table)
    if in_doubt is not None:
        log.warning("rows that are read may be incomplete, and nothing is written: %s", in_doubt)
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
    """Commits ``opened`` at the end of the block, or aborts it if the block raises.

    Raises as ``transaction`` does.
    """
    site = opened.site
    try:
        yield
        if watch.loss is not None:
            raise watch.loss
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
        with suppress(CompactorError):  # report the original error; a transaction that cannot be aborted times out
            site.metastore.transactions.abort(opened.id, f"the {role} failed", agent=opened.agent)
        if lost is not None:
            raise lost from error
        raise
    finally:
        heart.let_go(opened.id)
        opened.end()
        _tidy(opened)


def _lost(opened: Transaction) -> TransactionAborted | None:
    """Returns an error if somebody else has ended the transaction.

    Its staged files are swept then, and a caller is better told of that than of a missing file.
    """
    try:
        opened.site.metastore.transactions.heartbeat(opened.id)
    except TransactionAborted as error:
        return error
    except CompactorError:
        return None
    return None


def give_up(stack: ExitStack) -> None:
    """Ends the context managers of ``stack`` by an exception, so that a transaction among them is aborted."""
    with suppress(_GivenUp), stack:
        raise _GivenUp


def _commit(site: Site, opened: Transaction, watch: Watch) -> None:
    """Commits; staged files get their final names in the same critical section."""
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
    """Removes the staging directories. The roles sweep remaining ones, as they sweep those of compactions."""
    try:
        with failing_alone(f"transaction {ended.id}"):
            ended.pending.remove_staging()
    except CompactorError as error:
        log.warning("transaction %d: its staged files stay until the next compaction or cleaning: %s", ended.id, error)
