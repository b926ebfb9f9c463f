"""``compactor submit``: submits batches with spark-submit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import compactor
from compactor.cli.context import FAILED, CliContext, with_context
from compactor.cli.output import print_json, size
from compactor.errors import NotSupported

if TYPE_CHECKING:
    from compactor.service.batches.assembly import PlannedBatch

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
    from compactor.service.batches.assembly import plan_batches

    with context.site() as site:
        batches = plan_batches(site, frozenset(pools) or None)
    program = spark_submit() if batches else ""
    codes: dict[int, int] = {}
    for batch in batches:
        if batch.resident is not None:
            if not context.json:
                click.echo(f"batch {batch.batch_id}: {batch.entries} entries, taken by a waiting application")
            continue
        line = command(program, context, batch, master=master, deploy_mode=deploy_mode)
        if not context.json:
            click.echo(
                f"batch {batch.batch_id}: {batch.entries} entries, {size(batch.bytes)}, queue {batch.queue or '-'}"
            )
        # The driver's own line of JSON must not mix with ours; its log goes to stderr anyway.
        stdout = _STDERR if context.json else None
        codes[batch.batch_id] = subprocess.run(line, env=environment(master), stdout=stdout, check=False).returncode
    if context.json:
        print_json([{**batch.to_json(), "exit_code": codes.get(batch.batch_id)} for batch in batches])
    else:
        failed = sum(code != 0 for code in codes.values())
        click.echo(f"submit: {len(batches)} batches, {failed} failed" if batches else "submit: nothing to do")
    if any(codes.values()):
        sys.exit(FAILED)


def spark_submit() -> str:
    """Returns the path of spark-submit in SPARK_HOME, on PATH or in the installed pyspark.

    Raises:
        NotSupported: there is none.
    """
    home = os.environ.get("SPARK_HOME")
    if home and os.access(f"{home}/bin/spark-submit", os.X_OK):
        return f"{home}/bin/spark-submit"
    found = shutil.which("spark-submit")
    if found is not None:
        return found
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if os.access(f"{folder}/bin/spark-submit", os.X_OK):
            return f"{folder}/bin/spark-submit"
    raise NotSupported("spark-submit is neither in SPARK_HOME nor on PATH: install Spark, or `compactor run worker`")


def command(
    program: str, context: CliContext, batch: PlannedBatch, *, master: str | None, deploy_mode: str | None
) -> Sequence[str]:
    """Returns the command line of one batch's application.

    It contains no secret: the driver reads the connection from its environment or from compactor.toml.
    """
    line = [program, "--name", batch.job]
    for option, value in (("--master", master), ("--deploy-mode", deploy_mode), ("--queue", batch.queue)):
        line += [option, value] if value else []
    line += ["--proxy-user", batch.run_as] if batch.run_as else []
    for key, value in sorted(batch.conf.items()):
        line += ["--conf", f"{key}={value}"]
    line += [_job(), "--metastore", context.metastore, "--batch", str(batch.batch_id)]
    line += ["--max-seconds", str(batch.max_seconds)] if batch.max_seconds is not None else []
    line += ["--config", context.config] if context.config else []
    for key, value in context.flags.items():
        line += ["--set", f"{key}={value}"]
    return line


def environment(master: str | None) -> Mapping[str, str]:
    """Returns our environment; executors of a local master run this interpreter, as the first on PATH may lack pyarrow."""
    env = dict(os.environ)
    if master is None or master.startswith("local"):
        env.setdefault("PYSPARK_PYTHON", sys.executable)
    return env


def _job() -> str:
    # by path, as spark-submit expects it: faces do not import each other
    return str(Path(compactor.__file__).parent / "jobs" / "worker.py")
