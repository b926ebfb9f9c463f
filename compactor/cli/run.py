"""``compactor run ROLE``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from compactor.base.errors import BadSetting, CompactorError, NotFound
from compactor.base.printable import count_text
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


def _run_role(
    context: CliContext, once: bool, interval: str | Callable[[Settings], int], run_pass: Callable[[Site], bool]
) -> None:
    """Runs one pass, or one every ``interval`` (a setting, or ms); exits with 1 if the last one failed."""
    with catch_stop_signals() as stop, context.site() as site:
        every = site.settings.milliseconds(interval) if isinstance(interval, str) else interval(site.settings)
        seconds = every / 1000
        is_successful = run_pass(site) if once else repeat(stop, seconds, lambda: run_pass(site))
    if not is_successful:
        sys.exit(FAILED)


def repeat(stop: Stop, interval_s: float, run_pass: Callable[[], bool]) -> bool:
    """Runs ``run_pass`` every ``interval_s`` until a stop signal; returns the last pass's success.

    A role that keeps running survives a failed pass, for example while the database is down.
    """
    while True:
        try:
            is_successful = run_pass()
        except CompactorError as error:
            say(f"compactor: the pass failed, the next one follows: {error}", err=True)
            is_successful = False
        if stop.wait(interval_s):
            return is_successful


@run.command()
@_once
@with_context
def initiator(context: CliContext, once: bool) -> None:
    """Look at every candidate and enqueue the compactions that are due."""
    from compactor.initiator.candidate_scan import DISAGREEMENT
    from compactor.initiator.initiator import initiate

    def run_pass(site: Site) -> bool:
        done = initiate(site)
        if context.json:
            print_json_line(done.to_json())
        else:
            for repaired in done.repaired:
                say(f"compaction {repaired.entry.id}: taken back, {repaired.because}")
            for considered in done.considered:
                entry = f" (compaction {considered.entry_id})" if considered.entry_id is not None else ""
                say(f"{considered.entity}: {considered.outcome}{entry}, because {considered.because}")
            unchanged = f", {done.kept} unchanged" if done.kept else ""
            say(f"initiator: {len(done.considered)} considered{unchanged}, {len(done.enqueued)} enqueued")
        return not any(considered.outcome in ("error", DISAGREEMENT) for considered in done.considered)

    _run_role(context, once, "hive.compactor.check.interval", run_pass)


@run.command()
@_once
@with_context
def cleaner(context: CliContext, once: bool) -> None:
    """Remove directories that no reader can need any longer."""
    from compactor.cleaner.cleaner import clean
    from compactor.initiator.fresh_look import look_at_changed

    def run_pass(site: Site) -> bool:
        done = clean(site)
        look_at_changed(site.for_a_pass(), done.changed)
        if context.json:
            print_json_line(done.to_json())
            return not done.failed
        for cleaned in done.cleaned:
            what = "aborted transactions" if cleaned.entry_id is None else f"compaction {cleaned.entry_id}"
            directories = count_text(len(cleaned.removed), "directory", "directories")
            say(f"{cleaned.entity}: {what} cleaned, {directories}, {size(cleaned.bytes_freed)}")
        for waiting in done.waiting:
            say(f"{waiting.entity}: compaction {waiting.entry_id} waits: {waiting.because}")
            for blocker in waiting.blockers:
                say(f"  held by {blocker}")
        for ended in done.ended:
            say(f"{ended.entity}: compaction {ended.entry_id} {ended.state.label}: {ended.because}")
        for failure in done.failed:
            say(f"{failure.entity}: not cleaned: {failure.because}", err=True)
        say(
            f"cleaner: {len(done.cleaned)} cleaned, {len(done.waiting)} waiting, {len(done.ended)} ended, "
            f"{len(done.failed)} failed"
        )
        return not done.failed

    _run_role(context, once, "hive.compactor.cleaner.run.interval", run_pass)


@run.command()
@_once
@with_context
def housekeeper(context: CliContext, once: bool) -> None:
    """Abort dead transactions and purge old records. Without --once, each task runs at its own interval."""
    from compactor.housekeeper.housekeeper import keep_house, shortest_interval_ms

    def run_pass(site: Site) -> bool:
        done = keep_house(site, due_only=not once)
        if context.json:
            print_json_line(done.to_json())
        elif not done.acted:
            say("housekeeper: nothing to do in a mode below clean; Hive does its own housekeeping")
        else:
            others = ("acted", "kept", "tasks", "timed_out")
            counts = {key: value for key, value in done.to_json().items() if key not in others and value}
            say("housekeeper: " + (", ".join(f"{key} {value}" for key, value in counts.items()) or "nothing to do"))
            for txn in done.timed_out:
                say(f"  aborted transaction {txn}: no heartbeat for longer than hive.txn.timeout")
            for kept in done.kept:
                say(f"  kept transaction {kept}")
        return True

    _run_role(context, once, shortest_interval_ms, run_pass)


@run.command()
@_once
@click.option("--batch", type=click.IntRange(min=1), metavar="ID", help="Compact this planned batch, then end.")
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
def worker(context: CliContext, /, **arguments: Any) -> None:
    """Compact everything that can be claimed now, or keep compacting until SIGTERM or SIGINT."""
    from compactor.cli.worker_loop import CliWorker

    options = WorkerOptions(**arguments)
    if options.in_process and options.master is not None:
        raise BadSetting("--in-process runs without Spark and excludes --master; give one of them")
    if options.once and options.linger is not None:
        raise BadSetting("--once ends after one pass and excludes --linger, which waits for more; give one of them")
    with catch_stop_signals() as stop, context.site() as site:
        _warn_of_unknown_pools(site, options.pool)
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


def _warn_of_unknown_pools(site: Site, pools: Iterable[str]) -> None:
    """Warns of each unknown pool. Its first request may still come, so the worker waits for it."""
    from compactor.answers.show_compactions import must_be_known

    for pool in pools:
        try:
            must_be_known(site, pool)
        except NotFound as unknown:
            say(f"worker: {unknown}", err=True)


def _silent(_: object) -> None:
    """Prints nothing, where the other form (JSON or sentences) is printed."""
