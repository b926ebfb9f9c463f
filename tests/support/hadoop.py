"""Hadoop's daemons: their jars, which Maven downloads once, their options of Java and their files of configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.downloads import MAVEN_CACHE, kept_once
from tests.support.maven import maven

HADOOP = "3.4.1"
_JAVA = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.lang=ALL-UNNAMED")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>hadoop</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_DEPENDENCY = (
    "<dependency><groupId>org.apache.hadoop</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def java_command(*options: str) -> list[str]:
    """Returns the beginning of a command that runs a daemon of Hadoop in little memory."""
    return ["java", *_JAVA, *options]


def hadoop_jars() -> Path:
    """Returns the jars of HDFS' daemons and their dependencies."""
    return _jars("httpfs", ("hadoop-hdfs", "hadoop-hdfs-client", "hadoop-common", "hadoop-hdfs-httpfs"))


def yarn_jars() -> Path:
    """Returns the jars of YARN's daemons and their dependencies, with what they need to read and write HDFS. The
    ResourceManager ends without the timeline service's classes, even if that is not configured."""
    yarn = ("resourcemanager", "nodemanager", "timelineservice")
    return _jars("yarn", (*(f"hadoop-yarn-server-{name}" for name in yarn), "hadoop-common", "hadoop-hdfs-client"))


def _jars(name: str, artifacts: Iterable[str]) -> Path:
    def download(folder: Path) -> Path:
        pom = _POM.format("".join(_DEPENDENCY.format(artifact, HADOOP) for artifact in artifacts))
        (folder / "pom.xml").write_text(pom, "utf-8")
        jars = folder / "jars"
        maven(["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"], folder)
        return jars

    return kept_once(MAVEN_CACHE, f"hadoop-{HADOOP}-{name}", download)


def write_site(path: Path, values: Mapping[str, str]) -> None:
    """Writes a file of configuration such as yarn-site.xml."""
    entries = "".join(f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in values.items())
    path.write_text(f"<configuration>{entries}</configuration>", "utf-8")
