"""Commands about mirrors in Iceberg catalogs: mirror add, run, show, verify, rebuild and remove."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from compactor.base.errors import NotSupported
from compactor.cli.context import FAILED, CliContext, with_context
from compactor.cli.output import print_either, print_json, print_table, say, size

if TYPE_CHECKING:
    from compactor.mirror.mirrored_tables import MirrorLag, PassOutcome

_COLUMNS = ("table", "catalog", "mirror", "rows", "lag_commits", "last_commit", "last_pass", "problem")


@click.group()
def mirror() -> None:
    """Keep copies of tables that readers of Iceberg read."""
    if find_spec("pyiceberg") is None:
        raise NotSupported("mirrors need PyIceberg: pip install 'hive-compactor[iceberg]'")


@mirror.command("add")
@click.argument("table", metavar="DB.TABLE")
@click.option("--catalog", required=True, metavar="NAME", help="[catalog.NAME] in compactor.toml.")
@click.option("--as", "identifier", metavar="NS.TABLE", help="The Iceberg table. Default: the table's own name.")
@click.option("--location", metavar="URI", help="Its directory. Default: where the catalog puts it.")
@click.option(
    "--timestamps",
    type=click.Choice(["refuse", "us"]),
    default="refuse",
    show_default=True,
    help="Timestamps with digits below a microsecond: stop there, or cut them off.",
)
@click.option(
    "--without-pyiceberg",
    "for_pyiceberg",
    flag_value=False,
    default=True,
    help="Also mirror values that PyIceberg does not read or shows differently.",
)
@with_context
def add(context: CliContext, /, **arguments: Any) -> None:
    """Create an empty Iceberg table for a full ACID table; `mirror run` fills it."""
    from compactor.mirror.mirrored_tables import NewMirror, add_mirror

    with context.site() as site:
        added = add_mirror(site, NewMirror(**arguments))
    value = {"table": added.name, "catalog": added.catalog, "mirror": added.identifier, "location": added.location}
    text = f"{added.name}: mirrored as {added.identifier} in catalog {added.catalog}, at {added.location}; run `mirror run`"
    print_either(context.json, value, text)


@mirror.command("run")
@click.argument("tables", metavar="[DB.TABLE]…", nargs=-1)
@with_context
def run(context: CliContext, tables: tuple[str, ...]) -> None:
    """Bring mirrors up to date: run one pass over each, or over those of some tables."""
    from compactor.mirror.mirrored_tables import run_mirrors

    with context.site() as site:
        outcomes = []
        for outcome in run_mirrors(site, tables):
            outcomes.append(outcome)
            if not context.json:
                say(_describe(outcome), err=outcome.error is not None)
    if context.json:
        print_json([outcome.to_json() for outcome in outcomes])
    elif not outcomes:
        say("no table is mirrored; `compactor mirror add` adds one")
    if any(outcome.error is not None for outcome in outcomes):
        sys.exit(FAILED)


def _describe(outcome: PassOutcome) -> str:
    name, result = outcome.mirror.name, outcome.result
    if result is None:
        return f"{name}: {outcome.error}"
    if result.snapshot is None:
        return f"{name}: up to date"
    cut = f"; {result.cut} timestamps lost digits below a microsecond" if result.cut else ""
    return (
        f"{name}: commit {result.snapshot}: {result.rows} rows in {result.data_files} data files, {result.deleted} rows "
        f"deleted, {result.removed_files} files removed, {size(result.bytes)} written{cut}"
    )


@mirror.command("show")
@with_context
def show(context: CliContext) -> None:
    """Show each mirror: its rows, how many commits it is behind, and its last error."""
    from compactor.mirror.mirrored_tables import show_mirrors

    with context.site() as site:
        rows = [_row(lag) for lag in show_mirrors(site)]
    if context.json:
        print_json(rows)
    else:
        print_table(rows, _COLUMNS, "no table is mirrored; `compactor mirror add` adds one")


def _row(lag: MirrorLag) -> dict[str, object]:
    mirror = lag.mirror
    return {
        "table": mirror.name,
        "catalog": mirror.catalog,
        "mirror": mirror.identifier,
        "location": mirror.location,
        "rows": lag.rows,
        "lag_commits": lag.commits,
        "last_commit": mirror.committed_at,
        "last_pass": mirror.passed_at,
        "problem": lag.problem or mirror.error,
    }


@mirror.command("verify")
@click.argument("table", metavar="DB.TABLE")
@with_context
def verify(context: CliContext, table: str) -> None:
    """Bring a mirror up to date, and compare all values of all columns with the table."""
    from compactor.mirror.column_proof import prove_columns

    with context.site() as site:
        proof = prove_columns(site, table)
    value = {
        "table": proof.mirror.name,
        "rows": proof.rows,
        "mirrored_rows": proof.mirrored_rows,
        "columns": proof.columns,
        "differing": list(proof.differing),
    }
    text = f"{proof.mirror.name}: equal: {proof.rows} rows, {proof.columns} columns"
    if not proof.is_equal:
        columns = ", ".join(proof.differing) or "none"
        text = (
            f"{proof.mirror.name}: different: the table has {proof.rows} rows, the mirror {proof.mirrored_rows}; columns "
            f"with other values: {columns}. Please report this, and begin a new copy with `mirror rebuild`"
        )
    print_either(context.json, value, text)
    if not proof.is_equal:
        sys.exit(FAILED)


@mirror.command("rebuild")
@click.argument("table", metavar="DB.TABLE")
@with_context
def rebuild(context: CliContext, table: str) -> None:
    """Drop a mirror's Iceberg table with its files, and begin a new copy under the same name."""
    from compactor.mirror.mirrored_tables import rebuild_mirror

    with context.site() as site:
        new = rebuild_mirror(site, table)
    print_either(context.json, {"table": new.name, "mirror": new.identifier}, f"{new.name}: empty; run `mirror run`")


@mirror.command("remove")
@click.argument("table", metavar="DB.TABLE")
@click.option("--purge", is_flag=True, help="Also drop the Iceberg table and remove its files.")
@with_context
def remove(context: CliContext, table: str, purge: bool) -> None:
    """Forget a mirror. Its Iceberg table stays as it is."""
    from compactor.mirror.mirrored_tables import remove_mirror

    with context.site() as site:
        removed = remove_mirror(site, table, purge=purge)
    stays = "was dropped" if purge else "stays"
    value = {"table": removed.name, "mirror": removed.identifier, "purged": purge}
    print_either(context.json, value, f"{removed.name}: no longer mirrored; {removed.identifier} {stays}")
