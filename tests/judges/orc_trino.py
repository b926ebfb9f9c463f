"""Trino's reader of ORC, without a server."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.judges.jvm import Jvm, judge_classpath, leaves, matching_rows
from tests.judges.orc_cpp import PYORC
from tests.judges.predicates import Predicate
from tests.judges.values import Row
from tests.support import trino

_POM, _SOURCE = (Path(__file__).parent / "trino" / name for name in ("pom.xml", "TrinoJudge.java"))
_COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrinoJudge:
    """A release of Trino, whose Hive connector has bloom filters on and timestamps of nanoseconds."""

    name: str
    _jvm: Jvm

    def schema(self, path: Path) -> str:
        """Returns the schema of a file, as pyorc prints it: Trino has types of its own."""
        return PYORC.schema(path)

    def rows(self, path: Path) -> list[Row]:
        """Returns all rows of a file in their order."""
        return self.answers(path, [None])[0]

    def rows_matching(self, path: Path, predicate: Predicate) -> list[Row]:
        """Returns the rows that match and that the reader finds when the predicate is pushed down."""
        return self.answers(path, [predicate])[0]

    def answers(self, path: Path, predicates: Sequence[Predicate | None]) -> list[list[Row]]:
        """Returns the rows for each predicate; for None all of them.

        Raises:
            Unreadable: Trino cannot read the file.
        """
        schema = self.schema(path)
        answer = self._jvm.ask({"path": str(path), "predicates": leaves(predicates, schema)})
        return matching_rows(answer, schema, predicates)


def classpath() -> str:
    """Returns where Java finds the judge."""
    return judge_classpath("trino-orc", _POM, _SOURCE, _compile)


def _compile(classes: Path, jars: str) -> None:
    # the machine's own compiler may be too old for the classes of Trino
    options = ["-source", "21", "-target", "21", "-nowarn", "-proc:none", "-cp", jars]
    command = [str(trino.java()), "-cp", jars, _COMPILER, *options, "-d", str(classes), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def trino_476() -> TrinoJudge:
    """Returns the reader of Trino 476."""
    return TrinoJudge(
        name="Trino 476", _jvm=Jvm("Trino 476", lambda: [str(trino.java()), "-cp", classpath(), "TrinoJudge"])
    )
