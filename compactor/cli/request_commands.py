"""Commands that request something: compact, abort, pause, resume, override and restore."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from compactor.base.errors import NotFound, Refused
from compactor.base.utc import utc_text
from compactor.cli.context import FAILED, REFUSED, TIMED_OUT, CliContext, parse_pairs, with_context
from compactor.cli.output import print_json, say, size
from compactor.compaction.claim_order import PRIORITY

if TYPE_CHECKING:
    from compactor.compaction.queue_entry import Entry
    from compactor.requests.request import Enqueued
    from compactor.requests.restore import Restoration
    from compactor.site.site import Site


_TYPES = click.Choice(["minor", "major", "rebalance"], case_sensitive=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """The argument and options of ``compact``, by their names in click."""

    table: str
    partition: str | None
    kind: str
    buckets: int | None
    order_by: str | None
    pool: str | None
    priority: int | None
    pairs: tuple[str, ...]
    wait: bool
    timeout: float | None


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.option("--partition", metavar="P", help="PART_NAME as Hive stores it, or k=v,k=v. Default: every partition.")
@click.option("--type", "kind", type=_TYPES, default="major", show_default=True)
@click.option("--buckets", type=click.IntRange(min=1), metavar="N", help="Rebalance: number of files. Default: as is.")
@click.option("--order-by", metavar="COLUMNS", help="Rebalance: sorts the rows over all files, as in 'a desc, b'.")
@click.option("--pool", metavar="Q", help="Default: the table's hive.compactor.worker.pool.")
@click.option(
    "--priority",
    type=click.IntRange(-100, 100),
    metavar="N",
    help="-100 to 100; more is claimed first. Default: the table's compactor.priority.",
)
@click.option("--property", "pairs", metavar="K=V", multiple=True, help="A setting of this request; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait until the compaction has ended.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait. Default: hive.compactor.wait.timeout.")
@with_context
def compact(context: CliContext, /, **arguments: Any) -> None:
    """Request a compaction now; thresholds do not apply."""
    from compactor.requests.request import RebalanceOptions, WaitTimedOut, request_compaction

    options = CompactOptions(**arguments)
    properties = parse_pairs(options.pairs, "--property")
    if options.priority is not None:
        properties = {**properties, PRIORITY: str(options.priority)}
    with context.site() as site:
        try:
            requested = request_compaction(
                site,
                table=options.table,
                partition=options.partition,
                type=options.kind,
                pool=options.pool,
                properties=properties,
                rebalance=RebalanceOptions(buckets=options.buckets, order_by=options.order_by),
            )
        except NotFound:
            raise
        except Refused as error:
            say(f"compactor: refused: {error}", err=True)
            sys.exit(REFUSED)
        ended: Sequence[Entry] = ()
        timed_out: WaitTimedOut | None = None
        if options.wait:
            try:
                ended = _wait(site, requested, options.timeout)
            except WaitTimedOut as error:
                timed_out = error
    _report_requests(context, requested, ended)
    if timed_out is not None:
        say(f"compactor: {timed_out}", err=True)
        sys.exit(TIMED_OUT)
    if any(_has_failed(entry) for entry in ended):
        sys.exit(FAILED)


def _wait(site: Site, requested: Sequence[Enqueued], timeout: float | None) -> Sequence[Entry]:
    from compactor.requests.request import wait_for

    seconds = site.settings.milliseconds("hive.compactor.wait.timeout") / 1000 if timeout is None else timeout
    return wait_for(site, [request.entry_id for request in requested if request.entry_id is not None], seconds)


def _has_failed(entry: Entry) -> bool:
    from compactor.compaction.states import State

    return entry.state not in (State.READY_FOR_CLEANING, State.SUCCEEDED)


def _report_requests(context: CliContext, requested: Sequence[Enqueued], ended: Sequence[Entry]) -> None:
    by_id = {entry.id: entry for entry in ended}
    if context.json:
        states = {number: {"state": entry.state.label, "errormessage": entry.error} for number, entry in by_id.items()}
        print_json([{**request.to_json(), **states.get(request.entry_id or 0, {})} for request in requested])
        return
    for request in requested:
        if request.entry_id is None:
            say(f"{request.entity}: refused: {request.refused}")
            continue
        entry = by_id.get(request.entry_id)
        state = "enqueued" if entry is None else entry.state.label
        error = f": {entry.error}" if entry is not None and entry.error else ""
        say(f"{request.entity}: compaction {request.entry_id} {state}{error}")


_REASON = "aborted by hand (compactor abort transaction)"


@click.group()
def abort() -> None:
    """End a transaction or a compaction."""


@abort.command("transaction")
@click.argument("txns", metavar="ID…", type=click.IntRange(min=1), nargs=-1, required=True)
@with_context
def abort_transaction(context: CliContext, txns: tuple[int, ...]) -> None:
    """Abort open transactions. No reader sees their writes, and the cleaner removes them.

    If one cannot be aborted, the others are aborted all the same.
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


_abort_transactions = copy(abort_transaction)  # as in Hive's ABORT TRANSACTIONS 206 207
_abort_transactions.hidden = True
abort.add_command(_abort_transactions, "transactions")


