"""The driver of an application: ``worker_job.py --metastore NAME --batch ID [--linger SECONDS]``.

It is a file for spark-submit, and ``python -m compactor.launch.job.worker_job`` for any other launcher. Only the
driver connects to the database, with the URL from its environment or compactor.toml; its command line contains no
secret. With ``--linger`` it then takes further batches of the same route until none has come for that time.
Exit codes: 0 the pass ended (even if the batch belongs to another driver), 1 an entry or the pass failed, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from compactor.base.errors import CompactorError
from compactor.base.printable import log_lines
from compactor.base.redaction import redact_plain
from compactor.batches.control import must_not_have_failed
from compactor.batches.driver import Application, WorkerPass, run_batch
from compactor.batches.resident_application import linger
from compactor.launch.resource_manager import is_https, read_configuration
from compactor.launch.spark_runner import SparkRunner
from compactor.launch.spark_session import attempt_number, is_alive, start_session, tracking_url
from compactor.site.deployment import open_deployment
from compactor.site.run_as import must_run_as
from compactor.site.site import Site, own_state
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.storage.stores import Stores
from compactor.worker.under_way import Options

_CONTAINER = ("CONTAINER_ID", "NM_HOST", "NM_HTTP_PORT", "USER")  #: what a NodeManager gives to a container


def main(argv: list[str] | None = None) -> int:
    """Runs one or more batches and prints the result of each as one line of JSON."""
    arguments = _make_parser().parse_args(argv)
    log_lines(logging.INFO)
    for chatty in ("py4j", "pyspark"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    flags = dict(pair.partition("=")[::2] for pair in arguments.set)
    if arguments.max_seconds is not None:  # also the limit of one entry, which then publishes what is complete
        flags.setdefault("compactor.max.time", f"{max(1, int(arguments.max_seconds))}s")
    failed = False

    def report(done: WorkerPass) -> None:
        nonlocal failed
        failed = failed or bool(done.failed)
        sys.stdout.write(json.dumps(redact_plain(done.to_json())) + "\n")
        sys.stdout.flush()

    try:
        with (
            open_deployment(arguments.metastore, flags=flags, config_path=arguments.config) as site,
            ExecutorTokens() as tokens,
        ):
            _run_batches(site, arguments, report, tokens)
    except CompactorError as error:
        logging.getLogger("compactor").error("%s", error)
        return 1
    return 1 if failed else 0


def _make_parser() -> argparse.ArgumentParser:
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


def _run_batches(
    site: Site, arguments: argparse.Namespace, report: Callable[[WorkerPass], None], tokens: ExecutorTokens
) -> None:
    started = time.monotonic()
    # The batch's own conf applies with every launcher. The site's secrets come from here: a batch has none.
    conf = {**site.settings.secret_spark_conf, **own_state(site).batches.get(arguments.batch).conf}
    spark = start_session(f"compactor-{arguments.metastore}-{arguments.batch}", conf=conf)
    try:
        context = spark.sparkContext
        runner = SparkRunner(spark, tokens)
        runner.start()
        if isinstance(site.storage, Stores):
            site = replace(site, storage=site.storage.acting_for(context.sparkUser()))
        application = Application(
            id=context.applicationId,
            attempt=attempt_number(spark),
            tracking_url=tracking_url(spark),
            log_url=find_log_url(os.environ),
        )

        def remaining_seconds() -> float | None:
            return None if arguments.max_seconds is None else arguments.max_seconds - (time.monotonic() - started)

        def run(batch_id: int) -> WorkerPass:
            must_run_as(site, batch_id, context.sparkUser())  # also if a person has started it with other options
            return run_batch(
                site,
                batch_id,
                runner,
                Options(full_verify=arguments.verify == "full"),
                parallel=runner.groups,
                application=replace(application, max_seconds=remaining_seconds()),
            )

        report(run(arguments.batch))
        if application.attempt > 1:
            must_not_have_failed(
                site, arguments.batch
            )  # YARN repeats a failed driver, and the last attempt's exit code counts
        if arguments.linger > 0 and arguments.max_seconds is None:
            linger(
                site,
                arguments.batch,
                context.applicationId,
                arguments.linger,
                run,
                report,
                is_alive=lambda: is_alive(spark),
            )
    finally:
        spark.stop()


def find_log_url(environ: Mapping[str, str]) -> str | None:
    """Returns where the output of this process's YARN container can be read; None outside of one.

    It can be read also while the process runs.

    A NodeManager with aggregated logs redirects the reader to them.
    """
    if not all(environ.get(name) for name in _CONTAINER):
        return None
    container, host, port, user = (environ[name] for name in _CONTAINER)
    scheme = "https" if is_https(read_configuration(environ)) else "http"
    return f"{scheme}://{host}:{port}/node/containerlogs/{container}/{user}"


if __name__ == "__main__":
    sys.exit(main())
