"""The driver of an application, with one contract: ``worker_job.py --metastore NAME --batch ID [--linger SECONDS]``.

It is a file for spark-submit, and ``python -m compactor.launch.job.worker_job`` for any other launcher. Only the
driver connects to the database, with the URL from its environment or compactor.toml; its command line contains no
secret. With ``--linger`` it then takes further batches of the same route, until none has come for that long.
Exit codes: 0 the pass ended (also when the batch is another driver's), 1 an entry or the pass failed, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from compactor.base.errors import CompactorError
from compactor.base.printable import log_lines
from compactor.base.redaction import redacted
from compactor.batches.control import must_not_have_failed
from compactor.batches.driver import Application, WorkerPass, run_batch
from compactor.batches.resident import linger
from compactor.launch.spark_runner import SparkRunner
from compactor.launch.spark_session import attempt, is_alive, session, tracking_url
from compactor.launch.yarn_container import log_url
from compactor.site.deployment import open_deployment
from compactor.site.run_as import must_run_as
from compactor.site.site import Site, own_state
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.storage.stores import Stores
from compactor.worker.worker_options import Options


def main(arguments: list[str] | None = None) -> int:
    """Runs one batch or more and prints the result of each as one line of JSON."""
    given = _parser().parse_args(arguments)
    log_lines(logging.INFO)
    for chatty in ("py4j", "pyspark"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    flags = dict(pair.partition("=")[::2] for pair in given.set)
    if given.max_seconds is not None:  # also the limit of one entry: it publishes what is complete by then
        flags.setdefault("compactor.max.time", f"{max(1, int(given.max_seconds))}s")
    failed = False

    def report(done: WorkerPass) -> None:
        nonlocal failed
        failed = failed or bool(done.failed)
        sys.stdout.write(json.dumps(redacted(done.to_json())) + "\n")
        sys.stdout.flush()

    try:
        with (
            open_deployment(given.metastore, flags=flags, config_path=given.config) as site,
            ExecutorTokens() as tokens,
        ):
            _work(site, given, report, tokens)
    except CompactorError as error:
        logging.getLogger("compactor").error("%s", error)
        return 1
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="compactor-worker", description=__doc__)
    parser.add_argument("--metastore", default="default", help="name of the metastore")
    parser.add_argument("--batch", type=int, required=True, help="id of a planned batch")
    parser.add_argument("--linger", type=float, default=0.0, metavar="SECONDS", help="wait this long for another batch")
    parser.add_argument("--max-seconds", type=float, default=None, help="begin nothing more after this time")
    parser.add_argument("--config", default=None, help="path of compactor.toml")
    parser.add_argument(
        "--verify", choices=("fast", "full"), default="fast", help="full: compare all output with the input"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    return parser


def _work(site: Site, given: argparse.Namespace, report: Callable[[WorkerPass], None], tokens: ExecutorTokens) -> None:
    started = time.monotonic()
    # The batch's own conf applies, whatever the launcher, and the site's secrets, which no batch has.
    conf = {**site.settings.secret_spark_conf, **own_state(site).batches.get(given.batch).conf}
    spark = session(f"compactor-{given.metastore}-{given.batch}", conf=conf)
    try:
        context = spark.sparkContext
        runner = SparkRunner(spark, tokens)
        runner.start()
        if isinstance(site.storage, Stores):
            site = replace(site, storage=site.storage.acting_for(context.sparkUser()))
        application = Application(
            id=context.applicationId,
            attempt=attempt(spark),
            tracking_url=tracking_url(spark),
            log_url=log_url(os.environ),
        )

        def left() -> float | None:
            return None if given.max_seconds is None else given.max_seconds - (time.monotonic() - started)

        def run(batch_id: int) -> WorkerPass:
            must_run_as(site, batch_id, context.sparkUser())  # whatever started it, and with whatever options
            return run_batch(
                site,
                batch_id,
                runner,
                Options(full_verify=given.verify == "full"),
                parallel=runner.groups,
                application=replace(application, max_seconds=left()),
            )

        report(run(given.batch))
        if application.attempt > 1:
            must_not_have_failed(site, given.batch)  # YARN repeats a driver that said so, and takes the last one's word
        if given.linger > 0 and given.max_seconds is None:
            linger(
                site, given.batch, context.applicationId, given.linger, run, report, is_alive=lambda: is_alive(spark)
            )
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
