"""The images and docker-compose.yaml: of a checkout only the package goes into an image, and no password stands where
others can read it."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))["services"]


def is_sent(path: str) -> bool:
    """Returns true if Docker sends ``path`` to the builder: the last pattern that matches it or a folder above decides."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    parts = path.split("/")
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    sent = True
    for line in (line for line in lines if line and not line.startswith("#")):
        pattern = line.removeprefix("!")
        anywhere = pattern.startswith("**/")
        names = [one.rpartition("/")[2] for one in above] if anywhere else above
        matches = (fnmatch(one, pattern.removeprefix("**/")) and ("/" not in one or pattern != "*") for one in names)
        if any(matches):
            sent = line.startswith("!")
    return sent


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git", ".venv/bin/python", ".tools/java/bin/java", ".env", ".env.local", "docker/.env"),
        *(
            "compactor.toml",
            "docker/compactor.toml",
            "docker/env.example",
            "build/cache/x",
            "dist/x.whl",
            "metastore.db",
        ),
        *(
            "tests/fixtures/jceks/hive.jceks",
            "compactor/.env",
            "compactor/cli/__pycache__/x.pyc",
            "id_rsa",
            "spark-warehouse/t",
        ),
    ],
)
def test_nothing_else_of_a_checkout_goes_into_an_image(path: str) -> None:
    assert not is_sent(path)


@pytest.mark.parametrize(
    "path",
    [
        *("pyproject.toml", "README.md", "LICENSE", "compactor/__init__.py", "compactor/state/migrations/env.py"),
        "docker/hivemetastore-site.xml",
    ],
)
def test_what_an_image_is_built_from_is_sent(path: str) -> None:
    assert (ROOT / path).is_file()
    assert is_sent(path)


def test_whatever_a_dockerfile_copies_is_sent() -> None:
    for file in (ROOT / "docker").glob("*Dockerfile"):
        for source in re.findall(r"^COPY (?!--from)(?:--\S+ )*(\S+) ", file.read_text(encoding="utf-8"), re.MULTILINE):
            assert source == "." or is_sent(source), f"{file.name}: {source}"


@pytest.mark.parametrize("name", COMPOSE)
def test_no_password_stands_on_a_command_line(name: str) -> None:
    """Options of a JVM, too: Hive's image puts SERVICE_OPTS on its command line."""
    service = COMPOSE[name]
    environment = service.get("environment", {})
    on_lines = [service.get("command"), service.get("entrypoint"), service.get("healthcheck")]
    on_lines += [value for key, value in environment.items() if key.endswith("_OPTS") or "JAVA" in key]
    assert "password" not in str(on_lines).lower()
    assert "PASSWORD" not in str(service.get("build", {}))


def test_hives_login_is_not_the_superuser_of_airflows_database() -> None:
    superuser = COMPOSE["postgres"]["environment"]["POSTGRES_USER"]
    site = (ROOT / "docker" / "hivemetastore-site.xml").read_text(encoding="utf-8")
    assert "<value>metastore</value>" in site
    assert superuser not in site
    toml = (ROOT / "docker" / "compactor.toml").read_text(encoding="utf-8")
    assert re.findall(r'url = "postgresql[^"]*//([^@]*)@', toml) == ["metastore"]
    theirs = COMPOSE["postgres"]["environment"]["POSTGRES_PASSWORD"]
    for name, service in COMPOSE.items():
        for key in ("METASTORE_PASSWORD", "COMPACTOR_METASTORE_PASSWORD"):
            assert service.get("environment", {}).get(key) != theirs, name


def test_every_secret_has_its_place_in_env() -> None:
    text = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\$\{(\w+):\?", text))
    given = (ROOT / "docker" / "env.example").read_text(encoding="utf-8")
    assert {name for name in wanted if f"\n{name}=\n" not in given} == set()
