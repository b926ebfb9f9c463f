"""A server of Spark Connect on this machine, in a process of its own, as a site's is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemons import Daemon
from tests.support.ports import answers, free_port
from tests.support.spark_sessions import CONF, ROOT

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Yields the address of a server, as ``SparkSession.builder.remote`` takes it; its log is in ``folder``."""
    port = free_port()
    conf = {
        **CONF,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "spark"),
    }
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    server = Daemon(
        name="connect",
        folder=folder,
        command=["spark-submit", "--master", "local[2]", "--class", _SERVER, *options, "spark-internal"],
        environment={"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
    )
    with server.running(lambda: answers(port)):
        yield f"sc://127.0.0.1:{port}"
