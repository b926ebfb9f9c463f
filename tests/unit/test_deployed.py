"""The units of systemd and the manifests of Kubernetes start commands that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

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
