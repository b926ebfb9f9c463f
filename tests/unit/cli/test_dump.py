from __future__ import annotations

import json
from pathlib import Path

import pyorc
import pytest
from click.testing import CliRunner

from compactor.cli.context import CliContext
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
    done = CliRunner().invoke(dump, [str(file)], obj=CliContext())
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"a": 1, "b": "é"}, {"a": 2, "b": None}]
    assert "é" in done.stdout


def test_metadata_is_that_of_the_tail(file: Path) -> None:
    output = json.loads(CliRunner().invoke(dump, [str(file), "--meta"], obj=CliContext()).stdout)
    assert (output["path"], output["length"], output["rows"]) == (str(file), file.stat().st_size, 2)
    assert (output["acid"], output["encrypted"], output["compression"]) == (False, False, "ZSTD")
    assert (output["file_version"], [stripe["rows"] for stripe in output["stripes"]]) == ("0.12", [2])
    assert output["user_metadata"] == {"note": "\ufffdx"}


def test_metadata_is_printed_as_json(file: Path) -> None:
    found = metadata(read_tail(BytesSource(file.read_bytes())))
    assert json.loads(json.dumps(found)) == found


def test_a_file_that_is_not_orc_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a,b\n1,2\n", "utf-8")
    done = CliRunner().invoke(dump, [str(tmp_path / "f")], obj=CliContext())
    assert isinstance(done.exception, BadFile)
    assert CliRunner().invoke(dump, [str(tmp_path)], obj=CliContext()).exit_code == 2


def test_a_file_that_describes_too_much_is_refused_unless_more_is_allowed(file: Path) -> None:
    few = CliContext(flags={"compactor.file.columns": "2", "url": "sqlite://"})
    done = CliRunner().invoke(dump, [str(file)], obj=few)
    assert isinstance(done.exception, BadFile)
    assert "compactor.file.columns" in str(done.exception)
    assert CliRunner().invoke(dump, [str(file)], obj=CliContext(flags={"compactor.file.columns": "3"})).exit_code == 0
