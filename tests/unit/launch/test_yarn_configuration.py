from __future__ import annotations

from pathlib import Path

from compactor.launch.yarn_configuration import is_https, read_configuration
from tests.support.hadoop import write_site


def test_a_later_folder_wins_and_missing_ones_say_nothing(tmp_path: Path) -> None:
    for name, policy in (("hadoop", "HTTP_ONLY"), ("yarn", "HTTPS_ONLY")):
        (tmp_path / name).mkdir()
        write_site(tmp_path / name / "yarn-site.xml", {"yarn.http.policy": policy, f"of.{name}": "1"})
    environ = {"HADOOP_CONF_DIR": f"{tmp_path}/hadoop", "YARN_CONF_DIR": f"{tmp_path}/yarn"}
    found = read_configuration(environ)
    assert found == {"yarn.http.policy": "HTTPS_ONLY", "of.hadoop": "1", "of.yarn": "1"}
    assert is_https(found)
    assert read_configuration({"HADOOP_CONF_DIR": f"{tmp_path}/none"}) == {}
    assert not is_https({})
