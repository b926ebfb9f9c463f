"""``compactor pause DB.TABLE`` and ``compactor resume DB.TABLE``."""

from __future__ import annotations

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, say


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
