"""Commands that request something: compact, abort, pause, resume, override and restore."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.base.utc import utc_text
from compactor.cli.context import FAILED, REFUSED, TIMED_OUT, CliContext, with_context
from compactor.cli.output import print_json, say, size

if TYPE_CHECKING:
    from compactor.compaction.entry import Entry
    from compactor.requests.request import Enqueued
    from compactor.requests.restore import Restoration
    from compactor.site.site import Site


_TYPES = click.Choice(["minor", "major", "rebalance"], case_sensitive=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """The argument and options of the command, by their names in click."""

    table: str
    partition: str | None
    kind: str
    buckets: int | None
    order_by: str | None
    pool: str | None
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
@click.option("--property", "pairs", metavar="K=V", multiple=True, help="A setting of this request; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait until the compaction has ended.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait. Default: hive.compactor.wait.timeout.")
@with_context
def compact(context: CliContext, /, **given: Any) -> None:
    """Request a compaction now; thresholds do not apply."""
    from compactor.requests.request import RebalanceOptions, WaitTimedOut, request_compaction

    options = CompactOptions(**given)
    properties = parse_properties(options.pairs)
    with context.site() as site:
        try:
            asked = request_compaction(
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
                ended = _wait(site, asked, options.timeout)
            except WaitTimedOut as error:
                timed_out = error
    _report(context, asked, ended)
    if timed_out is not None:
        say(f"compactor: {timed_out}", err=True)
        sys.exit(TIMED_OUT)
    if any(_failed(entry) for entry in ended):
        sys.exit(FAILED)


def parse_properties(pairs: tuple[str, ...], option: str = "--property") -> dict[str, str]:
    """Parses the texts of an option, K=V, into a mapping.

    Raises:
        BadSetting: not K=V.
    """
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise BadSetting(f"{option} {pair!r}: expected K=V")
        given[key.strip()] = value
    return given


def _wait(site: Site, asked: Sequence[Enqueued], timeout: float | None) -> Sequence[Entry]:
    from compactor.requests.request import wait_for

    seconds = site.settings.milliseconds("hive.compactor.wait.timeout") / 1000 if timeout is None else timeout
    return wait_for(site, [a.entry_id for a in asked if a.entry_id is not None], seconds)


def _failed(entry: Entry) -> bool:
    from compactor.compaction.states import State

    return entry.state not in (State.READY_FOR_CLEANING, State.SUCCEEDED)


def _report(context: CliContext, asked: Sequence[Enqueued], ended: Sequence[Entry]) -> None:
    by_id = {entry.id: entry for entry in ended}
    if context.json:
        states = {i: {"state": e.state.label, "errormessage": e.error} for i, e in by_id.items()}
        print_json([{**a.to_json(), **states.get(a.entry_id or 0, {})} for a in asked])
        return
    for a in asked:
        if a.entry_id is None:
            say(f"{a.entity}: refused: {a.refused}")
            continue
        entry = by_id.get(a.entry_id)
        state = "enqueued" if entry is None else entry.state.label
        error = f": {entry.error}" if entry is not None and entry.error else ""
        say(f"{a.entity}: compaction {a.entry_id} {state}{error}")


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


@click.command()
@click.argument("table", metavar="DB.TABLE")
@with_context
def pause(context: CliContext, table: str) -> None:
    """Pause a table: the initiator skips it until `compactor resume`.

    Queued and manual requests go on, and so does Hive's own initiator, which only knows the table property
    no_auto_compaction. The table's properties do not change.
    """
    from compactor.requests import pause as service

    with context.site() as site:
        paused = service.pause(site, table, site.user)
    if context.json:
        print_json({"table": f"{paused.database}.{paused.table}", "paused_by": paused.by})
    else:
        say(f"{paused.database}.{paused.table} is paused; `compactor resume` ends that")


@click.command()
@click.argument("table", metavar="DB.TABLE")
@with_context
def resume(context: CliContext, table: str) -> None:
    """Let the initiator consider a table again that is paused or has failed too often.

    The initiator skips a partition if its newest compactions all failed
    (hive.compactor.initiator.failed.compacts.threshold). This command ends the pause, and removes the failed and 'did
    not initiate' rows since each partition's last success from the history, and prints them. It changes nothing else.
    """
    from compactor.requests import pause as service

    with context.site() as site:
        found = service.resume(site, table)
    if context.json:
        print_json([r.to_json() for r in found])
        return
    for r in found:
        if r.paused_by is not None:
            say(f"{r.entity}: no longer paused (it was paused by {r.paused_by})")
        for entry in r.forgotten:
            reason = f": {entry.error}" if entry.error else ""
            say(f"{r.entity}: removed compaction {entry.id} ({entry.state.label}) from the history{reason}")
    if not found:
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

    The override takes precedence over the table's properties. They do not change, and Hive does not see the override.
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
@click.option("--yes", is_flag=True, help="Do it; without, only show what would move.")
@with_context
def restore(context: CliContext, table: str, partition: str | None, entry_id: int, yes: bool) -> None:
    """Put a table or partition back as it was before a compaction, while what that replaced is in quarantine.

    It is refused once anything depends on the compaction: a later write or compaction, another table of the same name,
    other columns. The table is locked exclusively meanwhile, and paused from then on. What the compaction made is kept
    in quarantine.
    """
    from compactor.requests import restore as service

    with context.site(read_only=not yes) as site:
        try:
            if yes:
                found = service.restore(site, table, partition, entry_id, site.user)
            else:
                found = service.preview_restore(site, table, partition, entry_id)
        except NotFound:
            raise
        except Refused as error:
            say(f"compactor: refused: {error}", err=True)
            sys.exit(REFUSED)
    if context.json:
        print_json(found.to_json())
    else:
        _print_restoration(found)


def _print_restoration(found: Restoration) -> None:
    moved = found.undo
    say(f"{found.entity}: compaction {found.entry_id} {'is undone' if found.done else 'would be undone'}")
    for name in moved.back:
        say(f"  back from quarantine: {name}")
    for name in moved.outputs:
        say(f"  into quarantine: {name}")
    say(f"  {size(moved.bytes)} back; what goes into quarantine is kept until {utc_text(found.until)}")
    if found.done:
        table = f"{found.entity.database}.{found.entity.table}"
        say(f"  {table} is paused, so that it is not compacted again: `compactor resume {table}` ends that")
    else:
        say("nothing was changed; --yes does it")
