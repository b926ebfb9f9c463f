"""ORC's own reader and writer in Java: of each release one JVM."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.judges.jvm import Jvm, leaves, matching_rows
from tests.judges.orc_cpp import PYORC
from tests.judges.predicates import Predicate
from tests.judges.values import Row, to_json
from tests.support.downloads import MAVEN_CACHE, kept_once
from tests.support.java import compiled
from tests.support.maven import maven

_POM, _SOURCE = Path(__file__).with_name("pom.xml"), Path(__file__).with_name("OrcJudge.java")
#: ORC 1.5's codecs use internals of Java, which Java 17 allows only on request.
_OPENED = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    orc: str
    storage_api: str
    protobuf: str
    slf4j: str

    def start(self) -> Jvm:
        """Returns a JVM that starts when it is first asked."""
        return Jvm(f"ORC {self.orc}", lambda: ["java", *_OPENED, "-cp", self.classpath(), "OrcJudge"])

    def classpath(self) -> str:
        """Returns where Java finds the judge; everything in it is downloaded and compiled once."""
        folder = self._made("jars", (_POM,), self._download)
        jars = ":".join(str(jar) for jar in sorted(folder.glob("*.jar")))
        return f"{self._made('classes', (_POM, _SOURCE), lambda folder: self._compile(jars, folder))}:{jars}"

    def _download(self, folder: Path) -> Path:
        goal = ["-f", str(_POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        versions = [f"-Dorc={self.orc}", f"-Dstorage.api={self.storage_api}"]
        versions += [f"-Dprotobuf={self.protobuf}", f"-Dslf4j={self.slf4j}"]
        maven([*goal, *versions, f"-DoutputDirectory={folder / 'jars'}"], folder)
        return folder / "jars"

    def _compile(self, jars: str, folder: Path) -> Path:
        compiled([_SOURCE], folder / "classes", "-cp", jars)
        return folder / "classes"

    def _made(self, name: str, sources: Iterable[Path], make: Any) -> Path:
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
        return kept_once(MAVEN_CACHE, f"orc-{self.orc}-{name}-{digest}", make)


_RELEASES = (
    _Release(orc="1.5.13", storage_api="2.7.1", protobuf="2.5.0", slf4j="1.7.36"),
    _Release(orc="2.3.1", storage_api="2.8.1", protobuf="3.25.8", slf4j="2.0.17"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaJudge:
    """A release of ORC Java, as an engine uses it in a JVM with this zone."""

    name: str
    _jvm: Jvm
    zone: str = "UTC"
    utc: bool = True  #: as Hive does since 3.1; otherwise timestamps are those of ``zone``, as in Spark and Hive 2

    def in_zone(self, zone: str, *, utc: bool = False) -> JavaJudge:
        """Returns the same judge in a JVM of another zone."""
        return replace(self, name=f"{self.name} in {zone}{' with UTC' if utc else ''}", zone=zone, utc=utc)

    def schema(self, path: Path) -> str:
        """Returns the schema of a file."""
        return str(self._ask(path, predicates=None)["schema"])

    def rows(self, path: Path) -> list[Row]:
        """Returns all rows of a file in their order."""
        return self.answers(path, [None])[0]

    def rows_matching(self, path: Path, predicate: Predicate) -> list[Row]:
        """Returns the rows that match and that the reader finds when the predicate is pushed down."""
        return self.answers(path, [predicate])[0]

    def answers(self, path: Path, predicates: Sequence[Predicate | None]) -> list[list[Row]]:
        """Returns the rows for each predicate; for None all of them.

        Raises:
            Unreadable: ORC cannot read the file.
        """
        schema = PYORC.schema(path) if any(predicates) else ""  # which is read sooner
        answer = self._ask(path, predicates=leaves(predicates, schema))
        return matching_rows(answer, answer["schema"], predicates)

    def write(
        self,
        path: Path,
        schema: str,
        rows: Iterable[Row],
        *,
        compress: str = "ZLIB",
        stripe_size: int = 64 << 20,
        stripe_rows: int = 0,
        row_index_stride: int = 10_000,
        bloom_filter_columns: Sequence[str] = (),
        proleptic: bool = False,
        metadata: Mapping[str, bytes] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Writes a file.

        Args:
            stripe_rows: after how many rows a stripe ends, whatever its size; 0 leaves that to ORC.
            row_index_stride: rows of a row group, at least 1,000.
            bloom_filter_columns: names of columns, of an ACID file those of the inner row; ``*`` for all.
            proleptic: whether the file's calendar is the proleptic Gregorian one, as Hive 4 and Spark 3 write it.
            settings: further settings of ORC, such as ``orc.write.format`` or ``orc.dictionary.key.threshold``.

        Raises:
            Unreadable: ORC cannot write this.
        """
        values = to_json(schema)
        self._ask(
            path,
            schema=schema,
            rows=[values(row) for row in rows],
            stripe_rows=stripe_rows,
            proleptic=proleptic,
            metadata={name: value.decode("latin-1") for name, value in (metadata or {}).items()},
            settings={
                "orc.compress": compress,
                "orc.stripe.size": str(stripe_size),
                "orc.row.index.stride": str(row_index_stride),
                "orc.bloom.filter.columns": ",".join(bloom_filter_columns),
                **(settings or {}),
            },
        )

    def _ask(self, path: Path, **request: Any) -> dict[str, Any]:
        return self._jvm.ask({"path": str(path), "zone": self.zone, "utc": self.utc, **request})


def jars() -> None:
    """Downloads and compiles what the judges need, unless that has been done."""
    for release in _RELEASES:
        release.classpath()


@cache
def orc_1_5() -> JavaJudge:
    """Returns ORC Java 1.5.13, which Hive 3.1 and Spark 2.4 to 3.1 use."""
    return JavaJudge(name="ORC Java 1.5.13", _jvm=_RELEASES[0].start())


@cache
def orc_2_3() -> JavaJudge:
    """Returns ORC Java 2.3.1, which Hive 4 and Spark 4 use in this or a near version."""
    return JavaJudge(name="ORC Java 2.3.1", _jvm=_RELEASES[1].start())
