"""JVMs of judges, each of which lives as long as the tests run.

A request and its answer are a JSON object a line. A value is JSON's own, but for: floats (Java's hexadecimal text), strings
and binaries (a text whose characters are the bytes), decimals, dates and timestamps (texts), nested values (arrays).
"""

from __future__ import annotations

import atexit
import hashlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.judges.predicates import Predicate
from tests.judges.values import Row, Unreadable, from_json, row_type, to_json
from tests.support.downloads import MAVEN_CACHE, kept_once, made_once
from tests.support.maven import maven

_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


def judge_classpath(name: str, pom: Path, source: Path, compile_into: Callable[[Path, str], None]) -> str:
    """Returns where Java finds a judge; everything in it is downloaded and compiled once.

    Args:
        pom: its dependencies.
        source: its only class, which ``compile_into`` compiles into a folder, with the jars of the dependencies.
    """

    def download(folder: Path) -> Path:
        goal = ["-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        maven([*goal, f"-DoutputDirectory={folder / 'jars'}"], folder)
        return folder / "jars"

    def compile_judge(folder: Path) -> Path:
        compile_into(folder / "classes", jars)
        return folder / "classes"

    jars = ":".join(str(jar) for jar in sorted(made_once(MAVEN_CACHE, f"{name}-jars", pom, download).glob("*.jar")))
    digest = hashlib.sha256(pom.read_bytes() + source.read_bytes()).hexdigest()[:12]
    return f"{kept_once(MAVEN_CACHE, f'{name}-classes-{digest}', compile_judge)}:{jars}"


class Jvm:
    """A JVM that answers one request after the other. It starts when it is first asked and ends when its standard input
    does, and so with us.

    Args:
        name: which program it runs, for errors.
        command: makes the command line; Java's path comes first.
    """

    def __init__(self, name: str, command: Callable[[], Sequence[str]]) -> None:
        self._name = name
        self._command = command
        self._guard = threading.Lock()
        self._end = ExitStack()
        self._errors = self._end.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request.

        Raises:
            Unreadable: the program's own error.
        """
        with self._guard:
            process = self._process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"{self._name} has ended: {self._errors.read()[-3000:].decode()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Unreadable(f"{self._name}: {answer['error'][:3000]}")
        return answer

    def _start(self) -> subprocess.Popen[str]:
        java, *options = self._command()
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        # leaving it closes its standard input, and waits
        process = self._end.enter_context(
            subprocess.Popen([java, *_OPTIONS, *options], text=True, encoding="utf-8", **pipes)
        )
        atexit.register(self._end.close)
        return process


def leaves(predicates: Sequence[Predicate | None], schema: str) -> list[dict[str, Any]]:
    """Returns the predicates on a file with this schema as a request has them."""
    return [_leaf(predicate, schema) for predicate in predicates if predicate]


def _leaf(predicate: Predicate, schema: str) -> dict[str, Any]:
    kind = row_type(schema)
    for part in predicate.column.split("."):
        kind = kind.fields[part]
    column = to_json(f"struct<value:{kind}>")
    return {
        "column": predicate.column,
        "operator": predicate.operator,
        "values": [column((value,))[0] for value in predicate.values],
        "negated": predicate.negated,
    }


def matching_rows(answer: Mapping[str, Any], schema: str, predicates: Sequence[Predicate | None]) -> list[list[Row]]:
    """Returns the rows of an answer that match each predicate; for None all of them.

    An answer has all rows, and for each predicate the numbers of the rows that the reader returned. It has a row itself
    if it is not among all rows: the reader decoded it wrongly.
    """
    read = from_json(schema)
    rows = list(map(read, answer["rows"]))
    answers = iter(answer["answers"])
    return [
        [
            row
            for number in next(answers)
            for row in [rows[number] if isinstance(number, int) else read(number)]
            if predicate.matches(row, schema)
        ]
        if predicate
        else rows
        for predicate in predicates
    ]
