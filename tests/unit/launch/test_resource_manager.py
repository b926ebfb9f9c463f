"""The questions to a ResourceManager, over a server that answers as one does; a real one is in tests/cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from compactor.base.errors import ClusterUnavailable
from compactor.launch.resource_manager import ResourceManager, configured_manager, is_https, read_configuration
from compactor.launch.yarn_application import YarnApplication
from tests.support.hadoop import write_site
from tests.support.ports import free_port

ROW = {"id": "application_1_0002", "state": "RUNNING", "applicationTags": "mine"}


class Handler(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str, str]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if "/ws/v1/node/" in self.path:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the end")
            return
        self.asked.append((self.command, self.path, body))
        known = "application_1_0002" in self.path or "Tags" in self.path
        rows = {"apps": {"app": [{**ROW, "id": "application_1_0010"}, ROW, {**ROW, "applicationTags": "mine-not"}]}}
        answer: object = rows if "Tags" in self.path else {"state": "RUNNING"} if body else {"app": ROW}
        content = json.dumps(answer if known else {}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""

    do_GET = do_PUT = _answer  # noqa: N815


@pytest.fixture
def address() -> Iterator[str]:
    Handler.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_by_id_by_tag_and_its_end(address: str) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    manager = ResourceManager(addresses=(nobody, address), user="hive")  # the first one is down
    found = manager.application("application_1_0002")
    assert found is not None
    assert found.state == "RUNNING"
    assert manager.application("application_1_0009") is None
    assert [one.id for one in manager.list_tagged("mine")] == ["application_1_0002", "application_1_0010"]
    assert manager.kill("application_1_0002")
    assert not manager.kill("application_1_0009")
    method, path, body = Handler.asked[3]
    assert (method, json.loads(body)) == ("PUT", {"state": "KILLED"})
    assert path == "/ws/v1/cluster/apps/application_1_0002/state?user.name=hive"


def test_what_a_driver_wrote_is_on_its_node(address: str) -> None:
    log = f"{address}/node/containerlogs/container_1_0002_02_000001/hive"
    one = YarnApplication(
        id="application_1_0002", state="FAILED", final="FAILED", queue="q", user="u", name="n", log_url=log
    )
    manager = ResourceManager(addresses=(address,), user="hive")
    assert manager.driver_output(one) == "the end"
    assert Handler.asked == []
    assert manager.driver_output(replace(one, log_url=f"http://127.0.0.1:{free_port()}{log[len(address) :]}")) == ""
    assert manager.driver_output(replace(one, log_url=None)) == ""


def test_nobody_answers() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(
        ClusterUnavailable, match=r"ResourceManager cannot be asked: .*yarn-site.xml in HADOOP_CONF_DIR or"
    ):
        ResourceManager(addresses=(nobody,)).application("application_1_0002")


@pytest.mark.parametrize(
    ("values", "addresses"),
    [
        ({"hostname": "rm"}, ["http://rm:8088"]),
        ({"webapp.address": "rm:9"}, ["http://rm:9"]),
        ({"hostname": "rm", "webapp.address": "${yarn.resourcemanager.hostname}:9"}, ["http://rm:9"]),
        (
            {"ha.enabled": "true", "ha.rm-ids": "a, b", "hostname.a": "x", "webapp.address.b": "y:9"},
            ["http://x:8088", "http://y:9"],
        ),
    ],
)
def test_the_addresses_of_yarn_site(tmp_path: Path, values: dict[str, str], addresses: list[str]) -> None:
    write_site(tmp_path / "yarn-site.xml", {f"yarn.resourcemanager.{key}": value for key, value in values.items()})
    found = configured_manager({"YARN_CONF_DIR": str(tmp_path)})
    assert found is not None
    assert (list(found.addresses), found.kerberos) == (addresses, False)


def test_https_and_kerberos(tmp_path: Path) -> None:
    write_site(tmp_path / "core-site.xml", {"hadoop.http.authentication.type": "kerberos"})
    write_site(tmp_path / "yarn-site.xml", {"yarn.resourcemanager.hostname": "rm", "yarn.http.policy": "HTTPS_ONLY"})
    found = configured_manager({"HADOOP_CONF_DIR": str(tmp_path)})
    assert found is not None
    assert (found.addresses, found.kerberos) == (("https://rm:8090",), True)


def test_no_yarn_here(tmp_path: Path) -> None:
    assert configured_manager({}) is None
    assert configured_manager({"HADOOP_CONF_DIR": str(tmp_path)}) is None


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
