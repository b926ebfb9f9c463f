from __future__ import annotations

import pytest

from compactor.errors import BadSetting
from compactor.service.batches.driver_config import driver_config

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
        driver_config(None, {"spark.files": "/a"}, is_cluster=True)
    for told in ("spark.yarn.appMasterEnv.COMPACTOR_CONFIG", "spark.kubernetes.driverEnv.COMPACTOR_METASTORE_URL"):
        assert driver_config(None, {told: "x"}, is_cluster=True) is None
    assert driver_config(None, {"spark.files": CONFIG}, is_cluster=True) is None
