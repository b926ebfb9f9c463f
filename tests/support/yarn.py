"""A real YARN on loopback: a ResourceManager with CapacityScheduler and a NodeManager, from Hadoop's own jars."""

from __future__ import annotations

import getpass
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.support.daemons import Daemon
from tests.support.hadoop import java_command, write_site, yarn_jars
from tests.support.patience import until
from tests.support.ports import free_port

USER = getpass.getuser()
MEMORY_MB, CORES = 8192, 8  #: of the node, by its own word: it measures nothing
#: Each queue with what it takes; the capacity in percent is what it is guaranteed.
QUEUES: Mapping[str, Mapping[str, str]] = {
    "default": {"capacity": "40", "disable_preemption": "true"},
    "etl": {"capacity": "20"},
    "night": {"capacity": "20"},
    "full": {"capacity": "10", "maximum-applications": "1"},
    "closed": {"capacity": "10", "acl_submit_applications": "somebody_else"},
}
NODE_EXPIRES_S = 20  #: without a heartbeat of its NodeManager
_SERVER = "org.apache.hadoop.yarn.server"
_ENDED = ("FINISHED", "FAILED", "KILLED")


@dataclass(slots=True, kw_only=True)
class Yarn:
    """A running cluster. ``configuration`` is the folder of core-site.xml and yarn-site.xml for its clients."""

    folder: Path
    url: str
    configuration: Path
    manager: Daemon
    node: Daemon | None = None
    nodes: int = 0
    site: dict[str, str] = field(default_factory=dict)
    java: Sequence[str] = ()  #: further options of the daemons' Java

    @property
    def page(self) -> str:
        """The address of the ResourceManager's pages as its applications hear of it."""
        return self.url.replace("127.0.0.1", "localhost")

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Returns what the ResourceManager's REST interface answers, as ``USER``."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/ws/v1/cluster/{path}", data, {"Content-Type": "application/json"}, method=method)
        request.full_url += ("&" if "?" in path else "?") + f"user.name={USER}"
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def applications(self, *, tag: str = "", states: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Returns the applications that the ResourceManager lists, oldest first."""
        found = (self.ask(f"apps?applicationTags={tag}&states={','.join(states)}")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda one: int(one["startedTime"]))

    def application(self, number: str) -> dict[str, Any]:
        return dict(self.ask(f"apps/{number}")["app"])

    def kill(self, number: str) -> None:
        """Ends an application as ``yarn application -kill`` does, and waits until it has ended."""
        self.ask(f"apps/{number}/state", "PUT", {"state": "KILLED"})
        self.until_ended(number)

    def until_ended(self, number: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            found = self.application(number)
            return found if found["state"] in _ENDED else None

        return until(f"the end of {number}", ended, pause=0.2)

    def until_running(self, *, tag: str = "", after: int = 0) -> dict[str, Any]:
        """Returns the newest application once it runs, and more than ``after`` have been submitted."""

        def runs() -> dict[str, Any] | None:
            found = self.applications(tag=tag)
            return found[-1] if len(found) > after and found[-1]["state"] == "RUNNING" else None

        return until("a running application", runs, pause=0.2)

    def processes(self, number: str, main: str) -> list[int]:
        """Returns the JVMs of the application that run the class ``main``; not the shells that started them."""
        mark = f"container_{number.removeprefix('application_')}"
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if line[0].endswith("/java") and any(main in word for word in line) and any(mark in w for w in line):
                    found.append(int(process.name))
        return found

    def log_of(self, number: str, name: str = "stderr") -> str:
        """Returns what the application's masters wrote, attempt after attempt."""
        logs = sorted(self.folder.glob(f"node*/logs/{number}/container_*_000001/{name}"))
        return "".join(log.read_text("utf-8", errors="replace") for log in logs)

    def start_node(self) -> None:
        """Starts a NodeManager, each at a place of its own: the ports of a killed one may still be taken."""
        self.nodes += 1
        folder = self.folder / f"node{self.nodes}"
        addresses = ("address", "localizer.address", "webapp.address", "collector-service.address")
        values = {
            **self.site,
            **{f"yarn.nodemanager.{name}": f"127.0.0.1:{free_port()}" for name in addresses},
            "yarn.nodemanager.local-dirs": str(folder / "local"),
            "yarn.nodemanager.log-dirs": str(folder / "logs"),
        }
        folder.mkdir()
        write_site(folder / "yarn-site.xml", values)
        (folder / "core-site.xml").write_bytes((self.configuration / "core-site.xml").read_bytes())
        self.node = _daemon("node", folder, f"{_SERVER}.nodemanager.NodeManager", self.java)
        self.node.start()
        self.node.until(lambda: self._active() == 1)

    def lose_node(self, *, with_containers: bool) -> None:
        """Kills the NodeManager, and its containers as on a machine without power; else they live on."""
        assert self.node is not None
        self.node.end()
        self.node = None
        if with_containers:
            _end_containers(self.folder)

    def _active(self) -> int:
        try:
            return int(self.ask("metrics")["clusterMetrics"]["activeNodes"])
        except (URLError, OSError):
            return -1

    def end(self) -> None:
        """Ends applications first: their containers outlive a NodeManager that is killed."""
        try:
            with suppress(OSError, AssertionError):
                for one in self.applications(states=("NEW", "SUBMITTED", "ACCEPTED", "RUNNING")):
                    self.kill(one["id"])
        finally:
            for daemon in (self.node, self.manager):
                if daemon is not None:
                    daemon.end()
            _end_containers(self.folder)


def _daemon(name: str, folder: Path, main: str, java: Sequence[str]) -> Daemon:
    options = [*java, "-Djava.net.preferIPv4Stack=true", f"-Dhadoop.log.dir={folder}", f"-Dyarn.log.dir={folder}"]
    return Daemon(
        name=name,
        folder=folder,
        command=[*java_command(*options), "-cp", f"{folder}:{yarn_jars()}/*", main],
        environment={"HADOOP_CONF_DIR": str(folder), "YARN_CONF_DIR": str(folder), "HADOOP_HOME": str(folder)},
    )


def _end_containers(folder: Path) -> None:
    """Kills what containers of ``folder`` left: they are sessions of their own, which nobody else ends."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (process / "environ").read_bytes().decode(errors="replace")
            if "CONTAINER_ID=" in environment and f"{folder}/node" in environment:
                os.kill(int(process.name), signal.SIGKILL)


def _scheduler() -> dict[str, str]:
    """The capacity scheduler: whatever no queue allows by name is denied, since ACLs are inherited from the root."""
    root = "yarn.scheduler.capacity.root"
    values = {
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
        "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{root}.queues": ",".join(QUEUES),
        f"{root}.acl_submit_applications": " ",
        f"{root}.acl_administer_queue": " ",
    }
    for queue, own in QUEUES.items():
        usual = {"maximum-capacity": "100", "user-limit-factor": "10", "acl_submit_applications": "*"}
        values |= {f"{root}.{queue}.{key}": value for key, value in {**usual, **own}.items()}
    return values


def _site() -> dict[str, str]:
    manager = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
    names = {f"yarn.{part}.{key}": "127.0.0.1" for part in ("resourcemanager", "nodemanager") for key in _HOSTS}
    return {
        **names,
        **{f"yarn.resourcemanager.{name}": f"127.0.0.1:{free_port()}" for name in manager},
        "yarn.resourcemanager.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.capacity.CapacityScheduler",
        "yarn.resourcemanager.scheduler.monitor.enable": "true",  # preemption
        "yarn.resourcemanager.monitor.capacity.preemption.monitoring_interval": "1000",
        "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill": "2000",
        "yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round": "1.0",
        "yarn.resourcemanager.monitor.capacity.preemption.natural_termination_factor": "1.0",
        "yarn.nm.liveness-monitor.expiry-interval-ms": f"{NODE_EXPIRES_S * 1000}",
        "yarn.acl.enable": "true",
        "yarn.admin.acl": " ",
        "yarn.log-aggregation-enable": "false",
        "yarn.nodemanager.delete.debug-delay-sec": "3600",  # logs stay until the tests end
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
        "yarn.nodemanager.resource.cpu-vcores": str(CORES),
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.container-executor.class": f"{_SERVER}.nodemanager.DefaultContainerExecutor",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
    }


_HOSTS = ("hostname", "bind-host")


@contextmanager
def yarn(
    folder: Path,
    default_fs: str = "file:///",
    further: Mapping[str, str] | None = None,
    java: Sequence[str] = (),
    kind: type[Yarn] = Yarn,
) -> Iterator[Yarn]:
    """Yields a cluster that keeps everything in ``folder``; ends every process of it, containers included.

    Args:
        further: configuration of the daemons and their clients, which has precedence.
        java: options of the daemons' Java.
        kind: how the ResourceManager is asked.
    """
    site = {**_site(), **(further or {})}
    core = {
        "fs.defaultFS": default_fs,
        "hadoop.tmp.dir": str(folder / "tmp"),
        f"hadoop.proxyuser.{USER}.hosts": "*",
        f"hadoop.proxyuser.{USER}.groups": "*",
        **(further or {}),
    }
    write_site(folder / "core-site.xml", core)
    write_site(folder / "yarn-site.xml", site)
    write_site(folder / "capacity-scheduler.xml", _scheduler())
    manager = _daemon("manager", folder, f"{_SERVER}.resourcemanager.ResourceManager", java)
    url = f"http://{site['yarn.resourcemanager.webapp.address']}"
    found = kind(folder=folder, url=url, configuration=folder, manager=manager, site=site, java=java)
    answers: Callable[[], bool] = lambda: found._active() >= 0  # noqa: E731
    manager.start()
    try:
        manager.until(answers)
        found.start_node()
        yield found
    finally:
        found.end()
