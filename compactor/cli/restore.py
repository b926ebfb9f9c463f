"""``compactor restore DB.TABLE --before ID``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from compactor.base.errors import NotFound, Refused
from compactor.base.utc import utc_text
from compactor.cli.context import REFUSED, CliContext, with_context
from compactor.cli.output import print_json, say, size

if TYPE_CHECKING:
    from compactor.requests.restore import Restoration


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
        _print(found)


def _print(found: Restoration) -> None:
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
