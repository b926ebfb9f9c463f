"""``compactor compact DB.TABLE``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.cli.context import FAILED, REFUSED, TIMED_OUT, CliContext, with_context
from compactor.cli.output import print_json, say

if TYPE_CHECKING:
    from compactor.compaction.entry import Entry
    from compactor.requests.request import Enqueued
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
