"""Commands about directories in doubt (resolve, metastore advance) and directories of other tables (claims)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

import click

from compactor.base.errors import BadSetting, Refused
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
@click.option("--quarantine", "aside", metavar="PATH", multiple=True, help="Set this directory aside; may be repeated.")
@click.option("--keep-all", is_flag=True, help="Keep every directory without a ruling of its own.")
@click.option("--yes", is_flag=True, help="Do it; without, only show what is in doubt.")
@with_context
def resolve(
    context: CliContext, table: str, kept: tuple[str, ...], aside: tuple[str, ...], keep_all: bool, yes: bool
) -> None:
    """Decide about a table's directories that files and metastore contradict each other about.

    Such directories appear after a metastore was restored from a backup, or where files were copied from elsewhere;
    nothing is compacted or removed beside them. PATH is relative to the table, as this command shows it. A kept directory
    must be readable; its rows count from then on, and the table's next write ID is raised above it. One that is
    quarantined gets a name that readers skip (.compactor_in_doubt_…); nothing of ours removes it.

    Stop Hive's own compactor and cleaner, and the table's writers, before.
    """
    from compactor.requests import resolve as service
    from compactor.requests.in_doubt import in_doubt
    from compactor.site.named_tables import find_table

    with context.site(read_only=not yes) as site:
        found_table = find_table(site.metastore.catalog, table)
        found = in_doubt(site, found_table)
        rulings = _rulings(found, kept, aside, keep_all)
        if not yes:
            _show_doubts(context, found, rulings)
            return
        done = service.resolve(site, found_table, rulings)
    if context.json:
        print_json(done.to_json())
        return
    _report(done.directories)
    say(f"{table}: {len(done.directories)} directories resolved, the next write ID is {done.next_write_id}")


@click.command()
@click.option("--keep-all", is_flag=True, help="Keep every directory in doubt.")
@click.option("--rulings", metavar="FILE", type=click.File(), help="Rulings, as --json prints them; '-' for stdin.")
@click.option("--yes", is_flag=True, help="Do it; without, only show what is in doubt.")
@with_context
def advance(context: CliContext, keep_all: bool, rulings: IO[str] | None, yes: bool) -> None:
    """Raise the counters of a restored metastore above the numbers that the tables' files have.

    Looks at every transactional table. Each directory in doubt needs a ruling: print them with --json, put "keep" or
    "quarantine" for each "ruling", and pass the file with --rulings FILE --yes. Then what is quarantined is set aside, the
    newest transaction and each table's next write ID are raised, and what is kept counts.
    """
    from compactor.requests import advance as service

    with context.site(read_only=not yes) as site:
        gap = service.measure_gap(site)
        given = {} if rulings is None else _parse_rulings(rulings)
        if keep_all:
            given = _keep_every(gap.directories) | given
        if not yes:
            if context.json:
                print_json(gap.to_json())
                return
            _table(gap.directories)
            for error in gap.unlisted:
                say(f"cannot be listed: {error}")
            say(f"newest transaction: {gap.newest}, would be {gap.wanted}; nothing was changed (--yes)")
            return
        done = service.advance(site, given)
    if context.json:
        print_json(done.to_json())
        return
    _report(done.quarantined)
    for name, resolution in done.tables.items():
        _report(resolution.directories)
        say(f"{name}: the next write ID is {resolution.next_write_id}")
    say(f"newest transaction: {done.newest}")


def _rulings(found: Sequence[InDoubt], kept: Iterable[str], aside: Iterable[str], keep_all: bool) -> dict[str, Ruling]:
    from compactor.requests.resolve import Ruling

    known = {one.path for one in found}
    rulings = dict.fromkeys(known, Ruling.KEEP) if keep_all else {}
    given = [*((path, Ruling.KEEP) for path in kept), *((path, Ruling.QUARANTINE) for path in aside)]
    for path, ruling in given:
        if path not in known:
            raise Refused(f"{path}: is not in doubt here; `compactor resolve` without options lists what is")
        rulings[path] = ruling
    if both := sorted(set(kept) & set(aside)):
        raise Refused(f"{', '.join(both)}: to be kept and quarantined; nothing was changed; decide for one")
    return rulings


def _keep_every(found: Iterable[InDoubt]) -> dict[tuple[str, str], Ruling]:
    from compactor.requests.resolve import Ruling

    return {(f"{one.entity.database}.{one.entity.table}", one.path): Ruling.KEEP for one in found}


def _parse_rulings(file: IO[str]) -> dict[tuple[str, str], Ruling]:
    """Parses rulings as `metastore advance --json` prints them.

    Raises:
        BadSetting: the text is something else, or a ruling is neither keep nor quarantine.
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


def _show_doubts(context: CliContext, found: Sequence[InDoubt], rulings: Mapping[str, Ruling]) -> None:
    if context.json:
        named = {path: ruling.value for path, ruling in rulings.items()}
        print_json([{**one.to_json(), "ruling": named.get(one.path)} for one in found])
        return
    _table(found)
    if found:
        say(f"{len(rulings)} of {len(found)} have a ruling; nothing was changed (--yes)")


def _table(found: Sequence[InDoubt]) -> None:
    print_table([one.to_json() for one in found], _DOUBT_COLUMNS, _NOTHING)


def _report(done: Iterable[Resolved]) -> None:
    for one in done:
        say(f"{one.doubt.entity} {one.doubt.name}: {one.ruling.value}, now {one.name}")


_CLAIM_COLUMNS = ("table", "claim", "directory", "owner")


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
