"""``compactor run ROLE``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from compactor.base.errors import BadSetting, CompactorError, NotFound
from compactor.base.stop_signals import Stop, catch_stop_signals
from compactor.cli.context import FAILED, CliContext, with_context
from compactor.cli.output import print_json_line, say, size

if TYPE_CHECKING:
    from compactor.settings.precedence import Settings
    from compactor.site.site import Site

_once = click.option("--once", is_flag=True, help="Run one pass. Default: pass after pass until SIGTERM or SIGINT.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of ``compactor run worker``, by their names in click."""

    once: bool
    batch: int | None
    pool: tuple[str, ...]
    master: str | None
    in_process: bool
    verify: str
    linger: float | None


@click.group()
def run() -> None:
    """Run a role of the compactor."""


def _role(
    context: CliContext, once: bool, interval: str | Callable[[Settings], int], one_pass: Callable[[Site], bool]
) -> None:
    """Runs one pass, or one every ``interval`` (a setting, or ms); exits with 1 if anything in the last one failed."""
    with catch_stop_signals() as stop, context.site() as site:
        every = site.settings.milliseconds(interval) if isinstance(interval, str) else interval(site.settings)
        seconds = every / 1000
        fine = one_pass(site) if once else repeat(stop, seconds, lambda: one_pass(site))
    if not fine:
        sys.exit(FAILED)


def repeat(stop: Stop, interval_s: float, one_pass: Callable[[], bool]) -> bool:
    """Runs ``one_pass`` every ``interval_s`` until asked to stop; returns the last one's success.

    A failed pass (the database is down) is reported and tried again: a long-running role must survive it.
    """
    while True:
        try:
            fine = one_pass()
        except CompactorError as error:
            say(f"compactor: the pass failed, the next one follows: {error}", err=True)
            fine = False
        if stop.wait(interval_s):
            return fine


@run.command()
@_once
@with_context
def initiator(context: CliContext, once: bool) -> None:
    """Look at every candidate and enqueue the compactions that are due."""
    from compactor.initiator.candidate_scan import DISAGREEMENT
    from compactor.initiator.initiator import initiate

    def one_pass(site: Site) -> bool:
        done = initiate(site)
        if context.json:
            print_json_line(done.to_json())
        else:
            for repaired in done.repaired:
                say(f"compaction {repaired.entry.id}: taken back, {repaired.because}")
            for c in done.considered:
                entry = f" (compaction {c.entry_id})" if c.entry_id is not None else ""
                say(f"{c.entity}: {c.outcome}{entry}, because {c.because}")
            as_before = f", {done.kept} unchanged" if done.kept else ""
            say(f"initiator: {len(done.considered)} considered{as_before}, {len(done.enqueued)} enqueued")
        return not any(c.outcome in ("error", DISAGREEMENT) for c in done.considered)

    _role(context, once, "hive.compactor.check.interval", one_pass)


@run.command()
@_once
@with_context
def cleaner(context: CliContext, once: bool) -> None:
    """Remove directories that no reader can need any longer."""
    from compactor.cleaner.cleaner import clean
    from compactor.initiator.fresh_look import look_at_changed

    def one_pass(site: Site) -> bool:
        done = clean(site)
        look_at_changed(site.for_a_pass(), done.changed)
        if context.json:
            print_json_line(done.to_json())
            return not done.failed
        for c in done.cleaned:
            what = "aborted transactions" if c.entry_id is None else f"compaction {c.entry_id}"
            say(f"{c.entity}: {what} cleaned, {len(c.removed)} directories, {size(c.bytes_freed)}")
        for w in done.waiting:
            say(f"{w.entity}: compaction {w.entry_id} waits: {w.because}")
            for blocker in w.blockers:
                say(f"  held by {blocker}")
        for e in done.ended:
            say(f"{e.entity}: compaction {e.entry_id} {e.state.label}: {e.because}")
        for f in done.failed:
            say(f"{f.entity}: not cleaned: {f.because}", err=True)
        say(
            f"cleaner: {len(done.cleaned)} cleaned, {len(done.waiting)} waiting, {len(done.ended)} ended, "
            f"{len(done.failed)} failed"
        )
        return not done.failed

    _role(context, once, "hive.compactor.cleaner.run.interval", one_pass)


