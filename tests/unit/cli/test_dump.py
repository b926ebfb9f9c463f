from __future__ import annotations

import json
from pathlib import Path

import pyorc
import pytest
from click.testing import CliRunner

from compactor.cli.context import Face
from compactor.cli.dump import dump, metadata
from compactor.errors import BadFile
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "000000_0"
    with (
        open(path, "wb") as out,
        pyorc.Writer(out, "struct<a:int,b:string>", compression=pyorc.CompressionKind.ZSTD) as w,
    ):
        w.writerows([(1, "é"), (2, None)])
        w.set_user_metadata(note=b"\xffx")
    return path


def test_rows_are_json_lines_without_escapes(file: Path) -> None:
    done = CliRunner().invoke(dump, [str(file)], obj=Face())
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"a": 1, "b": "é"}, {"a": 2, "b": None}]
    assert "é" in done.stdout


def test_metadata_is_that_of_the_tail(file: Path) -> None:
    told = json.loads(CliRunner().invoke(dump, [str(file), "--meta"], obj=Face()).stdout)
    assert (told["path"], told["length"], told["rows"]) == (str(file), file.stat().st_size, 2)
    assert (told["acid"], told["encrypted"], told["compression"]) == (False, False, "ZSTD")
    assert (told["file_version"], [stripe["rows"] for stripe in told["stripes"]]) == ("0.12", [2])
    assert told["user_metadata"] == {"note": "\ufffdx"}


def test_metadata_is_json_as_it_is(file: Path) -> None:
    found = metadata(read_tail(BytesSource(file.read_bytes())))
    assert json.loads(json.dumps(found)) == found


def test_what_is_no_orc_is_a_bad_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a,b\n1,2\n", "utf-8")
    done = CliRunner().invoke(dump, [str(tmp_path / "f")], obj=Face())
    assert isinstance(done.exception, BadFile)
    assert CliRunner().invoke(dump, [str(tmp_path)], obj=Face()).exit_code == 2
