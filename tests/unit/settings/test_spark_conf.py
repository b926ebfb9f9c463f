"""Keys of Spark that tables may set (docs/security.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import BadSetting
from compactor.settings.precedence import Layer, Settings, with_override, with_request, with_table
from compactor.settings.spark_conf import HARMLESS, driver_config, explain_refusal, for_yarn, must_know_metastore
from tests.support.sizes import sized

#: Keys that run code, read files, reach hosts or change who runs.
_DANGEROUS = """
spark.executorEnv.LD_PRELOAD spark.executorEnv.PYTHONPATH spark.executorEnv.PATH spark.yarn.appMasterEnv.LD_PRELOAD
spark.yarn.appMasterEnv.PYSPARK_PYTHON spark.yarn.am.extraJavaOptions spark.kubernetes.driverEnv.LD_PRELOAD
spark.appStateStore.x spark.pyspark.python spark.pyspark.driver.python spark.executor.python.worker.log.details
spark.python.daemon.module spark.python.worker.module spark.python.use.daemon spark.kubernetes.container.image
spark.kubernetes.driver.container.image spark.kubernetes.executor.container.image
spark.kubernetes.driver.podTemplateFile spark.kubernetes.executor.podTemplateFile spark.kubernetes.executor.secrets.x
spark.kubernetes.driver.secretKeyRef.X spark.kubernetes.driver.volumes.hostPath.x.mount.path
spark.kubernetes.authenticate.driver.serviceAccountName spark.kubernetes.namespace spark.kubernetes.context
spark.kubernetes.executor.scheduler.name spark.kubernetes.driver.master spark.kubernetes.file.upload.path
spark.kubernetes.driver.pod.featureSteps spark.kubernetes.hadoop.configMapName
spark.kubernetes.submission.connectionTimeout spark.closure.serializer spark.serializer spark.kryo.registrator
spark.kryo.classesToRegister spark.sql.extensions spark.sql.catalog.x spark.sql.catalogImplementation
spark.sql.warehouse.dir spark.sql.queryExecutionListeners spark.sql.streaming.streamingQueryListeners
spark.sql.hive.metastore.jars spark.sql.hive.metastore.jars.path spark.sql.artifact.copyFromLocalToFs.allowDestLocal
spark.ui.filters spark.ui.port spark.ui.proxyBase spark.ui.view.acls spark.admin.acls spark.modify.acls
spark.acls.enable spark.user.groups.mapping spark.master spark.remote spark.api.mode spark.submit.deployMode
spark.submit.pyFiles spark.submit.callSystemExitOnMainExit spark.proxyUser spark.proxy.user spark.jars
spark.jars.packages spark.jars.repositories spark.jars.ivy spark.jars.ivySettings spark.jars.excludes spark.files
spark.archives spark.executor.extraJavaOptions spark.executor.defaultJavaOptions spark.driver.extraJavaOptions
spark.driver.defaultJavaOptions spark.executor.extraClassPath spark.driver.extraClassPath
spark.executor.extraLibraryPath spark.driver.extraLibraryPath spark.driver.userClassPathFirst
spark.executor.userClassPathFirst spark.plugins spark.plugins.defaultList spark.extraListeners
spark.hadoop.fs.s3a.access.key spark.hadoop.hadoop.security.authentication spark.hadoop.fs.defaultFS
spark.hadoop.javax.jdo.option.ConnectionURL spark.hive.x spark.yarn.queue spark.yarn.dist.files
spark.yarn.dist.archives spark.yarn.dist.jars spark.yarn.dist.pyFiles spark.yarn.jars spark.yarn.archive
spark.yarn.stagingDir spark.yarn.keytab spark.yarn.principal spark.kerberos.keytab spark.kerberos.principal
spark.kerberos.access.hadoopFileSystems spark.kerberos.renewal.credentials spark.security.credentials.x.enabled
spark.yarn.populateHadoopClasspath spark.yarn.config.gatewayPath spark.yarn.am.nodeLabelExpression
spark.yarn.unmanagedAM.enabled spark.local.dir spark.eventLog.dir spark.eventLog.enabled spark.history.fs.logDirectory
spark.log.structuredLogging.enabled spark.executor.logs.rolling.strategy spark.driver.log.dfsDir
spark.driver.log.localDir spark.metrics.conf spark.metrics.conf.*.sink.x.class spark.shuffle.manager
spark.shuffle.sort.io.plugin.class spark.shuffle.service.name spark.io.compression.codec spark.broadcast.compress
spark.checkpoint.dir spark.driver.host spark.driver.bindAddress spark.driver.port spark.blockManager.port
spark.authenticate spark.authenticate.secret spark.authenticate.secret.file spark.network.crypto.enabled
spark.io.encryption.enabled spark.ssl.enabled spark.ssl.keyStore spark.redaction.regex
spark.executor.resource.gpu.discoveryScript spark.driver.resource.gpu.discoveryScript
spark.worker.resource.gpu.discoveryScript spark.resources.discoveryPlugin spark.deploy.recoveryMode spark.r.command
spark.r.driver.command spark.executor.processTreeMetrics.enabled spark.scheduler.allocation.file
spark.barrier.sync.timeout spark.app.name spark.app.id spark.home spark.repl.class.outputDir
spark.connect.grpc.interceptor.classes spark.connect.extensions.relation.classes
spark.storage.decommission.fallbackStorage.path spark.mesos.executor.docker.image
spark.kubernetes.executor.deleteOnTermination spark.executor.killOnFatalError.depth
"""


def test_no_such_key_is_ever_taken() -> None:
    """Whatever the site lists, whoever asks, however it is written."""
    spellings = [(key, key.lower(), key.upper(), f" {key}", f"{key} ") for key in _DANGEROUS.split()]
    for number, name in enumerate(name for names in spellings for name in names):
        if number % sized(short=6, whole=1):  # of five spellings of each key, another one by turns
            continue
        key = spellings[number // 5][0]
        listed = Settings.of([Layer(name="flag", values={"compactor.allowed.spark.conf": f"{key},{name.strip()}"})])
        given = {f"compactor.{name}": "1g"}
        assert with_table(listed, given, given).spark_conf == {}
        assert with_override(listed, given).spark_conf == {}
        assert with_request(listed, given, strict=False).spark_conf == {}
        with pytest.raises(BadSetting):
            with_request(listed, given)


EVERY = frozenset(HARMLESS)
GOOD = {
    "spark.executor.memory": ("8g", "600m", "8GB", "1073741824", " 8g "),
    "spark.executor.cores": ("4", "0"),
    "spark.executor.memoryOverheadFactor": ("0.1", "1", ".5"),
    "spark.network.timeout": ("120s", "2min", "1000ms"),
    "spark.dynamicAllocation.enabled": ("true", "false"),
    "spark.kubernetes.executor.request.cores": ("2", "500m", "0.5"),
}
BAD = {
    "spark.executor.memory": ("1g -XX:+UseG1GC", "8 g", "-1g", "8g;id", "8g\n-XX", "", "lots", "1e9", "٨g", "0x10"),
    "spark.driver.memory": ("1g -agentpath:/tmp/x.so", "1g\t-XX:OnOutOfMemoryError=id", "$(id)"),
    "spark.executor.cores": ("4 --conf x=y", "-1", "4.0", "9" * 20, "1_000"),
    "spark.executor.memoryOverheadFactor": ("inf", "nan", "1e9", "-0.1"),
    "spark.network.timeout": ("120 s", "1w", "never"),
    "spark.dynamicAllocation.enabled": ("yes", "TRUE ;", "1"),
    "spark.kubernetes.executor.request.cores": ("2; image: evil", "{}"),
}


@pytest.mark.parametrize(("key", "text"), [(key, text) for key, texts in GOOD.items() for text in texts])
def test_values_of_their_kind_are_taken(key: str, text: str) -> None:
    listed = Settings.of([Layer(name="flag", values={"compactor.allowed.spark.conf": key})])
    assert with_table(listed, {f"compactor.{key}": text}).spark_conf == {key: text.strip()}


@pytest.mark.parametrize(("key", "text"), [(key, text) for key, texts in BAD.items() for text in texts])
def test_values_are_parsed(key: str, text: str) -> None:
    assert f"{key} = {text!r}: expected " in (explain_refusal(key, text, EVERY) or "")


def test_a_harmless_key_is_taken_if_the_site_lists_it() -> None:
    assert explain_refusal("spark.executor.cores", "1", frozenset({"spark.jars"})) == (
        "spark.executor.cores is not among the keys that compactor.allowed.spark.conf allows (nothing)"
    )
    defaults = Settings.of().text("compactor.allowed.spark.conf").split(",")
    assert set(defaults) <= EVERY


def test_the_page_lists_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    assert [key for key in HARMLESS if f"`{key.removeprefix('spark.')}`" not in page] == []


CONFIG = "/etc/compactor.toml"


def test_a_driver_here_takes_what_we_took() -> None:
    assert driver_config(CONFIG, {"spark.files": CONFIG}, is_cluster=False) == CONFIG
    assert driver_config(None, {}, is_cluster=False) is None


@pytest.mark.parametrize(
    ("conf", "there"),
    [
        ({}, CONFIG),
        ({"spark.files": "/a,/b"}, CONFIG),
        ({"spark.files": f"/a, {CONFIG}"}, "compactor.toml"),
        ({"spark.yarn.dist.files": f"file:{CONFIG}"}, "compactor.toml"),
        ({"spark.files": f"file://{CONFIG}#c.toml"}, "c.toml"),
    ],
)
def test_a_driver_elsewhere_takes_the_same_path_or_its_copy(conf: dict[str, str], there: str) -> None:
    assert driver_config(CONFIG, conf, is_cluster=True) == there


def test_a_driver_elsewhere_must_know_of_a_metastore() -> None:
    """Our environment is not its own; on YARN it would end with exit code 13 and no word of this."""
    with pytest.raises(BadSetting, match=r"COMPACTOR_METASTORE_URL.*give --config PATH.*compactor.spark.files = PATH"):
        must_know_metastore(None, {"spark.files": "/a"})
    must_know_metastore(CONFIG, {})
    must_know_metastore(None, {"spark.files": CONFIG})
    for name in ("COMPACTOR_CONFIG", "COMPACTOR_METASTORE_URL"):
        must_know_metastore(None, {f"spark.yarn.appMasterEnv.{name}": "x"})


def test_yarn_gets_archives_and_files_by_its_own_keys() -> None:
    """By Spark's, a driver in client mode hands them out once more."""
    given = {"spark.archives": "a#e", "spark.files": "f", "spark.yarn.dist.files": "g", "spark.x": "1"}
    found = for_yarn(given, is_cluster=False)
    assert found == {"spark.yarn.dist.archives": "a#e", "spark.yarn.dist.files": "g,f", "spark.x": "1"}
    assert for_yarn({}, is_cluster=False) == {}


def test_yarn_starts_a_driver_once_unless_the_site_says_otherwise() -> None:
    """It would repeat one whose entry failed. In client mode the driver is ours, and the master that YARN repeats is not."""
    attempts = "spark.yarn.maxAppAttempts"
    assert for_yarn({}, is_cluster=True) == {attempts: "1"}
    assert for_yarn({attempts: "3"}, is_cluster=True) == {attempts: "3"}
    assert for_yarn({}, {attempts: "2"}, is_cluster=True) == {}
