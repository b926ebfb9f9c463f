from __future__ import annotations

from pathlib import Path

from compactor.launch.yarn_container import log_url
from tests.support.hadoop import write_site

INSIDE = {"CONTAINER_ID": "container_1_0001_01_000001", "NM_HOST": "nm", "NM_HTTP_PORT": "8042", "USER": "hive"}
LOG = "://nm:8042/node/containerlogs/container_1_0001_01_000001/hive"


def test_the_node_manager_shows_the_log(tmp_path: Path) -> None:
    assert log_url(INSIDE) == f"http{LOG}"
    write_site(tmp_path / "yarn-site.xml", {"yarn.http.policy": "HTTPS_ONLY"})
    assert log_url({**INSIDE, "HADOOP_CONF_DIR": str(tmp_path)}) == f"https{LOG}"
    assert log_url({"USER": "hive"}) is None
