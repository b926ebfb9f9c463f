"""The one contract of an application: ``worker.py --metastore NAME --batch ID``.

A file for spark-submit, ``python -m compactor.jobs.worker`` for any other launcher. The driver alone speaks to the
database, whose address it takes from its environment or compactor.toml; nothing secret stands on its command line.
Exit codes: 0 the pass ended (also when the batch is another driver's), 1 an entry or the pass failed, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys

from compactor.deployment import open_deployment
from compactor.errors import CompactorError
from compactor.service.batch import run_batch
from compactor.service.worker import Options
from compactor.spark.runner import SparkRunner
from compactor.spark.session import session


def main(arguments: list[str] | None = None) -> int:
    """Works on one batch and prints what became of it as one line of JSON."""
    parser = argparse.ArgumentParser(prog="compactor-worker", description=__doc__)
    parser.add_argument("--metastore", default="default", help="name of the metastore")
    parser.add_argument("--batch", type=int, required=True, help="id of a planned batch")
    parser.add_argument("--config", default=None, help="path of compactor.toml")
    parser.add_argument("--verify", choices=("fast", "full"), default="fast")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    for chatty in ("py4j", "pyspark"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    flags = dict(pair.partition("=")[::2] for pair in given.set)
    try:
        with open_deployment(given.metastore, flags=flags, config_path=given.config) as site:
            spark = session(f"compactor-{given.metastore}-{given.batch}")
            try:
                runner = SparkRunner(spark)
                width = max(1, spark.sparkContext.defaultParallelism)
                done = run_batch(
                    site,
                    given.batch,
                    runner,
                    Options(full_verify=given.verify == "full"),
                    parallel=min(width, 8),
                    tracking_url=spark.sparkContext.uiWebUrl,
                )
            finally:
                spark.stop()
    except CompactorError as error:
        logging.getLogger("compactor").error("%s", error)
        return 1
    sys.stdout.write(json.dumps(done.to_json()) + "\n")
    return 1 if done.failed else 0


if __name__ == "__main__":
    sys.exit(main())
