"""A worker that outlives its tickets, with executors that have none; and what of tickets and tokens anybody else sees."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.storage.stores import Stores
from tests.support.kerberos import REALM, kerberos_libraries
from tests.support.kerberos_hdfs import SecureHdfs, options_of
from tests.support.moved_tables import moved, read_rows
from tests.support.patience import until
from tests.support.spark_cluster import standalone
from tests.support.tables import delete, insert, make_table

TICKET_S = 60  #: of the principal ``short``
_CONFIG = """[storage.hdfs]
url = {url!r}
ca_file = {ca!r}
authorities = [{authority!r}]
kerberos = true
principal = {principal!r}
keytab = {keytab!r}
[metastore.default.settings]
"compactor.spark.executor.memory" = "512m"
"""


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[str]:
    """A cluster whose workers know nothing of Kerberos, neither a KDC nor its libraries."""
    bare = {"KRB5_CONFIG": "/dev/null", "KRB5CCNAME": f"FILE:{tmp_path}/none"}
    with standalone(tmp_path, 1, bare) as master:
        yield master


@pytest.fixture
def tables(deployment: Site, warehouse: Path, realm: SecureHdfs, top: str) -> tuple[Site, list[Table]]:
    """Two tables of ``short`` in the cluster."""
    realm.curl("nn/localhost", f"/webhdfs/v1/t/{top.rpartition('/')[2]}?op=SETOWNER&owner=short", method="PUT")
    site, made = deployment, []
    stores = Stores(options_of(realm, principal="short", keytab=str(realm.kdc.keytab("short"))))
    for name in ("a", "b"):
        table = make_table(deployment, warehouse, name=name)
        insert(deployment, table, range(10))
        insert(deployment, table, range(10, 20))
        delete(deployment, table, [3])
        stores.make_directories(f"{top}/{name}", like=top)
        site = moved(site, table, stores, f"{top}/{name}")
        made.append(site.metastore.catalog.table("default", name))
    return site, made


def test_it_works_on_when_its_first_tickets_have_expired(
    tables: tuple[Site, list[Table]], realm: SecureHdfs, spark: str, metastore_url: str, tmp_path: Path, top: str
) -> None:
    site, (a, b) = tables
    before = read_rows(site, a), read_rows(site, b)
    config = tmp_path / "compactor.toml"
    principal, keytab = f"short@{REALM}", str(realm.kdc.keytab("short"))
    options = {"url": realm.https_url, "ca": str(realm.ca), "authority": realm.authority}
    config.write_text(_CONFIG.format(**options, principal=principal, keytab=keytab), "utf-8")
    command = [
        str(Path(sys.executable).with_name("compactor")),
        "-vv",
        "--config",
        str(config),
        "run",
        "worker",
        "--master",
        spark,
    ]
    environment = os.environ | realm.kdc.environment
    environment |= {"COMPACTOR_METASTORE_URL": metastore_url, "PYTHONPATH": str(kerberos_libraries())}
    begun = time.monotonic()
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path)
        try:
            compacted(site, worker, a, tmp_path / "worker.log")
            until("its tickets expire", lambda: time.monotonic() - begun > TICKET_S + 10, pause=0.5)
            compacted(site, worker, b, tmp_path / "worker.log")
            shown = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout
        finally:
            worker.terminate()
            worker.wait()
    assert (read_rows(site, a), read_rows(site, b)) == before
    nothing_secret_in(
        realm, top, {"ps": shown} | {str(path): path.read_text("utf-8", "replace") for path in logs(tmp_path)}
    )
    assert "executors use a delegation token" in (tmp_path / "worker.log").read_text("utf-8")
    assert "cannot cancel" not in (tmp_path / "worker.log").read_text("utf-8")


def compacted(site: Site, worker: subprocess.Popen[bytes], table: Table, log: Path) -> None:
    (asked,) = request_compaction(site, table=table.name, type="major")

    def is_done() -> bool:
        assert worker.poll() is None, log.read_text("utf-8")[-3000:]
        found = [one for one in site.metastore.entries.queue() if one.id == asked.entry_id]
        assert not found or found[0].state in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING), log.read_text(
            "utf-8"
        )[-3000:]
        return bool(found) and found[0].state is State.READY_FOR_CLEANING

    until(f"{table.name} is compacted", is_done, pause=0.2)


def logs(folder: Path) -> list[Path]:
    """Returns what worker, master and executors have written."""
    found = [path for path in folder.rglob("*") if path.name in ("stdout", "stderr") or path.suffix == ".log"]
    assert len(found) >= 5, found
    return found


def nothing_secret_in(realm: SecureHdfs, top: str, texts: dict[str, str]) -> None:
    """Looks for what every token has in it, at each of the three places where base64 may begin."""
    with ExecutorTokens() as tokens:
        token = tokens.standing_in(options_of(realm), top).of_place("hdfs", realm.authority)["token"]
    parts = [base64.b64encode(b"x" * shift + b"DELEGATION").decode()[4:12] for shift in range(3)]
    parts += [base64.b64encode(b"x" * shift + b" delegation").decode()[4:12] for shift in range(3)]
    assert [part for part in parts if part in token], json.dumps([token, parts])
    for name, text in texts.items():
        assert not [part for part in parts if part in text], name
        assert "Negotiate " not in text, name
