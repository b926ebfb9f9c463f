"""A ZooKeeper from Debian's package on a loopback port, as a child of this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.patience import PATIENCE
from tests.support.ports import free_port

JAR = Path("/usr/share/java/zookeeper.jar")
_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeper:
    """A server that can be killed and started again over the same directory."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.hosts = f"127.0.0.1:{self.port}"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._configuration = directory / "zoo.cfg"
        self._configuration.write_text(
            f"tickTime=200\ndataDir={directory / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\nminSessionTimeout=400\nmaxSessionTimeout=200000\n",
            encoding="utf-8",
        )

    def start(self) -> None:
        environment = {**os.environ, "ZOO_LOG_DIR": str(self._directory)}
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", str(JAR), _CLASS, str(self._configuration)]
        log = (self._directory / "server.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=self._directory
            )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self._directory / "server.log").read_text("utf-8", "replace")
            time.sleep(0.05)
        raise AssertionError(f"ZooKeeper did not listen within {PATIENCE:g} s")

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeper]:
    """Yields a running server; leaves nothing of it behind."""
    server = ZooKeeper(directory)
    server.start()
    try:
        yield server
    finally:
        server.kill()
