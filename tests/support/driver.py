"""A stand-in for spark-submit: the driver of a batch, without Spark, that can be held in the middle of its work.

It is held as long as a table of its batch has a file of that table's name in ``TEST_DRIVER_FOLDER/hold``; a held driver
reports itself in ``TEST_DRIVER_FOLDER/drivers`` by a file ``<table>.<process id>``.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from compactor.base.errors import CompactorError
from compactor.batches.driver import Application, run_batch
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import Job, JobAnswer
from compactor.site.deployment import open_deployment
from compactor.site.site import own_state

ROOT = Path(__file__).parents[2]
FOLDER = "TEST_DRIVER_FOLDER"
TRACKING_URL = "http://spark.example:4040"


class Held(InProcessRunner):
    """A runner that begins its units once it is released, and asks meanwhile whether it may still go on."""

    def __init__(self, folder: Path, tables: Collection[str]) -> None:
        super().__init__()
        self._signs = [folder / "hold" / table for table in tables]
        self._drivers = folder / "drivers"

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        for sign in self._signs:
            (self._drivers / f"{sign.name}.{os.getpid()}").touch()
        while any(sign.exists() for sign in self._signs) and all(map(_may_go_on, jobs)):
            time.sleep(0.05)
        return super().run(jobs)


def _may_go_on(job: Job) -> bool:
    try:
        job.check()
    except CompactorError:
        return False
    return True


def binary(folder: Path) -> Path:
    """Returns a program in ``folder`` that takes spark-submit's arguments."""
    program = folder / "spark-submit"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.support.driver "$@"\n', "utf-8")
    program.chmod(0o755)
    return program


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    parser = argparse.ArgumentParser()
    parser.add_argument("--metastore", default="default")
    parser.add_argument("--batch", type=int, required=True)
    given, _ = parser.parse_known_args(arguments)
    with open_deployment(given.metastore) as site:
        ids = own_state(site).batches.get(given.batch).entry_ids
        tables = {site.metastore.entries.get(entry).entity.table for entry in ids}
        runner = Held(Path(os.environ[FOLDER]), tables)
        done = run_batch(site, given.batch, runner, application=Application(tracking_url=TRACKING_URL))
    return 1 if done.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
