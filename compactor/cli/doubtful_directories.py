"""Commands for directories in doubt (resolve, metastore advance) and claims of other tables (claims)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

import click

from compactor.base.errors import BadSetting, Refused
from compactor.base.printable import count_text
from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from compactor.requests.give_up_claims import ClaimOnTable
    from compactor.requests.in_doubt import InDoubt
    from compactor.requests.resolve import Resolved, Ruling


_DOUBT_COLUMNS = ("table", "path", "files", "bytes", "because", "unreadable")
_NOTHING = "nothing is in doubt"


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.option("--keep", "kept", metavar="PATH", multiple=True, help="Keep this directory; may be repeated.")
@click.option("--quarantine", "aside", metavar="PATH", multiple=True, help="Hide it from readers; may be repeated.")
@click.option("--keep-all", is_flag=True, help="Keep every directory without a ruling of its own.")
@click.option("--yes", is_flag=True, help="Apply the rulings. Without it, only show what is in doubt.")
@with_context
def resolve(
    context: CliContext, table: str, kept: tuple[str, ...], aside: tuple[str, ...], keep_all: bool, yes: bool
) -> None:
    """Decide about directories whose files and metastore contradict each other.

    Such directories appear after a metastore was restored from a backup, or where files were copied from elsewhere.
    Compactor compacts and removes nothing next to them. PATH is relative to the table, as this command shows it. A kept
    directory must be readable; readers see its rows from then on, and the table's next write ID is raised above it. A
    quarantined one gets a name that readers skip (.compactor_in_doubt_…); Compactor never removes it.

    First stop Hive's own compactor and cleaner, and the table's writers.
    """
    from compactor.requests import resolve as service
    from compactor.requests.in_doubt import in_doubt
    from compactor.site.named_tables import find_table

    with context.site(read_only=not yes) as site:
        entity = find_table(site.metastore.catalog, table)
        doubts = in_doubt(site, entity)
        rulings = _collect_rulings(doubts, kept, aside, keep_all)
        if not yes:
            _show_doubts(context, doubts, rulings)
            return
        resolution = service.resolve(site, entity, rulings)
    if context.json:
        print_json(resolution.to_json())
        return
    _report(resolution.directories)
    directories = count_text(len(resolution.directories), "directory", "directories")
    say(f"{table}: {directories} resolved, the next write ID is {resolution.next_write_id}")


@click.command()
@click.option("--keep-all", is_flag=True, help="Keep every directory in doubt.")
@click.option("--rulings", metavar="FILE", type=click.File(), help="Rulings, as --json prints them; '-' for stdin.")
@click.option("--yes", is_flag=True, help="Apply the rulings. Without it, only show what is in doubt.")
@with_context
def advance(context: CliContext, keep_all: bool, rulings: IO[str] | None, yes: bool) -> None:
    """Raise the counters of a restored metastore above the numbers in the tables' files.

    Looks at every transactional table. Each directory in doubt needs a ruling: print them with --json, put "keep" or
    "quarantine" for each "ruling", and pass the file with --rulings FILE --yes. The command hides the quarantined
    directories, then raises the newest transaction and each table's next write ID. Readers then see the kept ones.
    """
    from compactor.requests import advance as service

    with context.site(read_only=not yes) as site:
        gap = service.measure_gap(site)
        rules = {} if rulings is None else _parse_rulings(rulings)
        if keep_all:
            rules = _keep_every(gap.directories) | rules
        if not yes:
            if context.json:
                print_json(gap.to_json())
                return
            _print_doubts(gap.directories)
            for error in gap.unlisted:
                say(f"cannot be listed: {error}")
            say(f"newest transaction: {gap.newest}, would be {gap.wanted}; nothing was changed; --yes changes it")
            return
        result = service.advance(site, rules)
    if context.json:
        print_json(result.to_json())
        return
    _report(result.quarantined)
    for name, resolution in result.tables.items():
        _report(resolution.directories)
        say(f"{name}: the next write ID is {resolution.next_write_id}")
    say(f"newest transaction: {result.newest}")


def _collect_rulings(
    doubts: Sequence[InDoubt], kept: Iterable[str], aside: Iterable[str], keep_all: bool
) -> dict[str, Ruling]:
    from compactor.requests.resolve import Ruling

    known = {doubt.path for doubt in doubts}
    rulings = dict.fromkeys(known, Ruling.KEEP) if keep_all else {}
    for path, ruling in [*((path, Ruling.KEEP) for path in kept), *((path, Ruling.QUARANTINE) for path in aside)]:
        if path not in known:
            raise Refused(f"{path}: is not in doubt here; `compactor resolve` without options lists what is")
        rulings[path] = ruling
    if both := sorted(set(kept) & set(aside)):
        raise Refused(f"{', '.join(both)}: both kept and quarantined; nothing was changed; choose one")
    return rulings


def _keep_every(doubts: Iterable[InDoubt]) -> dict[tuple[str, str], Ruling]:
    from compactor.requests.resolve import Ruling

    return {(f"{doubt.entity.database}.{doubt.entity.table}", doubt.path): Ruling.KEEP for doubt in doubts}


def _parse_rulings(file: IO[str]) -> dict[tuple[str, str], Ruling]:
    """Parses rulings in the format of `metastore advance --json`.

    Raises:
        BadSetting: the text has another format, or a ruling is neither keep nor quarantine.
    """
    from compactor.requests.resolve import Ruling

    try:
        document = json.load(file)
        rows = document["directories"]
        return {(str(row["table"]), str(row["path"])): Ruling(row["ruling"]) for row in rows}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadSetting(
            f'{file.name}: expected the JSON of `compactor metastore advance --json` with "keep" or "quarantine" as the '
            f"ruling of each directory: {error}"
        ) from error


def _show_doubts(context: CliContext, doubts: Sequence[InDoubt], rulings: Mapping[str, Ruling]) -> None:
    if context.json:
        named = {path: ruling.value for path, ruling in rulings.items()}
        print_json([{**doubt.to_json(), "ruling": named.get(doubt.path)} for doubt in doubts])
        return
    _print_doubts(doubts)
    if doubts:
        say(f"{len(rulings)} of {len(doubts)} have a ruling; nothing was changed; --yes applies them")


def _print_doubts(doubts: Sequence[InDoubt]) -> None:
    print_table([doubt.to_json() for doubt in doubts], _DOUBT_COLUMNS, _NOTHING)


def _report(directories: Iterable[Resolved]) -> None:
    for directory in directories:
        say(f"{directory.doubt.entity} {directory.doubt.name}: {directory.ruling.value}, now {directory.name}")


_CLAIM_COLUMNS = ("table", "claim", "directory", "owner")


@click.command()
@click.argument("table", metavar="[DB.TABLE]", required=False)
@click.option("--give-up", "names", metavar="CLAIM", multiple=True, help="Give up this claim; may be repeated.")
@click.option("--give-up-all", is_flag=True, help="Give up every claim that is shown.")
@click.option("--yes", is_flag=True, help="Give them up. Without it, only show the claims.")
@with_context
def claims(context: CliContext, table: str | None, names: tuple[str, ...], give_up_all: bool, yes: bool) -> None:
    """Show directories of a table, or of all tables, that another table claims, and give up such claims.

    The first compaction of a directory leaves a claim there: a hidden file that names the metastore and the table.
    Compactor compacts and removes nothing where another table has its claim. Give the claim up only if that table is
    gone, or if the directory is a copy of its; otherwise two metastores lose each other's rows.
    """
    from compactor.requests import give_up_claims as service

    with context.site(read_only=not yes) as site:
        foreign = service.foreign_claims(site, table)
        chosen = foreign if give_up_all else [claim for claim in foreign if claim.name in names]
        if unknown := set(names) - {claim.name for claim in foreign}:
            raise BadSetting(f"--give-up {min(unknown)}: is not a claim of another table there; look again without it")
        if yes:
            service.give_up(site, chosen)
    _show_claims(context, foreign, chosen if yes else ())


def _show_claims(context: CliContext, foreign: list[ClaimOnTable], given_up: list[ClaimOnTable] | tuple[()]) -> None:
    if context.json:
        print_json({"claims": [claim.to_json() for claim in foreign], "given_up": [claim.path for claim in given_up]})
        return
    if not foreign:
        say("no other table claims a directory there")
        return
    print_table([claim.to_json() for claim in foreign], _CLAIM_COLUMNS, "")
    for claim in given_up:
        say(f"{claim.path}: given up")
    if not given_up:
        say("nothing was changed; give claims up with --give-up CLAIM --yes or --give-up-all --yes")
