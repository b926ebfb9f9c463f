"""Another server that speaks S3, on disk: unlike moto's it reads ranges alone and compares the tag that a copy names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support.daemons import Daemon, answers
from tests.support.downloads import MAVEN_CACHE, kept_once
from tests.support.maven import maven
from tests.support.ports import free_port

VERSION = "4.7.0"


@contextmanager
def s3mock(folder: Path, bucket: str) -> Iterator[str]:
    """Yields the address of the server, with one bucket."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    root = folder / "objects"
    root.mkdir()
    options = [f"--server.port={free_port()}", f"--com.adobe.testing.s3mock.httpPort={port}"]
    server = Daemon(
        name="s3mock",
        folder=folder,
        command=["java", "-Xmx1g", "-jar", str(_program()), *options],
        environment={
            "COM_ADOBE_TESTING_S3MOCK_STORE_ROOT": str(root),
            "COM_ADOBE_TESTING_S3MOCK_STORE_INITIAL_BUCKETS": bucket,
        },
    )

    with server.running(partial(answers, url, 200)):
        yield url


def _program() -> Path:
    name = f"s3mock-{VERSION}-exec.jar"

    def download(folder: Path) -> Path:
        artifact = f"com.adobe.testing:s3mock:{VERSION}:jar:exec"
        maven(["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], folder)
        return folder / name

    return kept_once(MAVEN_CACHE, name, download)