@run.command()
@_once
@with_context
def housekeeper(context: CliContext, once: bool) -> None:
    """Abort dead transactions and purge old records. Without --once each task runs at its own interval."""
    from compactor.housekeeper.housekeeper import keep_house, shortest_interval_ms

    def one_pass(site: Site) -> bool:
        done = keep_house(site, due_only=not once)
        if context.json:
            print_json_line(done.to_json())
        elif not done.acted:
            say("housekeeper: nothing is done in a mode below clean; Hive does its own housekeeping")
        else:
            listed = ("acted", "kept", "tasks", "timed_out")
            counts = {key: value for key, value in done.to_json().items() if key not in listed and value}
            say("housekeeper: " + (", ".join(f"{key} {value}" for key, value in counts.items()) or "nothing to do"))
            for txn in done.timed_out:
                say(f"  aborted transaction {txn}: no heartbeat for longer than hive.txn.timeout")
            for kept in done.kept:
                say(f"  kept transaction {kept}")
        return True

    _role(context, once, shortest_interval_ms, one_pass)


@run.command()
@_once
@click.option("--batch", type=click.IntRange(min=1), metavar="ID", help="Work on this planned batch, then end.")
@click.option(
    "--pool", metavar="Q", multiple=True, help="Only requests of this pool; may be repeated. default means none."
)
@click.option("--master", metavar="URL", help="Spark's master. Default: local[*].")
@click.option("--in-process", is_flag=True, help="Run without Spark, in this process.")
@click.option(
    "--verify",
    type=click.Choice(["fast", "full"]),
    default="fast",
    show_default=True,
    help="Full: compare all output with the input.",
)
@click.option(
    "--linger", type=click.FloatRange(min=0), metavar="SECONDS", help="End after this long without a request."
)
@with_context
def worker(context: CliContext, /, **given: Any) -> None:
    """Compact everything that can be claimed now, or keep compacting until SIGTERM or SIGINT."""
    from compactor.cli.worker_loop import CliWorker

    options = WorkerOptions(**given)
    if options.in_process and options.master is not None:
        raise BadSetting("--in-process works without Spark, so --master has no meaning; give one of them")
    if options.once and options.linger is not None:
        raise BadSetting("--once ends after one pass, --linger waits for more; give one of them")
    with catch_stop_signals() as stop, context.site() as site:
        _name_unknown_pools(site, options.pool)
        worker = CliWorker(
            site=site,
            stop=stop,
            say=_silent if context.json else say,
            report=(lambda done: print_json_line(done.to_json())) if context.json else _silent,
            master=None if options.in_process else options.master or "local[*]",
            full_verify=options.verify == "full",
            pools=frozenset(options.pool) or None,
        )
        try:
            if options.batch is not None:
                worker.run_batch(options.batch)
            if options.linger is not None or (options.batch is None and not options.once):
                worker.run_until_stopped(options.linger)
            elif options.batch is None:
                worker.run_once()
        finally:
            worker.close()
    if worker.failed:
        sys.exit(FAILED)


def _name_unknown_pools(site: Site, pools: Iterable[str]) -> None:
    """Warns of each pool that nothing is known of. Its first request may still come, so the worker waits for it."""
    from compactor.answers.show_compactions import must_be_known

    for pool in pools:
        try:
            must_be_known(site, pool)
        except NotFound as unknown:
            say(f"worker: {unknown}", err=True)


def _silent(_: object) -> None:
    """Prints nothing: JSON replaces sentences, and sentences replace JSON."""
