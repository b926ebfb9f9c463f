"""Files and readers shared by the tests of the ORC modules; the readers are other projects', never our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from pyorc.converters import ORCConverter

from compactor.acid.names import parse_file
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource

FIXTURES = Path("tests/fixtures")


def fixture_files(*sets: str) -> list[Path]:
    """Returns every data file of the fixture sets, sorted."""
    return [
        path
        for name in sets or ("hive-2.3", "hive-3.1", "hive-4.1", "trino-476")
        for path in sorted((FIXTURES / name).rglob("*"))
        if path.is_file() and parse_file(path.name) is not None
    ]


class _Raw(ORCConverter):
    @staticmethod
    def from_orc(*args: Any) -> Any:
        return args[:2]

    @staticmethod
    def to_orc(*args: Any) -> Any:
        return args[0]


def _raw_values(path: Path) -> list[tuple[Any, ...]]:
    kinds = (
        pyorc.TypeKind.TIMESTAMP,
        pyorc.TypeKind.TIMESTAMP_INSTANT,
        pyorc.TypeKind.DATE,
        pyorc.TypeKind.DECIMAL,
    )
    with open(path, "rb") as file:
        return list(pyorc.Reader(file, converters=dict.fromkeys(kinds, _Raw)))


@pytest.fixture
def raw_rows() -> Callable[[Path], str]:
    """All rows of a file as text, with timestamps, dates and decimals as their raw numbers (NaN equals NaN)."""
    return lambda path: repr(_raw_values(path))


@pytest.fixture
def raw_values() -> Callable[[Path], list[tuple[Any, ...]]]:
    """All rows of a file, with timestamps, dates and decimals as their raw numbers."""
    return _raw_values


@pytest.fixture
def opened() -> Iterator[Callable[[Path], tuple[LocalSource, Tail]]]:
    """Opens a file and reads its tail; it is closed after the test."""
    sources: list[LocalSource] = []

    def open_one(path: Path) -> tuple[LocalSource, Tail]:
        sources.append(LocalSource(path))
        return sources[-1], read_tail(sources[-1])

    yield open_one
    for source in sources:
        source.close()


def acid_table(write_id: int, rows: int, *, first: int = 0) -> pa.Table:
    """Returns ACID insert events with a bigint and a string column."""
    ids = range(first, first + rows)
    row = pa.StructArray.from_arrays(
        [pa.array(ids, pa.int64()), pa.array([f"name {i * i * 2654435761 % 1000003}" for i in ids])],
        names=["id", "name"],
    )
    return pa.table(
        {
            "operation": pa.array([0] * rows, pa.int32()),
            "originalTransaction": pa.array([write_id] * rows, pa.int64()),
            "bucket": pa.array([536870912] * rows, pa.int32()),
            "rowId": pa.array(ids, pa.int64()),
            "currentTransaction": pa.array([write_id] * rows, pa.int64()),
            "row": row,
        }
    )


@pytest.fixture
def write_acid(tmp_path: Path) -> Callable[..., Path]:
    """Writes insert events of one write ID with Arrow's own writer."""

    def write(write_id: int, rows: int, *, first: int = 0, **options: Any) -> Path:
        path = tmp_path / f"bucket_{write_id}_{first}_{len(list(tmp_path.iterdir()))}"
        options = {"compression": "zlib", "stripe_size": 64 * 1024, **options}
        with po.ORCWriter(str(path), **options) as writer:
            for batch in acid_table(write_id, rows, first=first).to_batches(max_chunksize=1000):
                writer.write(pa.Table.from_batches([batch]))
        return path

    return write


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes ``real_files``: each fixture's data files, once if steps share their bytes."""
    if "real_files" in metafunc.fixturenames:
        files = {path.read_bytes(): path for path in reversed(fixture_files())}.values()
        fixtures: dict[str, list[Path]] = {}
        for path in sorted(files):
            fixtures.setdefault("/".join(path.relative_to(FIXTURES).parts[:2]), []).append(path)
        metafunc.parametrize("real_files", fixtures.values(), ids=fixtures)
