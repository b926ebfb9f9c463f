"""The one contract of an application: ``worker.py --metastore NAME --batch ID [--linger SECONDS]``.

A file for spark-submit, ``python -m compactor.jobs.worker`` for any other launcher. The driver alone speaks to the
database, whose address it takes from its environment or compactor.toml; nothing secret stands on its command line.
With ``--linger`` it then takes further batches of the same route, until there was none for so long.
Exit codes: 0 the pass ended (also when the batch is another driver's), 1 an entry or the pass failed, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable

from compactor.deployment import open_deployment
from compactor.errors import CompactorError
from compactor.service.batches.driver import Application, WorkerPass, run_batch
from compactor.service.batches.resident import linger
from compactor.service.site import Site, own_state
from compactor.service.worker.work import Options
from compactor.spark.runner import SparkRunner
from compactor.spark.session import is_alive, session


def main(arguments: list[str] | None = None) -> int:
    """Works on one batch or more and prints what became of each as one line of JSON."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    for chatty in ("py4j", "pyspark"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    flags = dict(pair.partition("=")[::2] for pair in given.set)
    if given.max_seconds is not None:  # of one entry, too: it publishes what is whole by then
        flags.setdefault("compactor.max.time", f"{max(1, int(given.max_seconds))}s")
    failed = False

    def report(done: WorkerPass) -> None:
        nonlocal failed
        failed = failed or bool(done.failed)
        sys.stdout.write(json.dumps(done.to_json()) + "\n")
        sys.stdout.flush()

    try:
        with open_deployment(given.metastore, flags=flags, config_path=given.config) as site:
            _work(site, given, report)
    except CompactorError as error:
        logging.getLogger("compactor").error("%s", error)
        return 1
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="compactor-worker", description=__doc__)
    parser.add_argument("--metastore", default="default", help="name of the metastore")
    parser.add_argument("--batch", type=int, required=True, help="id of a planned batch")
    parser.add_argument("--linger", type=float, default=0.0, metavar="SECONDS", help="wait so long for another batch")
    parser.add_argument("--max-seconds", type=float, default=None, help="after which nothing more is begun")
    parser.add_argument("--config", default=None, help="path of compactor.toml")
    parser.add_argument("--verify", choices=("fast", "full"), default="fast", help="full: compare all that is written")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    return parser


def _work(site: Site, given: argparse.Namespace, report: Callable[[WorkerPass], None]) -> None:
    started = time.monotonic()
    # Whatever launched it: the batch's own conf holds. It may name only what the site's allow-list has.
    spark = session(f"compactor-{given.metastore}-{given.batch}", conf=own_state(site).batches.get(given.batch).conf)
    try:
        context = spark.sparkContext
        runner = SparkRunner(spark)

        def left() -> float | None:
            return None if given.max_seconds is None else given.max_seconds - (time.monotonic() - started)

        def run(batch_id: int) -> WorkerPass:
            return run_batch(
                site,
                batch_id,
                runner,
                Options(full_verify=given.verify == "full"),
                parallel=runner.groups,
                application=Application(tracking_url=context.uiWebUrl, max_seconds=left()),
            )

        report(run(given.batch))
        if given.linger > 0 and given.max_seconds is None:
            linger(
                site, given.batch, context.applicationId, given.linger, run, report, is_alive=lambda: is_alive(spark)
            )
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
