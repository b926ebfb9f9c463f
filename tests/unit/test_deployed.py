"""The units of systemd, the manifests of Kubernetes and docker-compose.yaml start commands that there are."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from compactor.cli.program import program

DOCKER = Path(__file__).parents[2] / "docker"
ROLES = ("initiator", "worker", "cleaner", "housekeeper")
UNIT = (DOCKER / "systemd" / "compactor@.service").read_text()


def is_ours(arguments: list[str]) -> bool:
    """Returns true if the program knows the command and its options, of which it shows the help."""
    return CliRunner().invoke(program, [*arguments, "--help"]).exit_code == 0


def started(text: str) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
    return shlex.split(line)


def containers() -> list[list[str]]:
    documents = yaml.safe_load_all((DOCKER / "kubernetes" / "roles.yaml").read_text())
    deployments = [one for one in documents if one["kind"] == "Deployment"]
    return [one["spec"]["template"]["spec"]["containers"][0]["command"] for one in deployments]


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_runs_each_role(role: str) -> None:
    path, *arguments = started(UNIT)
    assert path.endswith("/bin/compactor")
    assert is_ours([one.replace("%i", role) for one in arguments if not one.startswith("$")])


def test_the_unit_of_the_metrics() -> None:
    _, *arguments = started((DOCKER / "systemd" / "compactor-metrics.service").read_text())
    assert is_ours(arguments)


@pytest.mark.parametrize("command", containers(), ids=" ".join)
def test_each_container_runs_a_command_of_ours(command: list[str]) -> None:
    assert command[0] == "compactor"
    assert is_ours(command[1:])


def test_all_roles_are_there() -> None:
    assert {command[2] for command in containers() if command[1] == "run"} == set(ROLES)


@pytest.mark.parametrize("arguments", [["run", "sweeper"], ["run", "worker", "--no-such"]])
def test_what_is_no_command_is_noticed(arguments: list[str]) -> None:
    assert not is_ours(arguments)


ROOT = DOCKER.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text("utf-8"))["services"]
GIVEN = dict(re.findall(r"^(\w+)=(\S+)$", (DOCKER / "env.example").read_text("utf-8"), re.MULTILINE))
_DEFAULT = re.compile(r"\$\{(\w+):-([^}]+)\}")
BUILDS = {name: service["build"] for name, service in COMPOSE.items() if "build" in service}


def dockerfile(name: str) -> str:
    return (ROOT / BUILDS[name]["dockerfile"]).read_text("utf-8")


def test_versions_have_one_place() -> None:
    """``env.example`` lists them, and what docker-compose.yaml takes without a .env is the same."""
    defaults = dict(_DEFAULT.findall((ROOT / "docker-compose.yaml").read_text("utf-8")))
    assert {name: value for name, value in defaults.items() if name != "COMPACTOR_METASTORES"} == GIVEN


def test_images_are_pinned() -> None:
    """To a release, not to a line of releases, of which the next pull takes another one."""
    images = [value for name, value in GIVEN.items() if name.endswith("_IMAGE")]
    for path in DOCKER.glob("*Dockerfile"):
        images += [
            image for image in re.findall(r"^FROM (\S+)", path.read_text("utf-8"), re.MULTILINE) if image[0] != "$"
        ]
    assert len(images) == 5
    assert [image for image in images if not re.search(r":\d+\.\d+(\.\d+)?(-|$)", image)] == []
    assert re.fullmatch(r"\d+\.\d+\.\d+", GIVEN["SPARK_VERSION"])


def test_the_cluster_has_the_python_of_the_driver() -> None:
    """PySpark refuses another minor version, and Compactor an older one."""
    (driver,) = re.findall(r"-python(\d+\.\d+)$", GIVEN["AIRFLOW_IMAGE"])
    (cluster,) = re.findall(r"^python:(\d+\.\d+)\.\d+-", GIVEN["PYTHON_IMAGE"])
    assert cluster == driver
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert Version(cluster) in SpecifierSet(project["requires-python"])
    for name in ("spark-master", "spark-worker"):
        assert BUILDS[name]["args"].keys() == {"PYTHON_IMAGE", "SPARK_VERSION"}


def test_spark_is_that_of_the_lock() -> None:
    locked = {package["name"]: package for package in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]}
    assert GIVEN["SPARK_VERSION"] == locked["pyspark"]["version"]
    assert f":{locked['apache-airflow']['version']}-" in GIVEN["AIRFLOW_IMAGE"]


@pytest.mark.parametrize("name", BUILDS)
def test_an_image_is_built_from_what_is_there(name: str) -> None:
    build = BUILDS[name]
    assert (ROOT / build["context"]).resolve() == ROOT
    declared = set(re.findall(r"^ARG (\w+)$", dockerfile(name), re.MULTILINE))
    assert declared == set(build["args"])
    assert "image" in COMPOSE[name]


@pytest.mark.parametrize(
    "name", [name for name, service in COMPOSE.items() if service.get("restart") == "unless-stopped"]
)
def test_what_keeps_running_says_whether_it_is_well(name: str) -> None:
    if name in ("hive", "hive-metastore"):
        return  # their image has neither curl nor python
    check = COMPOSE[name]["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= check.keys()


def test_the_checks_of_airflows_jobs_are_commands_of_airflow() -> None:
    from airflow.cli.cli_parser import get_parser

    lines = [service["healthcheck"]["test"][1:] for service in COMPOSE.values() if "healthcheck" in service]
    ours = [line[1:] for line in lines if line[0] == "airflow"]
    assert len(ours) == 2
    for arguments in ours:
        parsed = get_parser().parse_args(arguments)
        assert (parsed.subcommand, parsed.local) == ("check", True)


@pytest.mark.parametrize("name", ["spark-master", "spark-worker"])
def test_a_check_by_python_asks_the_web_ui(name: str) -> None:
    """Against a real server, which answers once and then is gone."""
    _, program, option, code = COMPOSE[name]["healthcheck"]["test"]
    assert (program, option) == ("python3", "-c")

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/json/" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        here = re.sub(r"localhost:\d+", f"127.0.0.1:{server.server_port}", code)
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert subprocess.run([sys.executable, "-c", here], check=False).returncode == 0
    assert subprocess.run([sys.executable, "-c", here], capture_output=True, check=False).returncode != 0
