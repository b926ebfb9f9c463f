"""The user as whom Spark really runs, which is not up to whatever started it (docs/security.md)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from compactor.batches.assembly import plan_batches
from compactor.cli.context import CliContext
from compactor.cli.spark_line import find_target, submit_line
from compactor.compaction.states import State
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from compactor.site.spark_program import find_spark_submit
from tests.support.patience import PATIENCE
from tests.support.tables import insert, make_table, with_settings

USER = {"hive.compactor.run.as.user": "somebody"}


@pytest.mark.parametrize("is_left_out", [False, True], ids=["with --proxy-user", "without it"])
def test_an_application_of_another_user_takes_no_batch(
    deployment: Site, metastore_url: str, warehouse: Path, tmp_path: Path, is_left_out: bool
) -> None:
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="t", type="major")
    site = with_settings(deployment, hive_compactor_run_as_user="somebody")
    (planned,) = plan_batches(site)
    target = find_target(find_spark_submit(), "local[1]", None, {})
    line = [*submit_line(find_spark_submit(), CliContext(flags=USER), planned, target)]
    if is_left_out:
        at = line.index("--proxy-user")
        del line[at : at + 2]
    environment = {**os.environ, "COMPACTOR_METASTORE_URL": metastore_url}
    done = subprocess.run(
        line,
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    (entry,) = deployment.metastore.entries.queue()
    said = f"batch {planned.batch_id}: default.t: is to be compacted as somebody, and this process runs as "
    assert (done.returncode, said in done.stdout) == ((1, True) if is_left_out else (0, False)), done.stdout[-3000:]
    assert entry.state is (State.INITIATED if is_left_out else State.READY_FOR_CLEANING)
