"""Bytes of another process, a file or a socket are data, and never code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Modules whose readers may run what they read
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve"}
CALLS = {"eval", "exec", "compile", "__import__"}
#: Keywords with which a library unpickles, and SQLAlchemy's type that does
NAMES = {"allow_pickle", "PickleType", "read_pickle", "to_pickle", "register_extension_type"}
_WORDS = MODULES | CALLS | NAMES | {"multiprocessing.connection"}


def _read_as_code(text: str) -> Iterator[str]:
    if not any(word in text for word in _WORDS):  # most modules, of which no tree is needed
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.partition(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield name
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=name) if name in NAMES:
                yield str(name)
            # what multiprocessing's own connections receive is unpickled
            case ast.ImportFrom(module="multiprocessing.connection", names=names):
                yield from (name.name for name in names if name.name in {"Client", "Connection", "Listener"})


def test_no_module_reads_values_that_may_be_code() -> None:
    paths = [path for folder in ("compactor", "dags", "plugins") for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    read = {str(path.relative_to(ROOT)): list(_read_as_code(path.read_text("utf-8"))) for path in paths}
    assert {path: names for path, names in read.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import cloudpickle.cloudpickle",
        "eval(text)",
        "np.load(path, allow_pickle=True)",
        "Column(PickleType)",
        "from multiprocessing.connection import Connection",
    ],
)
def test_it_would_be_noticed(text: str) -> None:
    assert list(_read_as_code(text)) != []
