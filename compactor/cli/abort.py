"""``compactor abort …``, ``compactor pause DB.TABLE`` and ``compactor resume DB.TABLE``."""

from __future__ import annotations

import click

from compactor.cli.context import Face, faced
from compactor.cli.output import print_json

_REASON = "aborted by hand (compactor abort transaction)"


@click.group()
def abort() -> None:
    """End a transaction or a compaction."""


@abort.command("transaction")
@click.argument("txn", metavar="ID", type=click.IntRange(min=1))
@faced
def abort_transaction(face: Face, txn: int) -> None:
    """Abort an open transaction; what it wrote is never seen, and the cleaner removes it."""
    from compactor.ids import TxnId
    from compactor.service.requests.abort import abort_transaction as aborted

    with face.site() as site:
        aborted(site, TxnId(txn), _REASON)
    if face.json:
        print_json({"txnid": txn, "state": "ABORTED"})
    else:
        click.echo(f"transaction {txn} is aborted")


@abort.command("compaction")
@click.argument("compaction", metavar="ID", type=click.IntRange(min=1))
@faced
def abort_compaction(face: Face, compaction: int) -> None:
    """Take a compaction off the queue, or stop the worker of ours that has it.

    A worker that is stopped removes what it staged; readers see nothing of it. What is committed stays.
    """
    from compactor.service.requests.abort import abort_compaction as aborted

    with face.site() as site:
        entry = aborted(site, compaction)
    if face.json:
        print_json({"compactionid": compaction, "state": entry.state.label})
    elif entry.end is None:
        click.echo(f"compaction {compaction} is stopped; its row ends when what it staged is removed, by the next pass")
    else:
        click.echo(f"compaction {compaction} is aborted")


@click.command()
@click.argument("table", metavar="DB.TABLE")
@faced
def pause(face: Face, table: str) -> None:
    """Keep the initiator away from a table until `compactor resume`.

    What waits in the queue and what is asked for by hand goes on, and so does Hive's own initiator, which knows the
    table property no_auto_compaction alone. The table's properties stay as they are.
    """
    from compactor.service.requests.pause import pause as paused

    with face.site() as site:
        said = paused(site, table, site.user)
    if face.json:
        print_json({"table": f"{said.database}.{said.table}", "paused_by": said.by})
    else:
        click.echo(f"{said.database}.{said.table} is paused; `compactor resume` ends that")


@click.command()
@click.argument("table", metavar="DB.TABLE")
@faced
def resume(face: Face, table: str) -> None:
    """Let the initiator consider a table again that was paused, or failed too often.

    The initiator skips a partition whose newest compactions all failed
    (hive.compactor.initiator.failed.compacts.threshold). This removes from the history the failed and 'did not
    initiate' rows since each partition's last success, prints them, and touches nothing else but the pause.
    """
    from compactor.service.requests.pause import resume as resumed
    from compactor.service.requests.request import parse_table

    with face.site() as site:
        found = resumed(site, *parse_table(table))
    if face.json:
        print_json([r.to_json() for r in found])
        return
    for r in found:
        if r.paused_by is not None:
            click.echo(f"{r.entity}: paused no more (it was by {r.paused_by})")
        for entry in r.forgotten:
            reason = f": {entry.error}" if entry.error else ""
            click.echo(f"{r.entity}: forgot compaction {entry.id} ({entry.state.label}){reason}")
    if not found:
        click.echo(
            f"{table}: neither paused by `compactor pause` nor failed since the last success; "
            f"`compactor explain {table}` says what else may keep the initiator away"
        )
