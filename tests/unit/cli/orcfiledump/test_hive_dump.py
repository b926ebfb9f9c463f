from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyorc
import pytest
from click.testing import CliRunner, Result

from compactor.base.errors import NotLossless
from compactor.cli.context import FAILED, CliContext
from compactor.cli.dump import dump
from compactor.cli.orcfiledump import hive_dump
from compactor.cli.orcfiledump.hive_dump import SEPARATOR, json_lines
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource
from tests.support.downloads import ROOT
from tests.support.orcfiledump import FILES, GOLDEN, cases
from tests.support.time_zone import time_zone

MORE = "Data file has more data than max footer offset:{}. Adding data file to recovery list.\n"
CORRUPT = "1 file(s) are corrupted. Run the following command to recover corrupted files.\n\n"
RECOVER = "hive --orcfiledump --recover --skip-dump {}\n"


@pytest.fixture
def utc() -> Iterator[None]:
    with time_zone("UTC"):
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(shutil.copy(ROOT / FILES[0], tmp_path / "bucket_00000"))


def dumped(*arguments: str | Path) -> Result:
    return CliRunner().invoke(dump, ["--hive", *map(str, arguments)], obj=CliContext())


def side_file(file: Path, *lengths: int, rest: bytes = b"") -> None:
    file.with_name(f"{file.name}_flush_length").write_bytes(struct.pack(f">{len(lengths)}q", *lengths) + rest)


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(("name", "arguments"), cases().items(), ids=cases())
def test_the_output_is_byte_for_byte_that_of_hive(
    name: str, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output of Hive's own tool for the same files is in tests/golden; tests/live asks it again."""
    monkeypatch.chdir(ROOT)
    done = dumped(*arguments)
    assert done.stdout_bytes == (GOLDEN / name).read_bytes()
    assert done.exit_code == 0
    read = [line.split()[3] for line in done.stderr.splitlines() if line.startswith("Processing data file ")]
    assert read == [argument for argument in arguments if argument.startswith("tests/")]


@pytest.mark.usefixtures("utc")
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_printed(file: Path) -> None:
    file.with_name("a").write_bytes(b"no ORC")
    for options in ([], ["-d"]):
        done = dumped(*options, file.parent)
        assert done.exit_code == FAILED
        assert f"compactor: file {file.parent}/a: " in done.stderr
        assert done.stdout.count(SEPARATOR) == 1


@pytest.mark.usefixtures("utc")
def test_unions_are_described_and_their_rows_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unions = GOLDEN / "samples" / "unions.orc"
    assert dumped(unions).exit_code == 0
    done = dumped("-d", unions)
    assert (done.exit_code, done.stdout) == (FAILED, "")
    assert "uniontype<int,string>" in done.stderr


@pytest.mark.usefixtures("utc")
def test_a_streaming_file_ends_where_its_side_file_says(file: Path) -> None:
    whole, length = dumped("-d", file).stdout, file.stat().st_size
    side_file(file, 7, length, rest=b"cut")
    done = dumped("-d", file)
    side = f"{file}_flush_length [length: 19, maxFooterOffset: {length}]"
    assert (done.stdout, done.exit_code) == (whole, 0)
    assert done.stderr == f"Processing data file {file} [length: {length}]\nFound flush length file {side}\n"

    with file.open("ab") as out:
        out.write(b"not flushed")
    done = dumped("-d", file)
    assert done.stdout == whole
    assert done.stderr.endswith(MORE.format(length))
    done = dumped(file)
    assert done.stdout.endswith(f"{SEPARATOR}\n{SEPARATOR}\n")
    assert done.stderr.endswith(MORE.format(length) + CORRUPT + RECOVER.format(file))


@pytest.mark.usefixtures("utc")
def test_a_streaming_file_of_which_nothing_is_readable(file: Path) -> None:
    side_file(file, rest=b"cut")
    assert dumped("-d", file).stdout == ""
    done = dumped(file)
    assert done.stdout == f"{SEPARATOR}\n{SEPARATOR}\n"
    assert MORE.format(-1) in done.stderr

    side_file(file, file.stat().st_size - 1)
    done = dumped(file)
    assert done.stdout == f"{SEPARATOR}\n{SEPARATOR}\n"
    assert "Unable to read data from max footer offset. Adding data file to recovery list.\n" in done.stderr

    side_file(file, 0)
    assert "Rows: 0\n" in dumped(file).stdout
    assert dumped("-d", file).stdout == f"{SEPARATOR}\n"


@pytest.mark.usefixtures("utc")
def test_a_file_to_recover_is_named_as_a_uri(file: Path) -> None:
    odd = file.rename(file.with_name("é 1%"))
    side_file(odd, rest=b"cut")
    assert dumped(odd).stderr.endswith(RECOVER.format(f"{odd.parent}/é%201%25"))


@pytest.mark.usefixtures("utc")
def test_texts_control_no_terminal_and_are_untouched_elsewhere(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{character}[31m" for character in ("\x1b", "\x9b", "\x7f")]
    monkeypatch.setattr(hive_dump, "structure", lambda *_: iter(lines))
    assert dumped(file).stdout.splitlines()[:3] == lines
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(hive_dump, "sys", terminal)
    assert dumped(file).stdout.splitlines()[:3] == ["\ufffd[31m"] * 3


@pytest.mark.usefixtures("utc")
def test_output_is_utf_8_whatever_the_locale(file: Path) -> None:
    texts = GOLDEN / "samples" / "texts.orc"
    program = "import sys; from compactor.cli import main; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1:strict"}
    for options in ([], ["-d"]):
        command = [sys.executable, "-c", program, "dump", "--hive", *options, str(texts)]
        done = subprocess.run(command, capture_output=True, check=True, env=environment, cwd=ROOT)
        assert done.stdout == dumped(*options, texts).stdout_bytes


@pytest.mark.usefixtures("utc")
def test_a_file_with_a_name_that_is_no_text(file: Path) -> None:
    odd = file.rename(os.fsdecode(os.fsencode(file) + b"\xff"))
    done = dumped(odd)
    assert done.exit_code == 0
    assert done.stdout_bytes.startswith(b"Structure for " + os.fsencode(odd) + b"\n")
    several = CliRunner().invoke(dump, [str(odd), str(odd)], obj=CliContext())
    assert several.exit_code == 0
    assert several.stdout.startswith(f"==> {file}\ufffd <==\n")


def lines(schema: str, *rows: Any) -> list[str]:
    file = io.BytesIO()
    with pyorc.Writer(file, schema) as writer:
        writer.writerows(rows)
    source = BytesSource(file.getvalue())
    return list(json_lines(source, read_tail(source)))


def test_texts_are_cut_and_trimmed_as_their_type_says() -> None:
    found = lines("struct<a:string,b:varchar(2),c:char(4)>", (" a ", "xyz", "a"), (None, None, None))
    assert found == ['{"a":" a ","b":"xy","c":"a"}', '{"a":null,"b":null,"c":null}']


def test_numbers_are_javas() -> None:
    found = lines("struct<a:double,b:float,c:tinyint,d:boolean>", (1e7, 0.1, -1, True), (float("nan"), 1.0, 0, False))
    assert found[0] == '{"a":1.0E7,"b":0.10000000149011612,"c":-1,"d":true}'
    assert found[1].startswith('{"a":NaN,')


def test_what_is_inside_others() -> None:
    schema = "struct<a:array<struct<x:int>>,b:map<string,array<int>>,c:binary>"
    found = lines(schema, ([(1,), None], [("k", [None])], b"\x00\xff"), ([], [], b""))
    assert found == ['{"a":[{"x":1},null],"b":[{"_key":"k","_value":[null]}],"c":[0,255]}', '{"a":[],"b":[],"c":[]}']


def test_encrypted_rows_are_refused() -> None:
    file = io.BytesIO()
    pyorc.Writer(file, "struct<a:int>").close()
    source = BytesSource(file.getvalue())
    with pytest.raises(NotLossless, match="encrypted"):
        list(json_lines(source, replace(read_tail(source), encrypted=True)))
