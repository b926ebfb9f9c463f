from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.tree import Anchor
from compactor.base.errors import NotFound, NotSupported, UnnamedPlace
from compactor.cli.dump_files import DumpFile, find_files, read_rows
from compactor.orc.codecs.json_values import timestamp
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.storage.local import LocalStorage
from compactor.storage.stores import Stores
from tests.support.expected import FIXTURES, read_expected, step

LOCAL = LocalStorage()


class Remote(LocalStorage):
    """A store with the files ``names``."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def _below(self, path: str) -> list[str]:
        return [name[len(path) + 1 :] for name in self.names if name.startswith(f"{path}/")]

    def resolve(self, location: str, within: str | None = None) -> str:
        return location.rstrip("/")

    def exists(self, path: str) -> bool:
        return path in self.names or bool(self._below(path))

    def anchor(self, path: str) -> Anchor | None:
        return Anchor(volume="remote") if self._below(path) else None

    def listing(self, path: str) -> Listing:
        return Listing(files=tuple(FileStatus(path=name, length=1) for name in self._below(path)))


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_every_data_file_of_a_directory_by_name(tmp_path: Path) -> None:
    """Hidden and side files are skipped, and so is all below a hidden directory, as by Hive's tool."""
    data = ["a", "d/b10", "d/b9", "d/c/x", "d-1/x"]
    make(tmp_path, *data, ".h", "_orc_acid_version", "d/_x", "d/.x", "_d/x", "d/.d/x", "d/b9_flush_length")
    found = list(find_files(LOCAL, str(tmp_path), "/nowhere"))
    wanted = sorted(data, key=lambda name: name.split("/"))
    assert [file.path for file in found] == [f"{tmp_path}/{name}" for name in wanted]
    assert [file.shown for file in found] == [f"{tmp_path}/{name}" for name in wanted]
    assert [file.hive_name for file in found] == [f"file:{tmp_path}/{name}" for name in wanted]


def test_a_file_is_itself_whatever_its_name_is(tmp_path: Path) -> None:
    make(tmp_path, "_hidden")
    path = f"{tmp_path}/_hidden"
    for given, name in (
        (path, path),
        ("_hidden", "_hidden"),
        (".//x/../_hidden", "_hidden"),
        (f"file:{path}", f"file:{path}"),
        (f"file://{path}", f"file:{path}"),
    ):
        make(tmp_path, "x/y")
        assert list(find_files(LOCAL, given, str(tmp_path))) == [DumpFile(path=path, shown=given, hive_name=name)]


def test_a_relative_directory_is_one_of_the_current_directory(tmp_path: Path) -> None:
    make(tmp_path, "t/d/a:b")
    [found] = find_files(LOCAL, "./t//d/", str(tmp_path))
    assert found == DumpFile(path=f"{tmp_path}/t/d/a:b", shown="./t//d/a:b", hive_name=f"file:{tmp_path}/t/d/a:b")
    [found] = find_files(LOCAL, "t/d/a:b", str(tmp_path))
    assert found.path == f"{tmp_path}/t/d/a:b"


@pytest.mark.parametrize("top", ["hdfs://nn:8020/w", "s3a://b/w"])
def test_uris_of_files_and_directories(top: str) -> None:
    store = Remote(f"{top}/t/d/f", f"{top}/t/_h/f")
    file = DumpFile(path=f"{top}/t/d/f", shown=f"{top}/t/d/f", hive_name=f"{top}/t/d/f")
    assert list(find_files(store, f"{top}/t/d/f", "/")) == [file]
    assert list(find_files(store, f"{top}/t", "/")) == [file]
    assert [found.hive_name for found in find_files(store, f"{top}/t/", "/")] == [file.hive_name]


def test_what_is_not_there_or_not_reached_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"x: there is nothing at {tmp_path}/x; expected an ORC file, or a directory"):
        list(find_files(LOCAL, "x", str(tmp_path)))
    with pytest.raises(NotSupported, match="ftp"):
        list(find_files(Stores(), "ftp://h/x", "/"))
    with pytest.raises(UnnamedPlace, match="authorities"):
        list(find_files(Stores(), "hdfs://stranger:8020/x", "/"))


def test_an_empty_directory_has_no_files(tmp_path: Path) -> None:
    assert list(find_files(LOCAL, str(tmp_path), "/")) == []


def data_files(path: Path) -> Sequence[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and p.name.startswith("bucket_0"))


def dumped(path: Path) -> list[dict[str, object]]:
    with LocalSource(path) as source:
        return list(read_rows(source, read_tail(source)))


def test_an_acid_row_has_the_keys_of_orcfiledump() -> None:
    row = dumped(data_files(step("hive-4.1/f1_basic/s1_insert"))[0])[0]
    assert list(row) == ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
    assert isinstance(row["row"], dict)


def test_every_value_of_every_fixture_is_converted() -> None:
    """Rows of every type written by Hive and Trino become JSON, even timestamps beyond 64 bits of nanoseconds."""
    output = 0
    for name in ("hive-2.3", "hive-3.1", "hive-4.1", "trino-476"):
        for file in data_files(FIXTURES / name)[:40]:
            with LocalSource(file) as source:
                tail = read_tail(source)
                found = [json.loads(json.dumps(row, allow_nan=False)) for row in read_rows(source, tail)]
            assert len(found) == tail.rows
            output += len(found)
    assert output > 100


def test_types_are_printed_as_orcfiledump_prints_them() -> None:
    folder = step("hive-4.1/f6_types/s3_major")
    values = [row["row"] for file in data_files(folder) for row in dumped(file) if isinstance(row["row"], dict)]
    cells = [cell for row in values if isinstance(row, dict) for cell in row.values()]
    for wanted in (
        "1969-07-20",
        "1969-07-20 20:17:40.5",
        "9999-12-31 23:59:59.999999999",
        "1234567890123456789012345678.0123456789",
        "-0.00001",
        "-Infinity",
        "NaN",
        list(b"bin"),
        [{"_key": "k", "_value": 1}],
        [None],
    ):
        assert wanted in cells, wanted


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (0, 0, "1970-01-01 00:00:00.0"),
        (-1, 999_999_999, "1969-12-31 23:59:59.999999999"),
        (253402300799, 120_000_000, "9999-12-31 23:59:59.12"),
        (-62135596800, 0, "0001-01-01 00:00:00.0"),
    ],
)
def test_timestamps_as_java_prints_them(seconds: int, nanos: int, text: str) -> None:
    assert timestamp(seconds, nanos) == text


def test_the_dump_contains_the_expected_rows() -> None:
    """The dump of a base written by Hive's major compaction contains exactly the rows of Hive's SELECT."""
    path = step("hive-4.1/q1_query/s4_major")
    shown = read_expected(path).row_ids
    found = set()
    for file in data_files(path):
        for row in dumped(file):
            assert row["operation"] == 0
            found.add((row["originalTransaction"], row["bucket"], row["rowId"]))
    assert found == {(r.write_id, r.bucket, r.row_id) for r, _ in shown}
