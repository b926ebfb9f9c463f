"""An Ozone with its S3 gateway in one JVM, from the jars of Maven Central."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support.daemons import Daemon, answers
from tests.support.downloads import ROOT, kept_once, made_once
from tests.support.java import compiled
from tests.support.maven import maven
from tests.support.ports import free_port

OZONE = "2.2.0"
_SOURCE = ROOT / "tests" / "storage" / "ozone" / "RunOzone.java"
_CACHE = ROOT / "build" / "cache" / "ozone"
_HADOOP = "3.4.3"  #: as in Ozone's own parent
#: Parents of Ozone's modules that bring Hadoop's jars. They are not on Maven Central with the others.
_PARENTS = ("hdds-hadoop-dependency-client", "hdds-hadoop-dependency-server")
_PROJECT = '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>{}</project>'
_MODULE = "<groupId>org.apache.ozone</groupId><artifactId>{}</artifactId><version>{}</version>"
_OF_HADOOP = (
    "<dependency><groupId>org.apache.hadoop</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


@contextmanager
def ozone(folder: Path) -> Iterator[str]:
    """Yields the address of the S3 gateway of an Ozone with one data node."""
    port = free_port()
    jvm = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    server = Daemon(
        name="ozone",
        folder=folder,
        command=[*jvm, f"-Djava.io.tmpdir={folder}", "-cp", _classpath(), "RunOzone", str(port)],
    )
    url = f"http://127.0.0.1:{port}"
    with server.running(partial(answers, url)):
        yield url


def _classpath() -> str:
    jars = ozone_jars()
    classes = made_once(_CACHE, "classes", _SOURCE, lambda folder: _compile(jars, folder))
    return f"{classes}:{jars}/*"


def ozone_jars() -> Path:
    """Returns the jars of Ozone's servers and their dependencies."""

    def download(folder: Path) -> Path:
        for parent in _PARENTS:
            _write_parent(folder / "repository", parent)
        (folder / "pom.xml").write_text(_PROJECT.format(_list_servers(folder / "repository")), "utf-8")
        jars = folder / "jars"
        maven(["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"], folder)
        return jars

    return kept_once(_CACHE, f"jars-{OZONE}", download)


def _compile(jars: Path, folder: Path) -> Path:
    classes = folder / "classes"
    compiled([_SOURCE], classes, "-cp", ":".join(map(str, jars.glob("*.jar"))))
    return classes


def _write_parent(repository: Path, name: str) -> None:
    place = repository / "org/apache/ozone" / name / OZONE
    place.mkdir(parents=True)
    libraries = "".join(_OF_HADOOP.format(library, _HADOOP) for library in ("hadoop-common", "hadoop-hdfs"))
    content = (
        f"<parent>{_MODULE.format('hdds', OZONE)}</parent><artifactId>{name}</artifactId><packaging>pom</packaging>"
        f"<dependencies>{libraries}{_OF_HADOOP.format('hadoop-hdfs-client', _HADOOP)}</dependencies>"
    )
    (place / f"{name}-{OZONE}.pom").write_text(_PROJECT.format(content), "utf-8")


def _list_servers(repository: Path) -> str:
    versions = f"<dependency>{_MODULE.format('ozone-main', OZONE)}<type>pom</type><scope>import</scope></dependency>"
    servers = "".join(
        f"<dependency>{_MODULE.format(name, OZONE)}</dependency>" for name in ("ozone-mini-cluster", "ozone-s3gateway")
    )
    return (
        "<groupId>tests</groupId><artifactId>ozone</artifactId><version>1</version><packaging>pom</packaging>"
        f"<repositories><repository><id>parents</id><url>{repository.as_uri()}</url></repository></repositories>"
        f"<dependencyManagement><dependencies>{versions}</dependencies></dependencyManagement>"
        f"<dependencies>{servers}</dependencies>"
    )
