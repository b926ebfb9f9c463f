"""``compactor run ROLE``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from compactor.cli.context import FAILED, Face, faced
from compactor.cli.output import print_json_line, size
from compactor.cli.stop_signals import repeat, stopping
from compactor.errors import BadSetting

if TYPE_CHECKING:
    from compactor.service.site import Site
    from compactor.settings.precedence import Settings

_once = click.option("--once", is_flag=True, help="One pass; else one after the other until SIGTERM or SIGINT.")


@click.group()
def run() -> None:
    """Run a role of the compactor."""


def _role(face: Face, once: bool, interval: str | Callable[[Settings], int], one_pass: Callable[[Site], bool]) -> None:
    """One pass, or one every ``interval`` (a setting, or ms); exit code 1 when the last one failed in something."""
    with stopping() as stop, face.site() as site:
        every = site.settings.milliseconds(interval) if isinstance(interval, str) else interval(site.settings)
        seconds = every / 1000
        fine = one_pass(site) if once else repeat(stop, seconds, lambda: one_pass(site))
    if not fine:
        sys.exit(FAILED)


@run.command()
@_once
@faced
def initiator(face: Face, once: bool) -> None:
    """Look at every candidate and enqueue what is due."""
    from compactor.service.roles.initiator import initiate

    def one_pass(site: Site) -> bool:
        done = initiate(site)
        if face.json:
            print_json_line(done.to_json())
        else:
            for repaired in done.repaired:
                click.echo(f"compaction {repaired.entry.id}: taken back, {repaired.because}")
            for c in done.considered:
                entry = f" (compaction {c.entry_id})" if c.entry_id is not None else ""
                click.echo(f"{c.entity}: {c.outcome}{entry}, because {c.because}")
            click.echo(f"initiator: {len(done.considered)} considered, {len(done.enqueued)} enqueued")
        return not any(c.outcome == "error" for c in done.considered)

    _role(face, once, "hive.compactor.check.interval", one_pass)


@run.command()
@_once
@faced
def cleaner(face: Face, once: bool) -> None:
    """Remove what no reader can need any more."""
    from compactor.service.roles.cleaner import clean

    def one_pass(site: Site) -> bool:
        done = clean(site)
        if face.json:
            print_json_line(done.to_json())
            return not done.failed
        for c in done.cleaned:
            what = "aborted transactions" if c.entry_id is None else f"compaction {c.entry_id}"
            click.echo(f"{c.entity}: {what} cleaned, {len(c.removed)} directories, {size(c.bytes_freed)}")
        for w in done.waiting:
            click.echo(f"{w.entity}: compaction {w.entry_id} waits: {w.because}")
            for blocker in w.blockers:
                click.echo(f"  held by {blocker}")
        for e in done.ended:
            click.echo(f"{e.entity}: compaction {e.entry_id} {e.state.label}: {e.because}")
        for f in done.failed:
            click.echo(f"{f.entity}: not cleaned: {f.because}", err=True)
        click.echo(
            f"cleaner: {len(done.cleaned)} cleaned, {len(done.waiting)} waiting, {len(done.ended)} ended, "
            f"{len(done.failed)} failed"
        )
        return not done.failed

    _role(face, once, "hive.compactor.cleaner.run.interval", one_pass)


@run.command()
@_once
@faced
def housekeeper(face: Face, once: bool) -> None:
    """Time out the dead, and purge what nobody asks for any more. Without --once each task at its own interval."""
    from compactor.service.roles.housekeeper import keep_house, shortest_interval_ms

    def one_pass(site: Site) -> bool:
        done = keep_house(site, due_only=not once)
        if face.json:
            print_json_line(done.to_json())
        elif not done.acted:
            click.echo("housekeeper: nothing is done in a mode below clean; Hive keeps its own house")
        else:
            counts = {
                key: value for key, value in done.to_json().items() if key not in ("acted", "kept", "tasks") and value
            }
            click.echo(
                "housekeeper: " + (", ".join(f"{key} {value}" for key, value in counts.items()) or "nothing to do")
            )
            for kept in done.kept:
                click.echo(f"  kept transaction {kept}")
        return True

    _role(face, once, shortest_interval_ms, one_pass)


@run.command()
@_once
@click.option("--batch", type=click.IntRange(min=1), metavar="ID", help="Work on this planned batch, then end.")
@click.option("--pool", metavar="Q", help="Only requests of this pool.")
@click.option("--master", metavar="URL", help="Spark's master; else local[*].")
@click.option("--in-process", is_flag=True, help="Without Spark, in this process.")
@click.option(
    "--verify",
    type=click.Choice(["fast", "full"]),
    default="fast",
    show_default=True,
    help="Full: compare all that is written with what was read.",
)
@click.option("--linger", type=click.FloatRange(min=0), metavar="SECONDS", help="End after so long without a request.")
@faced
def worker(
    face: Face,
    once: bool,
    batch: int | None,
    pool: str | None,
    master: str | None,
    in_process: bool,
    verify: str,
    linger: float | None,
) -> None:
    """Compact: all that can be claimed now, or what comes until SIGTERM or SIGINT."""
    from compactor.cli.worker_loop import Working

    if in_process and master is not None:
        raise BadSetting("--in-process works without Spark, so --master names nothing; give one of them")
    if once and linger is not None:
        raise BadSetting("--once ends after one pass, --linger waits for more; give one of them")
    with stopping() as stop, face.site() as site:
        working = Working(
            site=site,
            stop=stop,
            say=_nothing if face.json else click.echo,
            report=(lambda done: print_json_line(done.to_json())) if face.json else _nothing,
            master=None if in_process else master or "local[*]",
            full_verify=verify == "full",
            pool=pool,
        )
        try:
            if batch is not None:
                working.batch(batch)
            if linger is not None or (batch is None and not once):
                working.run_on(linger)
            elif batch is None:
                working.once()
        finally:
            working.close()
    if working.failed:
        sys.exit(FAILED)


def _nothing(said: object) -> None:
    """Where somebody else speaks."""
