"""Garage, a store that people keep their objects in: it copies parts of objects by itself, at the speed of a store."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.daemons import Daemon, answers
from tests.support.downloads import ROOT, kept_once
from tests.support.ports import free_port

VERSION = "2.5.0"
_CACHE = ROOT / "build" / "cache" / "cargo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running server: its address, and options of fsspec for it."""

    url: str
    options: Mapping[str, str]


def can_be_built() -> bool:
    """Returns true where cargo is, which builds it once, in ten to twenty minutes."""
    return shutil.which("cargo") is not None


@contextmanager
def garage(folder: Path, bucket: str) -> Iterator[Served]:
    """Yields a server of one node, with one bucket; all of it is in ``folder``."""
    port, rpc = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    key, secret = f"GK{secrets.token_hex(12)}", secrets.token_hex(32)
    config = folder / "garage.toml"
    config.write_text(
        f'metadata_dir = "{folder}/garage-meta"\ndata_dir = "{folder}/garage-data"\ndb_engine = "sqlite"\n'
        f'replication_factor = 1\nrpc_bind_addr = "127.0.0.1:{rpc}"\nrpc_public_addr = "127.0.0.1:{rpc}"\n'
        f'rpc_secret = "{secrets.token_hex(32)}"\ncompression_level = "none"\n'
        f'[s3_api]\ns3_region = "us-east-1"\napi_bind_addr = "127.0.0.1:{port}"\n'
    )
    program = [str(_program()), "-c", str(config)]

    def run(*words: str) -> str:
        done = subprocess.run([*program, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    server = Daemon(name="garage", folder=folder, command=[*program, "server"], environment={"RUST_LOG": "warn"})
    with server.running(partial(answers, url, 403)):
        run("layout", "assign", "-z", "here", "-c", "10G", run("node", "id", "-q").split("@")[0])
        run("layout", "apply", "--version", "1")
        run("key", "import", "--yes", "-n", "tests", key, secret)
        run("bucket", "create", bucket)
        run("bucket", "allow", "--read", "--write", "--owner", bucket, "--key", "tests")
        yield Served(url=url, options={"key": key, "secret": secret})


def _program() -> Path:
    def build(folder: Path) -> Path:
        features = ["--no-default-features", "--features", "bundled-libs,sqlite"]
        cheap = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
        subprocess.run(
            ["cargo", "install", "--quiet", "--locked", f"garage@{VERSION}", *features, "--root", str(folder)],
            env=os.environ | cheap,
            check=True,
        )
        return folder / "bin" / "garage"

    return kept_once(_CACHE, f"garage-{VERSION}", build)
