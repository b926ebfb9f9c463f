"""``compactor abort …``."""

from __future__ import annotations

from copy import copy

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, say

_REASON = "aborted by hand (compactor abort transaction)"


@click.group()
def abort() -> None:
    """End a transaction or a compaction."""


@abort.command("transaction")
@click.argument("txns", metavar="ID…", type=click.IntRange(min=1), nargs=-1, required=True)
@with_context
def abort_transaction(context: CliContext, txns: tuple[int, ...]) -> None:
    """Abort open transactions. No reader sees their writes, and the cleaner removes them.

    One that cannot be aborted keeps none of the others from it.
    """
    from compactor.base.ids import TxnId
    from compactor.requests import abort as service

    with context.site() as site:
        aborted, failed = service.abort_transactions(site, map(TxnId, txns), _REASON)
    for txn in aborted:
        if context.json:
            print_json({"txnid": txn, "state": "ABORTED"})
        else:
            say(f"transaction {txn} is aborted")
    service.must_all_be_aborted(failed)


_as_hive_says = copy(abort_transaction)  # ABORT TRANSACTIONS 206 207
_as_hive_says.hidden = True
abort.add_command(_as_hive_says, "transactions")


@abort.command("compaction")
@click.argument("compaction", metavar="ID", type=click.IntRange(min=1))
@with_context
def abort_compaction(context: CliContext, compaction: int) -> None:
    """Take a compaction off the queue, or stop our worker that runs it.

    A stopped worker removes its staged files; readers never see them. Committed results stay.
    """
    from compactor.requests import abort as service

    with context.site() as site:
        entry = service.abort_compaction(site, compaction)
    if context.json:
        print_json({"compactionid": compaction, "state": entry.state.label})
    elif entry.end is None:
        say(f"compaction {compaction} is stopped; its row ends when the next pass has removed its staged files")
    else:
        say(f"compaction {compaction} is aborted")
