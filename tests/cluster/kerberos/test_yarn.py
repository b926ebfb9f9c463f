"""``spark-submit`` with principal and keytab on a YARN and an HDFS that take nobody without a ticket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.compaction.states import State
from compactor.errors import ClusterUnavailable
from compactor.metastore.catalog.values import Table
from compactor.service.batches.assembly import plan_batches
from compactor.service.requests.request import request_compaction
from compactor.service.site import Site
from compactor.storage.stores import Stores
from compactor.yarn.manager import ResourceManager
from tests.support.kerberos import REALM, kdc, kerberos_on_path
from tests.support.kerberos_hdfs import SecureHdfs, options_of, secure_hdfs
from tests.support.kerberos_yarn import java_options, secure_yarn
from tests.support.moved_tables import moved, rows
from tests.support.patience import PATIENCE
from tests.support.spark_cluster import QUICK, Packed, pack
from tests.support.tables import insert, make_table
from tests.support.yarn import Yarn
from tests.support.yarn_site import YarnSite

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


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_spark_submit_with_principal_and_keytab(
    on_yarn: YarnSite, table: tuple[Site, Table], realm: SecureHdfs, metastore_url: str, mode: str
) -> None:
    """In client mode the driver logs in by the keytab of compactor.toml; in cluster mode the container has tokens alone."""
    site, made = table
    before = rows(site, made)
    principal, keytab = f"compactor@{REALM}", str(realm.kdc.keytab("compactor"))
    log_in = f"principal = {principal!r}\nkeytab = {keytab!r}" if mode == "client" else ""
    on_yarn.write_config(metastore_url, None, _STORAGE.format(url=realm.url, authority=realm.authority, log_in=log_in))
    request_compaction(site, table="t", type="major")
    (planned,) = plan_batches(site)
    java = f"{QUICK} {java_options(realm)}"
    conf = {
        "spark.kerberos.principal": principal,
        "spark.kerberos.keytab": keytab,
        "spark.yarn.stagingDir": f"{realm.location}/staging-{mode}",
        **{f"spark.{part}.extraJavaOptions": java for part in ("driver", "executor", "yarn.am")},
    }
    environment = realm.kdc.environment | {"SPARK_SUBMIT_OPTS": java_options(realm)}
    line = on_yarn.spark_submit_line(mode, replace(planned, queue="etl"))
    with on_yarn.started(line, environment, conf) as process:
        out, err = process.communicate(timeout=PATIENCE)
    logs = "".join(map(on_yarn.yarn.log_of, _ids(on_yarn)))
    assert process.returncode == 0, out[-3000:] + err[-3000:] + logs[-6000:]
    (entry,) = site.metastore.entries.queue()
    assert entry.state is State.READY_FOR_CLEANING
    found = on_yarn.yarn.applications()[-1]
    assert (found["user"], found["queue"], found["finalStatus"]) == ("compactor", "root.etl", "SUCCEEDED")
    assert rows(site, made) == before


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


def _ids(on_yarn: YarnSite) -> list[str]:
    return [str(one["id"]) for one in on_yarn.yarn.applications()]