@abort.command("compaction")
@click.argument("compaction", metavar="ID", type=click.IntRange(min=1))
@with_context
def abort_compaction(context: CliContext, compaction: int) -> None:
    """Remove a compaction from the queue, or stop our worker that runs it.

    A stopped worker removes its staged files, which readers never see. A committed result stays.
    """
    from compactor.requests import abort as service

    with context.site() as site:
        entry = service.abort_compaction(site, compaction)
    if context.json:
        print_json({"compactionid": compaction, "state": entry.state.label})
    elif entry.end is None:
        say(f"compaction {compaction} is stopped; the next pass removes its staged files and ends its row")
    else:
        say(f"compaction {compaction} is aborted")


@click.command()
@click.argument("table", metavar="DB.TABLE")
@with_context
def pause(context: CliContext, table: str) -> None:
    """Pause a table: the initiator skips it until `compactor resume`.

    Queued and manual requests continue. Hive's own initiator continues too: it only knows the table property
    no_auto_compaction, which this command does not change.
    """
    from compactor.requests import pause as service

    with context.site() as site:
        paused = service.pause(site, table, site.user)
    if context.json:
        print_json({"table": f"{paused.database}.{paused.table}", "paused_by": paused.by})
    else:
        say(f"{paused.database}.{paused.table} is paused; `compactor resume` ends the pause")


@click.command()
@click.argument("table", metavar="DB.TABLE")
@with_context
def resume(context: CliContext, table: str) -> None:
    """Let the initiator consider a table again after a pause or after too many failures.

    The initiator skips a partition if its newest compactions all failed
    (hive.compactor.initiator.failed.compacts.threshold). This command ends the pause. It prints the failed and 'did not
    initiate' rows since each partition's last success, and removes them from the history. It changes nothing else.
    """
    from compactor.requests import pause as service

    with context.site() as site:
        resumed = service.resume(site, table)
    if context.json:
        print_json([entity.to_json() for entity in resumed])
        return
    for entity in resumed:
        if entity.paused_by is not None:
            say(f"{entity.entity}: no longer paused (it was paused by {entity.paused_by})")
        for entry in entity.forgotten:
            reason = f": {entry.error}" if entry.error else ""
            say(f"{entity.entity}: removed compaction {entry.id} ({entry.state.label}) from the history{reason}")
    if not resumed:
        say(
            f"{table}: neither paused by `compactor pause` nor failed since the last success; "
            f"`compactor explain {table}` shows any other reason why the initiator skips it"
        )


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.argument("assignment", metavar="KEY=VALUE")
@click.option("--remove", is_flag=True, help="Remove the override of KEY; give no value then.")
@with_context
def override(context: CliContext, table: str, assignment: str, remove: bool) -> None:
    """Override a setting for one table, in Compactor's own state.

    The override takes precedence over the table's properties, which stay as they are. Hive does not see the override.
    """
    from compactor.requests import overrides

    key, equals, value = assignment.partition("=")
    if remove is bool(equals):
        raise click.UsageError("give KEY=VALUE, or KEY with --remove")
    with context.site() as site:
        if remove:
            done = overrides.remove_override(site, table, key)
        else:
            done = overrides.override(site, table, key, value, site.user)
    if context.json:
        print_json({"table": f"{done.database}.{done.table}", "key": done.key, "value": None if remove else done.value})
    elif remove:
        say(f"{done.database}.{done.table}: the override {done.key}={done.value} is removed")
    else:
        say(f"{done.database}.{done.table}: {done.key}={done.value}, whatever the table's properties say")


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.option("--partition", metavar="P", help="PART_NAME as Hive stores it, or k=v,k=v.")
@click.option("--before", "entry_id", type=int, metavar="ID", required=True, help="The compaction to undo.")
@click.option("--yes", is_flag=True, help="Restore. Without it, only show what would move.")
@with_context
def restore(context: CliContext, table: str, partition: str | None, entry_id: int, yes: bool) -> None:
    """Undo a compaction while the directories that it replaced are in quarantine.

    Refused once anything depends on the compaction: a later write or compaction, another table of the same name, other
    columns. The command locks the table exclusively and pauses it. The compaction's own output goes into quarantine.
    """
    from compactor.requests import restore as service

    with context.site(read_only=not yes) as site:
        try:
            if yes:
                restoration = service.restore(site, table, partition, entry_id, site.user)
            else:
                restoration = service.preview_restore(site, table, partition, entry_id)
        except NotFound:
            raise
        except Refused as error:
            say(f"compactor: refused: {error}", err=True)
            sys.exit(REFUSED)
    if context.json:
        print_json(restoration.to_json())
    else:
        _print_restoration(restoration)


def _print_restoration(restoration: Restoration) -> None:
    undo = restoration.undo
    say(
        f"{restoration.entity}: compaction {restoration.entry_id} "
        f"{'is undone' if restoration.done else 'would be undone'}"
    )
    for name in undo.back:
        say(f"  back from quarantine: {name}")
    for name in undo.outputs:
        say(f"  into quarantine: {name}")
    say(f"  {size(undo.bytes)} back; the quarantine keeps its directories until {utc_text(restoration.until)}")
    if restoration.done:
        table = f"{restoration.entity.database}.{restoration.entity.table}"
        say(f"  {table} is paused, so nothing compacts it again; `compactor resume {table}` ends the pause")
    else:
        say("nothing was changed; --yes does it")
