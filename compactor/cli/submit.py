"""``compactor submit``: runs batches as Spark applications, with spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from compactor.base.printable import count_text
from compactor.cli.context import FAILED, CliContext, with_context
from compactor.cli.output import print_json, say, size
from compactor.cli.spark_line import (
    SparkTarget,
    config_path,
    find_executor_python,
    find_target,
    submit_environment,
    submit_line,
)
from compactor.launch.yarn_application import make_tag
from compactor.settings.spark_conf import must_know_metastore
from compactor.site.spark_program import find_spark_submit

if TYPE_CHECKING:
    from compactor.base.stop_signals import Stop
    from compactor.batches.assembly import PlannedBatch
    from compactor.launch.spark_submit import Launched
    from compactor.site.site import Site

_STDERR = 2  #: file descriptor


@click.command()
@click.option(
    "--pool",
    "pools",
    metavar="Q",
    multiple=True,
    help="Only requests of this pool; may be repeated. default means none.",
)
@click.option("--master", metavar="URL", help="Default: the master in spark-submit's own configuration.")
@click.option("--deploy-mode", type=click.Choice(["client", "cluster"]), help="Where the driver runs.")
@with_context
def submit(context: CliContext, pools: tuple[str, ...], master: str | None, deploy_mode: str | None) -> None:
    """Plan batches of the requests in the queue and run each as a Spark application."""
    from compactor.base.stop_signals import catch_stop_signals
    from compactor.batches.assembly import plan_batches
    from compactor.batches.control import release_batch
    from compactor.launch.batch_watch import give_back

    program = find_spark_submit()
    target = find_target(program, master, deploy_mode, os.environ)
    with context.site() as site, catch_stop_signals() as stop:
        if target.is_yarn and target.is_cluster:
            must_know_metastore(config_path(context), {**target.defaults, **site.settings.spark_conf})
        batches = plan_batches(site, frozenset(pools) or None)
        launched: dict[int, Launched] = {}
        for number, batch in enumerate(batches):
            if batch.resident is not None:
                _report_batch(context, batch, "taken by a waiting application")
            elif stop.is_requested:
                release_batch(site, batch.batch_id, "submit was stopped")
            else:
                _report_batch(context, batch, f"{size(batch.bytes)}, queue {batch.queue or '-'}")
                try:
                    launched[batch.batch_id] = _launch(context, site, batch, program, target, stop)
                except Exception as error:
                    for unlaunched in batches[number:]:
                        if unlaunched.resident is None:
                            give_back(site, unlaunched.batch_id, f"it could not be launched: {error}")
                    raise
    _conclude(context, batches, launched)


def _report_batch(context: CliContext, batch: PlannedBatch, what: str) -> None:
    if not context.json:
        say(f"batch {batch.batch_id}: {count_text(batch.entries, 'entry', 'entries')}, {what}")


def _launch(
    context: CliContext, site: Site, batch: PlannedBatch, program: str, target: SparkTarget, stop: Stop
) -> Launched:
    from compactor.launch.resource_manager import configured_manager
    from compactor.launch.spark_submit import Launch
    from compactor.site.spark_secrets import check_keytabs, defaults_file, properties_file

    if not target.is_local and not find_executor_python(target, batch):
        say(
            "compactor: executors run the first python3 on their PATH, which may lack compactor; set "
            "compactor.spark.pyspark.python or PYSPARK_PYTHON",
            err=True,
        )
    check_keytabs({**target.defaults, **batch.conf})
    with properties_file(site.settings.secret_spark_conf, defaults_file(program, os.environ)) as properties:
        launch = Launch(
            site=site,
            batch=batch,
            line=submit_line(program, context, batch, target, properties),
            environment=submit_environment(target),
            is_cluster=target.is_cluster,
            tag=make_tag(context.metastore, batch.batch_id, batch.planned_at),
            stop=stop,
            manager=configured_manager(os.environ) if target.is_yarn else None,
            inherits=() if properties is None else (properties,),
        )
        # With --json, stdout is ours alone; the driver writes its own JSON to stderr, like its log.
        return launch.run(_STDERR if context.json else None)


def _conclude(context: CliContext, batches: Sequence[PlannedBatch], launched: Mapping[int, Launched]) -> None:
    failed = [end for end in launched.values() if not end.is_fine]
    for end in launched.values():
        if end.message:
            say(f"compactor: {end.message}", err=True)
    if context.json:
        not_launched = {"exit_code": None}
        ends = {batch_id: end.to_json() for batch_id, end in launched.items()}
        print_json([{**batch.to_json(), **ends.get(batch.batch_id, not_launched)} for batch in batches])
    else:
        say(f"submit: {len(batches)} batches, {len(failed)} failed" if batches else "submit: nothing to do")
    if failed:
        sys.exit(FAILED)
