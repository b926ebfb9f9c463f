from __future__ import annotations

import pytest

from compactor.base.errors import BadSetting
from compactor.settings.driver_config import driver_config, for_yarn, must_know_metastore

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
