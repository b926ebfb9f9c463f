"""An application that runs as somebody else uses HDFS as that user, too: by ``doas`` and the rules of its proxy users."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.batches.assembly import plan_batches
from compactor.cli.context import CliContext
from compactor.cli.spark_line import find_target, submit_line
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from compactor.site.spark_program import find_spark_submit
from compactor.storage.stores import Stores
from tests.support.kerberos import REALM, kerberos_libraries
from tests.support.kerberos_hdfs import SecureHdfs, options_of
from tests.support.moved_tables import moved, read_rows
from tests.support.patience import PATIENCE
from tests.support.tables import insert, make_table, with_settings

_CONFIG = """[storage.hdfs]
url = {url!r}
authorities = [{authority!r}]
kerberos = true
doas = {doas}
principal = {principal!r}
keytab = {keytab!r}
"""


@pytest.fixture
def table(deployment: Site, warehouse: Path, realm: SecureHdfs, top: str) -> tuple[Site, Table]:
    """A table of ``hive``, which ``compactor`` may read and not write."""
    made = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, made, [value])
    realm.curl("nn/localhost", f"/webhdfs/v1/t/{top.rpartition('/')[2]}?op=SETOWNER&owner=hive", method="PUT")
    as_hive = Stores(options_of(realm, principal="hive", keytab=str(realm.kdc.keytab("hive"))))
    moved(deployment, made, as_hive, top)
    return replace(deployment, storage=Stores(options_of(realm))), deployment.metastore.catalog.table("default", "t")


@pytest.mark.parametrize("doas", [True, False])
def test_an_application_of_the_owner(
    table: tuple[Site, Table], realm: SecureHdfs, metastore_url: str, tmp_path: Path, top: str, doas: bool
) -> None:
    site, made = table
    before = read_rows(site, made)
    request_compaction(site, table="t", type="major")
    (planned,) = plan_batches(with_settings(site, compactor_run_as_owner="true"))
    assert planned.run_as == "hive"
    config = tmp_path / "compactor.toml"
    principal, keytab = f"compactor@{REALM}", str(realm.kdc.keytab("compactor"))
    options = {"url": realm.url, "authority": realm.authority, "doas": str(doas).lower()}
    config.write_text(_CONFIG.format(**options, principal=principal, keytab=keytab), "utf-8")
    given = CliContext(flags={"compactor.run.as.owner": "true"}, config=str(config))
    line = submit_line(find_spark_submit(), given, planned, find_target(find_spark_submit(), "local[1]", None, {}))
    environment = os.environ | realm.kdc.environment
    environment |= {"COMPACTOR_METASTORE_URL": metastore_url, "PYTHONPATH": str(kerberos_libraries())}
    done = subprocess.run(
        line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if doas:
        (entry,) = site.metastore.entries.queue()
        assert (done.returncode, entry.state) == (0, State.READY_FOR_CLEANING), done.stderr[-3000:]
        assert {site.storage.owner(f"{top}/{name}") for name in site.storage.children(top)} == {"hive"}
    else:
        assert done.returncode == 1
        assert "Permission denied: user=compactor, access=WRITE" in done.stdout + done.stderr
    assert read_rows(site, made) == before
