"""``compactor claims [DB.TABLE]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from compactor.base.errors import BadSetting
from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from compactor.requests.give_up_claims import ClaimOnTable

_COLUMNS = ("table", "claim", "directory", "owner")


@click.command()
@click.argument("table", metavar="[DB.TABLE]", required=False)
@click.option("--give-up", "names", metavar="CLAIM", multiple=True, help="Give this claim up; may be repeated.")
@click.option("--give-up-all", is_flag=True, help="Give every claim up that is shown.")
@click.option("--yes", is_flag=True, help="Do it; without, only show the claims.")
@with_context
def claims(context: CliContext, table: str | None, names: tuple[str, ...], give_up_all: bool, yes: bool) -> None:
    """Show which directories of a table, or of all tables, another table claims, and give such claims up.

    The first compaction of a directory leaves a claim there: a hidden file, named by the metastore and the table. Nothing
    is compacted or removed where another table's claim is. Give it up if that table is gone, or if the directory is a
    copy of its; else two metastores lose each other's rows.
    """
    from compactor.requests import give_up_claims as service

    with context.site(read_only=not yes) as site:
        foreign = service.foreign_claims(site, table)
        chosen = foreign if give_up_all else [claim for claim in foreign if claim.name in names]
        if unknown := set(names) - {claim.name for claim in foreign}:
            raise BadSetting(f"--give-up {min(unknown)}: is not a claim of another table there; look again without it")
        if yes:
            service.give_up(site, chosen)
    _show(context, foreign, chosen if yes else ())


def _show(context: CliContext, foreign: list[ClaimOnTable], given_up: list[ClaimOnTable] | tuple[()]) -> None:
    if context.json:
        print_json({"claims": [claim.to_json() for claim in foreign], "given_up": [claim.path for claim in given_up]})
        return
    if not foreign:
        say("no other table claims a directory there")
        return
    print_table([claim.to_json() for claim in foreign], _COLUMNS, "")
    for claim in given_up:
        say(f"{claim.path}: given up")
    if not given_up:
        say("nothing was changed; give claims up with --give-up CLAIM --yes or --give-up-all --yes")
