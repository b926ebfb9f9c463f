"""Hive's own ``orcfiledump`` beside ``compactor dump --hive``: the same bytes for every file that is kept here."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from compactor.acid.names import parse_file
from compactor.cli.context import CliContext
from compactor.cli.dump import dump
from compactor.cli.orcfiledump.hive_dump import SEPARATOR
from tests.support.downloads import ROOT
from tests.support.expected import FIXTURES
from tests.support.orcfiledump import FILES, GOLDEN, Printed, cases, real
from tests.support.time_zone import time_zone

INDEXES = ("-t", "--column-type", "-r", "*")
SETS = ("hive-2.3", "hive-3.1", "hive-4.1", "trino-476")


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with time_zone("UTC"):
        yield


def ours(*arguments: str) -> Printed:
    done = CliRunner().invoke(dump, ["--hive", *arguments], obj=CliContext())
    return Printed(done.stdout_bytes.decode("utf-8"), done.stderr, done.exit_code)


@pytest.mark.parametrize(("name", "arguments"), cases().items(), ids=cases())
def test_what_is_kept_is_what_hive_prints(name: str, arguments: Sequence[str]) -> None:
    assert real(arguments).output == (GOLDEN / name).read_bytes().decode("utf-8")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("options", [(), INDEXES, ("-d",)], ids=["structure", "indexes", "rows"])
def test_every_fixture(name: str, options: Sequence[str]) -> None:
    files = sorted(str(file) for file in (FIXTURES / name).rglob("*") if file.is_file() and parse_file(file.name))
    assert len(files) > 80
    assert ours(*options, *files) == real([*options, *files])


@pytest.mark.parametrize("options", [(), ("-d",)], ids=["structure", "rows"])
def test_a_directory(options: Sequence[str]) -> None:
    """Partitions with odd names, and hidden files. Java lists local files as they come, ours by name, as in HDFS."""
    folder = str(FIXTURES / "hive-4.1" / "f2_part" / "s1_dml" / "f2_part")
    for given in (folder, f"file://{folder}/"):
        found, wanted = ours(*options, given), real([*options, given])
        assert Counter(found.output.split(f"{SEPARATOR}\n")) == Counter(wanted.output.split(f"{SEPARATOR}\n"))
        assert sorted(found.errors.splitlines()) == sorted(wanted.errors.splitlines())
        assert found.output.count(SEPARATOR) > 5


@pytest.mark.parametrize("options", [(), ("-d",)], ids=["structure", "rows"])
def test_files_of_streaming_writers(options: Sequence[str], tmp_path: Path) -> None:
    """Side files that are right, say less or more than there is, or are cut off."""
    length = (ROOT / FILES[0]).stat().st_size
    for name, lengths, rest, more in (
        ("right", [7, length], b"cut", b""),
        ("more there", [length], b"", b"not flushed"),
        ("cut", [], b"abc", b""),
        ("between", [length - 7], b"", b""),
        ("less there", [length + 7], b"", b""),
        ("nothing", [0], b"", b""),
    ):
        shutil.copy(ROOT / FILES[0], tmp_path / name)
        with (tmp_path / name).open("ab") as out:
            out.write(more)
        (tmp_path / f"{name}_flush_length").write_bytes(struct.pack(f">{len(lengths)}q", *lengths) + rest)
        given = [*options, f"{tmp_path}//./{name}"]
        assert ours(*given) == real(given), name
