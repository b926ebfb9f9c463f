"""Each launcher with principal and keytab on a YARN and an HDFS that take nobody without a ticket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import ClusterUnavailable
from compactor.batches.assembly import plan_batches
from compactor.compaction.states import State
from compactor.launch.resource_manager import ResourceManager
from compactor.launch.spark_submit import Fate
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from compactor.storage.stores import Stores
from tests.support.airflow_home import migrate, prepare
from tests.support.kerberos import REALM, kdc, kerberos_libraries, kerberos_on_path
from tests.support.kerberos_hdfs import SecureHdfs, options_of, secure_hdfs
from tests.support.kerberos_yarn import java_options, secure_yarn
from tests.support.moved_tables import moved, read_rows
from tests.support.patience import PATIENCE
from tests.support.spark_cluster import QUICK, Packed, pack
from tests.support.tables import insert, make_table
from tests.support.yarn import Yarn
from tests.support.yarn_site import YarnSite

prepare()
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient` is deprecated")
MODES = ("client", "cluster")
PRINCIPAL = f"compactor@{REALM}"
QUEUE = "hive.compactor.job.queue"
_STORAGE = """[storage.hdfs]
url = {url!r}
authorities = [{authority!r}]
kerberos = true
{log_in}
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """As docs/spark.md says for a cluster with Kerberos."""
    return pack(tmp_path_factory.mktemp("dist"), "hdfs kerberos")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    """One whose tokens live as long as an application may take to start."""
    with (
        kerberos_on_path(),
        kdc(tmp_path_factory.mktemp("kdc")) as realm,
        secure_hdfs(tmp_path_factory.mktemp("hdfs"), realm, (600, 3600)) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def running(cluster: SecureHdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with secure_yarn(tmp_path_factory.mktemp("secure-yarn"), cluster) as found:
        yield found


@pytest.fixture
def on_yarn(
    running: Yarn, packed: Packed, realm: SecureHdfs, deployment: Site, warehouse: Path, tmp_path: Path
) -> YarnSite:
    return YarnSite(yarn=running, packed=packed, site=deployment, warehouse=warehouse, folder=tmp_path)


@pytest.fixture
def table(deployment: Site, warehouse: Path, realm: SecureHdfs, top: str) -> tuple[Site, Table]:
    made = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, made, [value])
    site = moved(deployment, made, Stores(options_of(realm)), top)
    return site, site.metastore.catalog.table("default", "t")


def write_config(on_yarn: YarnSite, realm: SecureHdfs, metastore_url: str, mode: str, **settings: str) -> None:
    """In client mode the driver logs in by the keytab of compactor.toml; in cluster mode the container has tokens alone."""
    log_in = f"principal = {PRINCIPAL!r}\nkeytab = {keytab(realm)!r}" if mode == "client" else ""
    storage = _STORAGE.format(url=realm.url, authority=realm.authority, log_in=log_in)
    on_yarn.write_config(metastore_url, settings, storage)


def keytab(realm: SecureHdfs) -> str:
    return str(realm.kdc.keytab("compactor"))


def spark_conf(realm: SecureHdfs, mode: str) -> dict[str, str]:
    java = f"{QUICK} {java_options(realm)}"
    return {
        "spark.yarn.stagingDir": f"{realm.location}/staging-{mode}",
        **{f"spark.{part}.extraJavaOptions": java for part in ("driver", "executor", "yarn.am")},
    }


def log_in_of_spark(realm: SecureHdfs) -> dict[str, str]:
    return {"spark.kerberos.principal": PRINCIPAL, "spark.kerberos.keytab": keytab(realm)}


def launcher(realm: SecureHdfs) -> dict[str, str]:
    """Returns the environment of whoever submits: it finds the KDC, and asks the ResourceManager by its keytab."""
    return {
        **realm.kdc.environment,
        "SPARK_SUBMIT_OPTS": java_options(realm),
        "KRB5_CLIENT_KTNAME": keytab(realm),
        "KRB5CCNAME": "MEMORY:",
        "PYTHONPATH": str(kerberos_libraries()),
    }


def compacted(on_yarn: YarnSite, table: tuple[Site, Table], before: list[Any]) -> dict[str, Any]:
    """Returns the application that compacted ``table``, as YARN lists it."""
    site, made = table
    (entry,) = site.metastore.entries.queue()
    assert entry.state is State.READY_FOR_CLEANING
    assert read_rows(site, made) == before
    found = on_yarn.yarn.until_ended(on_yarn.yarn.applications()[-1]["id"])
    assert (found["user"], found["queue"], found["finalStatus"]) == ("compactor", "root.etl", "SUCCEEDED")
    return found


@pytest.mark.parametrize("mode", MODES)
def test_spark_submit_with_principal_and_keytab(
    on_yarn: YarnSite, table: tuple[Site, Table], realm: SecureHdfs, metastore_url: str, mode: str
) -> None:
    site, made = table
    before = read_rows(site, made)
    write_config(on_yarn, realm, metastore_url, mode)
    request_compaction(site, table="t", type="major")
    (planned,) = plan_batches(site)
    environment = realm.kdc.environment | {"SPARK_SUBMIT_OPTS": java_options(realm)}
    line = on_yarn.spark_submit_line(mode, replace(planned, queue="etl"))
    with on_yarn.started(line, environment, spark_conf(realm, mode) | log_in_of_spark(realm)) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out[-3000:] + err[-3000:] + logs(on_yarn)
    compacted(on_yarn, table, before)


@pytest.mark.parametrize("mode", MODES)
def test_compactor_submit_with_principal_and_keytab(
    on_yarn: YarnSite, table: tuple[Site, Table], realm: SecureHdfs, metastore_url: str, mode: str
) -> None:
    """Spark's are in its own configuration; Compactor itself asks HDFS and the ResourceManager by a keytab, too."""
    site, made = table
    before = read_rows(site, made)
    write_config(on_yarn, realm, metastore_url, mode)
    request_compaction(site, table="t", type="major", properties={QUEUE: "etl"})
    line = on_yarn.compactor("submit", "--master", "yarn", "--deploy-mode", mode, "--json")
    with on_yarn.started(line, launcher(realm), spark_conf(realm, mode) | log_in_of_spark(realm)) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err[-6000:] + logs(on_yarn)
    found = compacted(on_yarn, table, before)
    (said,) = json.loads(out)
    assert (said["state"], said["application"]) == (Fate.DONE.value, found["id"])
    assert "cannot be asked" not in err


@pytest.mark.parametrize("mode", MODES)
def test_airflow_with_principal_and_keytab(
    on_yarn: YarnSite,
    table: tuple[Site, Table],
    realm: SecureHdfs,
    metastore_url: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of ``[compactor]`` go to spark-submit."""
    from compactor.airflow.dags import compaction_dags

    migrate()
    site, made = table
    before = read_rows(site, made)
    write_config(on_yarn, realm, metastore_url, mode)
    extra = f'{{"conn_type": "spark", "host": "yarn", "extra": {{"deploy-mode": "{mode}"}}}}'
    own = {"config": str(on_yarn.config), "principal": PRINCIPAL, "keytab": keytab(realm), "poll_seconds": "0.5"}
    environment = {
        **on_yarn.spark_home(spark_conf(realm, mode)),
        **launcher(realm),
        **{f"AIRFLOW__COMPACTOR__{name.upper()}": value for name, value in own.items()},
        "AIRFLOW_CONN_SPARK_DEFAULT": extra,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    request_compaction(site, table="t", type="major", properties={QUEUE: "etl"})
    (dag,) = (dag for dag in compaction_dags("default") if dag.dag_id == "compaction_worker")
    assert dag.test().state == "success", logs(on_yarn)
    compacted(on_yarn, table, before)


def test_the_resource_manager_is_asked_with_a_ticket(
    running: Yarn, realm: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = running.page
    manager = ResourceManager(addresses=(address,), kerberos=True)
    with pytest.raises(ClusterUnavailable, match="no ticket: this process cannot log in"):
        manager.application("application_1_0001")
    for name, value in realm.kdc.ticket("compactor", tmp_path / "tickets").items():
        monkeypatch.setenv(name, value)
    assert manager.application("application_1_0001") is None


def logs(on_yarn: YarnSite) -> str:
    """Returns the end of what the applications' masters wrote."""
    return "".join(on_yarn.yarn.log_of(str(one["id"])) for one in on_yarn.yarn.applications())[-6000:]
