from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from compactor.cli import hive_dump
from compactor.cli.context import FAILED, CliContext
from compactor.cli.dump import dump
from compactor.cli.hive_dump import SEPARATOR
from tests.support.downloads import ROOT
from tests.support.orcfiledump import FILES, GOLDEN, cases
from tests.support.time_zone import time_zone

MORE = "Data file has more data than max footer offset:{}. Adding data file to recovery list.\n"
CORRUPT = "1 file(s) are corrupted. Run the following command to recover corrupted files.\n\n"
RECOVER = "hive --orcfiledump --recover --skip-dump {}\n"


@pytest.fixture(autouse=True)
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


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_printed(file: Path) -> None:
    file.with_name("a").write_bytes(b"no ORC")
    for options in ([], ["-d"]):
        done = dumped(*options, file.parent)
        assert done.exit_code == FAILED
        assert f"compactor: file {file.parent}/a: " in done.stderr
        assert done.stdout.count(SEPARATOR) == 1


def test_unions_are_described_and_their_rows_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unions = GOLDEN / "samples" / "unions.orc"
    assert dumped(unions).exit_code == 0
    done = dumped("-d", unions)
    assert (done.exit_code, done.stdout) == (FAILED, "")
    assert "uniontype<int,string>" in done.stderr


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


def test_a_file_to_recover_is_named_as_a_uri(file: Path) -> None:
    odd = file.rename(file.with_name("é 1%"))
    side_file(odd, rest=b"cut")
    assert dumped(odd).stderr.endswith(RECOVER.format(f"{odd.parent}/é%201%25"))


def test_texts_control_no_terminal_and_are_untouched_elsewhere(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{character}[31m" for character in ("\x1b", "\x9b", "\x7f")]
    monkeypatch.setattr(hive_dump, "structure", lambda *_: iter(lines))
    assert dumped(file).stdout.splitlines()[:3] == lines
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(hive_dump, "sys", terminal)
    assert dumped(file).stdout.splitlines()[:3] == ["\ufffd[31m"] * 3


def test_output_is_utf_8_whatever_the_locale(file: Path) -> None:
    texts = GOLDEN / "samples" / "texts.orc"
    program = "import sys; from compactor.cli import main; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1:strict"}
    for options in ([], ["-d"]):
        command = [sys.executable, "-c", program, "dump", "--hive", *options, str(texts)]
        done = subprocess.run(command, capture_output=True, check=True, env=environment, cwd=ROOT)
        assert done.stdout == dumped(*options, texts).stdout_bytes


def test_a_file_with_a_name_that_is_no_text(file: Path) -> None:
    odd = file.rename(os.fsdecode(os.fsencode(file) + b"\xff"))
    done = dumped(odd)
    assert done.exit_code == 0
    assert done.stdout_bytes.startswith(b"Structure for " + os.fsencode(odd) + b"\n")
    several = CliRunner().invoke(dump, [str(odd), str(odd)], obj=CliContext())
    assert several.exit_code == 0
    assert several.stdout.startswith(f"==> {file}\ufffd <==\n")
